/* SPDX-License-Identifier: Apache-2.0 */
#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

static _Thread_local char message[1024];
static _Thread_local enum taut_status last;

static void keep(const char *fmt, va_list ap)
{
	char text[sizeof(message)]; /* an argument may be the old message */

	vsnprintf(text, sizeof(text), fmt, ap);
	memcpy(message, text, sizeof(message));
}

enum taut_status fail(enum taut_status st, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	keep(fmt, ap);
	va_end(ap);
	last = st;
	log_err(LOG_BASE, "%s", message);
	return st;
}

enum taut_status fail_quiet(enum taut_status st, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	keep(fmt, ap);
	va_end(ap);
	last = st;
	return st;
}

static enum taut_status errno_status(int err)
{
	switch (err) {
	case ENOMEM:
		return TAUT_ERR_NOMEM;
	case ETIMEDOUT:
		return TAUT_ERR_TIMEOUT;
	case ECONNREFUSED:
	case ECONNRESET:
	case EPIPE:
	case ENETUNREACH:
	case EHOSTUNREACH:
	case EADDRINUSE:
	case EADDRNOTAVAIL:
		return TAUT_ERR_NET;
	default:
		return TAUT_ERR_SYS;
	}
}

enum taut_status errno_fail(int err, const char *fmt, ...)
{
	size_t len;
	va_list ap;

	va_start(ap, fmt);
	keep(fmt, ap);
	va_end(ap);
	len = strlen(message);
	snprintf(message + len, sizeof(message) - len, ": %s", strerror(err));
	last = errno_status(err);
	log_err(LOG_BASE, "%s", message);
	return last;
}

void status_clear_message(void)
{
	message[0] = '\0';
	last = TAUT_OK;
}

enum taut_status status_last(void)
{
	return last;
}

const char *taut_error_message(void)
{
	return message;
}

int taut_version(void)
{
	return TAUT_VERSION_MAJOR * 10000 + TAUT_VERSION_MINOR * 100 + TAUT_VERSION_PATCH;
}

const char *taut_status_name(enum taut_status status)
{
	static const char *const names[] = {
		[TAUT_OK] = "TAUT_OK",
		[TAUT_ERR_ARG] = "TAUT_ERR_ARG",
		[TAUT_ERR_NOMEM] = "TAUT_ERR_NOMEM",
		[TAUT_ERR_SYS] = "TAUT_ERR_SYS",
		[TAUT_ERR_NET] = "TAUT_ERR_NET",
		[TAUT_ERR_TIMEOUT] = "TAUT_ERR_TIMEOUT",
		[TAUT_ERR_PEER] = "TAUT_ERR_PEER",
		[TAUT_ERR_MISMATCH] = "TAUT_ERR_MISMATCH",
		[TAUT_ERR_ABORTED] = "TAUT_ERR_ABORTED",
		[TAUT_ERR_AUTH] = "TAUT_ERR_AUTH",
		[TAUT_ERR_CONFIG] = "TAUT_ERR_CONFIG",
		[TAUT_ERR_UNSUPPORTED] = "TAUT_ERR_UNSUPPORTED",
		[TAUT_ERR_BUSY] = "TAUT_ERR_BUSY",
		[TAUT_ERR_INTERNAL] = "TAUT_ERR_INTERNAL",
	};

	if ((unsigned)status >= sizeof(names) / sizeof(names[0]))
		return "unknown status";
	return names[status];
}
