/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/config.h"

struct log_state log_now = { LOG_WARN, (unsigned)LOG_ALL };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static log_sink_fn sink;
static void *sink_ctx;
static FILE *file; /* NULL: standard error */

static const struct {
	const char *name;
	unsigned bit;
} modules[] = {
	{ "base", LOG_BASE }, { "topo", LOG_TOPO }, { "sched", LOG_SCHED },
	{ "boot", LOG_BOOT }, { "wire", LOG_WIRE }, { "exec", LOG_EXEC },
	{ "comm", LOG_COMM }, { "tool", LOG_TOOL }, { "all", (unsigned)LOG_ALL },
};

static unsigned module_bits(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++)
		if (strlen(modules[i].name) == len && !strncasecmp(modules[i].name, name, len))
			return modules[i].bit;
	return 0;
}

/* Once, for the first word; NCCL's names for rooms that taut does not have are gone by now. */
static void warn_module(const char *name, size_t len)
{
	static int said;

	if (said++ || !len)
		return;
	fprintf(stderr,
		"taut: TAUT_LOG_SUBSYS: no room is called \"%.*s\": expected base, topo, sched, boot, wire, exec, "
		"comm, "
		"tool or all\n",
		(int)len, name);
}

static unsigned parse_modules(const char *text)
{
	int without = *text == '^';
	unsigned bits = 0;

	text += without;
	while (*text) {
		size_t len = strcspn(text, ",");

		if (!module_bits(text, len))
			warn_module(text, len);
		bits |= module_bits(text, len);
		text += len + (text[len] == ',');
	}
	return without ? (unsigned)LOG_ALL & ~bits : bits;
}

void log_expand(char *out, size_t len, const char *pattern)
{
	size_t at = 0;

	for (; *pattern && at + 1 < len; pattern++) {
		if (pattern[0] == '%' && pattern[1] == 'h') {
			char host[64] = "";

			gethostname(host, sizeof(host) - 1);
			at += (size_t)snprintf(out + at, len - at, "%s", host);
			pattern++;
		} else if (pattern[0] == '%' && pattern[1] == 'p') {
			at += (size_t)snprintf(out + at, len - at, "%d", (int)getpid());
			pattern++;
		} else {
			out[at++] = *pattern;
		}
		if (at >= len)
			at = len - 1;
	}
	out[at] = '\0';
}

void log_init(const struct config *cfg)
{
	char path[512];

	pthread_mutex_lock(&lock);
	log_now.level = cfg->log_level;
	log_now.modules = parse_modules(cfg->log_modules);
	if (cfg->log_file[0] && !file) {
		log_expand(path, sizeof(path), cfg->log_file);
		file = fopen(path, "ae");
		if (!file)
			fprintf(stderr, "taut: cannot open log file %s: logging to standard error\n", path);
	}
	pthread_mutex_unlock(&lock);
}

void log_set_sink(log_sink_fn fn, void *ctx)
{
	pthread_mutex_lock(&lock);
	sink = fn;
	sink_ctx = ctx;
	pthread_mutex_unlock(&lock);
}

void log_write(enum log_level level, enum log_module module, const char *fmt, ...)
{
	static const char *const names[] = { "", "ERR", "WARN", "INFO", "DEBUG" };
	char text[2048], host[64] = "";
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	pthread_mutex_lock(&lock);
	if (sink) {
		sink(level, module, text, sink_ctx);
	} else {
		FILE *to = file ? file : stderr;

		gethostname(host, sizeof(host) - 1);
		fprintf(to, "%s:%d:%ld taut %s %s\n", host, (int)getpid(), (long)syscall(SYS_gettid), names[level],
			text);
		fflush(to);
	}
	pthread_mutex_unlock(&lock);
}
