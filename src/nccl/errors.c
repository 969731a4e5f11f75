/* SPDX-License-Identifier: Apache-2.0 */
/* Failures: NCCL's codes, and the sentence of the last one of a communicator, of a thread and of the process. A thread
 * asks for its own, lest another's that failed meanwhile be taken for it; one that has had none (a watchdog) for the
 * process's. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "nccl/state.h"

static pthread_mutex_t last_lock = PTHREAD_MUTEX_INITIALIZER;
static char last_text[1024];
static _Thread_local char own_text[1024];

ncclResult_t nccl_code(enum taut_status st)
{
	switch (st) {
	case TAUT_OK:
		return ncclSuccess;
	case TAUT_ERR_ARG:
		return ncclInvalidArgument;
	case TAUT_ERR_MISMATCH:
	case TAUT_ERR_CONFIG:
	case TAUT_ERR_UNSUPPORTED:
		return ncclInvalidUsage;
	case TAUT_ERR_NET:
	case TAUT_ERR_TIMEOUT:
	case TAUT_ERR_PEER:
	case TAUT_ERR_ABORTED:
		return ncclRemoteError;
	case TAUT_ERR_NOMEM:
	case TAUT_ERR_SYS:
	case TAUT_ERR_AUTH:
		return ncclSystemError;
	case TAUT_ERR_BUSY:
		return ncclInProgress;
	case TAUT_ERR_INTERNAL:
		break;
	}
	return ncclInternalError;
}

static void keep(struct ncclComm *comm, const char *text)
{
	char words[1024];

	nccl_words(words, sizeof(words), text);
	memcpy(own_text, words, sizeof(words));
	pthread_mutex_lock(&last_lock);
	memcpy(last_text, words, sizeof(words));
	pthread_mutex_unlock(&last_lock);
	if (!comm)
		return;
	pthread_mutex_lock(&comm->lock);
	memcpy(comm->text, words, sizeof(words));
	pthread_mutex_unlock(&comm->lock);
}

void nccl_keep(struct ncclComm *comm, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	keep(comm, text);
}

ncclResult_t nccl_fail(struct ncclComm *comm, ncclResult_t r, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fail(TAUT_ERR_ARG, "%s", text); /* for the log */
	keep(comm, text);
	return r;
}

ncclResult_t nccl_status(struct ncclComm *comm, enum taut_status st)
{
	if (st)
		keep(comm, taut_error_message());
	return nccl_code(st);
}

const char *ncclGetErrorString(ncclResult_t result)
{
	static const char *const names[ncclNumResults] = {
		"no error",
		"unhandled cuda error (ncclGetLastError() says more)",
		"unhandled system error (ncclGetLastError() says more)",
		"internal error (a bug in taut: ncclGetLastError() says more)",
		"invalid argument (ncclGetLastError() says which)",
		"invalid usage (ncclGetLastError() says of what)",
		"remote process exited or there was a network error (ncclGetLastError() says which)",
		"NCCL operation in progress",
	};

	return (unsigned)result < ncclNumResults ? names[result] : "unknown result code";
}
PROFILED(ncclGetErrorString);

static bool copy_text(char *out, size_t len, const char *text, pthread_mutex_t *lock)
{
	pthread_mutex_lock(lock);
	snprintf(out, len, "%s", text);
	pthread_mutex_unlock(lock);
	return *out;
}

void nccl_adopt(struct ncclComm *comm)
{
	char text[1024];

	if (copy_text(text, sizeof(text), comm->text, &comm->lock))
		memcpy(own_text, text, sizeof(own_text));
}

const char *ncclGetLastError(ncclComm_t comm)
{
	static _Thread_local char text[1024];
	bool found = false;

	if (comm && comm->magic == COMM_MAGIC)
		found = copy_text(text, sizeof(text), comm->text, &comm->lock);
	if (!found && *own_text)
		memcpy(text, own_text, sizeof(text));
	else if (!found)
		copy_text(text, sizeof(text), last_text, &last_lock);
	return text;
}
PROFILED(ncclGetLastError);
