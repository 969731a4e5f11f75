/* SPDX-License-Identifier: Apache-2.0 */
/* Settings: read once, at create, into a struct that is passed down; no globals. A value
 * comes from the environment (own name, then NCCL's alias), else from a file (TAUT_CONFIG,
 * else ~/.config/taut.conf, then /etc/taut.conf: NAME=VALUE lines), else from the table in
 * config.def. This room is the only one that calls getenv(). */
#ifndef BASE_CONFIG_H
#define BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct config {
#define SET_INT(field, env, alias, dflt, lo, hi, doc) int field;
#define SET_SIZE(field, env, alias, dflt, lo, hi, doc) size_t field;
#define SET_STR(field, env, alias, dflt, doc) char *field;
#define SET_ENUM(field, env, alias, dflt, names, doc) int field;
#define SET_WORD(field, env, alias, dflt, names, doc) char *field;
#include "base/config.def"
#undef SET_INT
#undef SET_SIZE
#undef SET_STR
#undef SET_ENUM
#undef SET_WORD
};

/* On a bad value: TAUT_ERR_CONFIG, naming variable, value, limits and doc; but a bad one of a NCCL_* name is warned of
 * once, and the default taken. An unknown TAUT_* name in the environment is warned of once, with the nearest known
 * name. */
enum taut_status config_load(struct config *out);
/* The defaults alone, for tests and simulators. */
enum taut_status config_defaults(struct config *out);
enum taut_status config_set(struct config *cfg, const char *name, const char *value);
enum taut_status config_copy(struct config *out, const struct config *cfg);
void config_cleanup(struct config *cfg);

/* An environment variable that is no setting (a launcher's); NULL when unset or empty. */
const char *config_env(const char *name);

/* NCCL's name of setting @name, by which to speak of it to programs for NCCL; NULL where there is none, or where @name
 * itself is set. */
const char *config_alias(const char *name);

/* Warns of every TAUT_* name of the environment and the files that is no setting, as the first config_load() does. */
void config_check_names(void);
/* For programs that are built for NCCL, once the log is as they want it (log_init(), log_set_form()). A NCCL_*
 * variable of the environment that is not known is warned of, with the nearest known name; one that
 * taut has no use for is told of at level info, with the reason. Once a process, on the
 * first rank of a machine; further calls do nothing. */
void config_check_nccl_names(void);
/* Does NCCL_DEBUG, as it is in force, ask for the version as a line by itself (log_plain())? So it is for VERSION and
 * WARN, where NCCL prints it on rank 0; from INFO on it is a line of the log on every process: log_info(). */
bool config_nccl_version_wanted(void);

/* One row of the table, for `taut settings` and the man page. */
struct setting {
	const char *name, *alias, *kind, *dflt, *limits, *doc;
};
struct setting_value {
	const struct setting *setting;
	char value[256];
	char source[288]; /* "default", "environment (NCCL_DEBUG)", "file /etc/taut.conf:3" */
};
size_t config_count(void);
/* Row @i, 0..config_count()-1; NULL past the end. */
const struct setting *config_setting(size_t i);
/* The same with what config_load() would take. */
enum taut_status config_describe(size_t i, struct setting_value *out);

#endif
