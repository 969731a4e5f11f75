/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines. Level and module are tested before arguments are formatted; one sink (TAUT_LOG_FILE, else a
 * standard stream), replaceable for tests. Any thread.
 *   err: the call fails; warn: goes on, but slower or odd; info: once a communicator;
 *   debug: per object. Lower case, no full stop, "gpu %d" rather than "gpu=%d". */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stddef.h>

enum log_level { LOG_NONE, LOG_ERR, LOG_WARN, LOG_INFO, LOG_DEBUG };

enum log_module {
	LOG_BASE = 1 << 0,
	LOG_TOPO = 1 << 1,
	LOG_SCHED = 1 << 2,
	LOG_BOOT = 1 << 3,
	LOG_WIRE = 1 << 4,
	LOG_EXEC = 1 << 5,
	LOG_COMM = 1 << 6,
	LOG_TOOL = 1 << 7,
	LOG_CUDA = 1 << 8,
	LOG_ALL = ~0,
};

/* What a line of the default sink looks like, and where it goes without a file.
 *   TAUT  "host:pid:tid taut WARN text" to standard error
 *   NCCL  "host:pid:tid [device] NCCL INFO text" to standard output, as programs and scripts that know NCCL expect it,
 *         where NCCL_DEBUG asks for lines, else to standard error;
 *         err and warn are WARN and come after an empty line, debug is TRACE; NCCL_DEBUG_SUBSYS
 *         chooses among info and debug only */
enum log_form { LOG_FORM_TAUT, LOG_FORM_NCCL };

typedef void (*log_sink_fn)(enum log_level level, enum log_module module, const char *line, void *ctx);

struct log_state {
	_Atomic int level; /* a communicator may be made while another thread logs */
	_Atomic unsigned modules;
	_Atomic int unfiltered; /* levels up to this are logged whatever the module */
};
extern struct log_state log_now; /* written by log_init() and log_set_form() only */

struct config;
/* Takes level, modules and file from @cfg. Called by config users at create; safe to repeat. */
void log_init(const struct config *cfg);
/* NULL restores the default sink. */
void log_set_sink(log_sink_fn fn, void *ctx);
/* TAUT until it is called. */
void log_set_form(enum log_form form);
/* Every line goes through @fn, which writes @len bytes at most to @out; NULL: as it is. */
void log_set_words(void (*fn)(char *out, size_t len, const char *text));
/* The number of the CUDA device in this thread's lines of NCCL's form; 0 until it is called. */
void log_set_device(int device);
/* A file name of the settings: %h is the host's name, %p the process id. Cut to fit. */
void log_expand(char *out, size_t len, const char *pattern);
void log_write(enum log_level level, enum log_module module, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* A line by itself, without head, whatever the level: the version, where NCCL_DEBUG asks for it. A replaced sink
 * gets it at LOG_NONE. */
void log_plain(const char *text);

#define log_at(level_, module_, ...)                                                                                   \
	do {                                                                                                           \
		if (log_now.level >= (level_) &&                                                                       \
		    ((level_) <= log_now.unfiltered || (log_now.modules & (unsigned)(module_))))                       \
			log_write((level_), (module_), __VA_ARGS__);                                                   \
	} while (0)
#define log_err(module_, ...) log_at(LOG_ERR, module_, __VA_ARGS__)
#define log_warn(module_, ...) log_at(LOG_WARN, module_, __VA_ARGS__)
#define log_info(module_, ...) log_at(LOG_INFO, module_, __VA_ARGS__)
#define log_debug(module_, ...) log_at(LOG_DEBUG, module_, __VA_ARGS__)

#endif
