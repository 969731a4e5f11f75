/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/config.h"

struct log_state log_now = { LOG_WARN, (unsigned)LOG_ALL, LOG_NONE };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static log_sink_fn sink;
static void *sink_ctx;
static FILE *file; /* NULL: a standard stream, which the form says */
static enum log_form form;
static bool to_output;
static void (*_Atomic words)(char *out, size_t len, const char *text);
static _Thread_local int device; /* which NCCL's lines name */

static const struct {
	const char *name;
	unsigned bit;
} modules[] = {
	{ "base", LOG_BASE }, { "topo", LOG_TOPO },	    { "sched", LOG_SCHED }, { "boot", LOG_BOOT },
	{ "wire", LOG_WIRE }, { "exec", LOG_EXEC },	    { "cuda", LOG_CUDA },   { "comm", LOG_COMM },
	{ "tool", LOG_TOOL }, { "all", (unsigned)LOG_ALL },
};
enum { MODULES = sizeof(modules) / sizeof(modules[0]) };

static unsigned module_bits(const char *name, size_t len)
{
	for (size_t i = 0; i < MODULES; i++)
		if (strlen(modules[i].name) == len && !strncasecmp(modules[i].name, name, len))
			return modules[i].bit;
	return 0;
}

static const char *module_names(char *out, size_t len)
{
	size_t at = 0;

	for (size_t i = 0; i < MODULES && at < len; i++)
		at += (size_t)snprintf(out + at, len - at, "%s%s", modules[i].name,
				       i + 2 < MODULES	 ? ", "
				       : i + 1 < MODULES ? " or "
							 : "");
	return out;
}

/* Once, for the first word; NCCL's names for rooms that taut does not have are gone by now. */
static void warn_module(const char *name, size_t len)
{
	static int said;
	char names[128];

	if (said++ || !len)
		return;
	fprintf(stderr, "taut: TAUT_LOG_SUBSYS: no room is called \"%.*s\": expected %s\n", (int)len, name,
		module_names(names, sizeof(names)));
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
	static char bad[512]; /* said already */
	char path[512];

	pthread_mutex_lock(&lock);
	log_now.level = cfg->log_level;
	log_now.modules = parse_modules(cfg->log_modules);
	if (cfg->log_file[0] && !file) {
		log_expand(path, sizeof(path), cfg->log_file);
		file = fopen(path, "ae");
		if (!file && strcmp(path, bad) != 0) {
			fprintf(stderr, "taut: cannot open log file %s: %s: logging to standard %s\n", path,
				strerror(errno), to_output ? "output" : "error");
			snprintf(bad, sizeof(bad), "%s", path);
		}
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

void log_set_form(enum log_form now)
{
	pthread_mutex_lock(&lock);
	form = now;
	/* Where nobody asked for lines, warnings stay out of what a program prints. */
	to_output = now == LOG_FORM_NCCL && config_env("NCCL_DEBUG");
	log_now.unfiltered = now == LOG_FORM_NCCL ? LOG_WARN : LOG_NONE;
	pthread_mutex_unlock(&lock);
}

void log_set_words(void (*fn)(char *out, size_t len, const char *text))
{
	atomic_store(&words, fn);
}

void log_set_device(int now)
{
	device = now;
}

static FILE *stream(void)
{
	return file ? file : to_output ? stdout : stderr;
}

/* NCCL sets its warnings off by an empty line, and cuts a host's name at the first dot. */
static void describe_line(char *out, size_t len, enum log_level level)
{
	static const char *const ours[] = { "", "ERR", "WARN", "INFO", "DEBUG" };
	static const char *const theirs[] = { "", "WARN", "WARN", "INFO", "TRACE" };
	int pid = (int)getpid();
	long tid = (long)syscall(SYS_gettid);
	char host[64] = "";

	gethostname(host, sizeof(host) - 1);
	if (form == LOG_FORM_NCCL)
		snprintf(out, len, "%s%.*s:%d:%ld [%d] NCCL %s ", level <= LOG_WARN ? "\n" : "",
			 (int)strcspn(host, "."), host, pid, tid, device, theirs[level]);
	else
		snprintf(out, len, "%s:%d:%ld taut %s ", host, pid, tid, ours[level]);
}

/* In one piece: standard error has no buffer, and other ranks write to it too. */
static void put_line(enum log_level level, enum log_module module, const char *text)
{
	char head[160] = "";
	FILE *to;

	pthread_mutex_lock(&lock);
	if (sink) {
		sink(level, module, text, sink_ctx);
	} else {
		if (level != LOG_NONE)
			describe_line(head, sizeof(head), level);
		to = stream();
		fprintf(to, "%s%s\n", head, text);
		fflush(to);
	}
	pthread_mutex_unlock(&lock);
}

void log_write(enum log_level level, enum log_module module, const char *fmt, ...)
{
	void (*translate)(char *out, size_t len, const char *line) = atomic_load(&words);
	char text[2048], other[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (translate)
		translate(other, sizeof(other), text);
	put_line(level, module, translate ? other : text);
}

void log_plain(const char *text)
{
	put_line(LOG_NONE, LOG_ALL, text);
}
