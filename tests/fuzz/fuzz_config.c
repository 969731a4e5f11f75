/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as a settings file: the parser, then each line as a setting, under its own name
 * and, for the words of NCCL's variables, under each alias. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#include "base/config.h"
#include "base/config_file.h"

static void check_entry(const struct config_file *file, const struct config_entry *e, int line_before)
{
	if (!*e->name || strpbrk(e->name, "= \t\n") || strchr(e->value, '\n') || e->line <= line_before)
		abort();
	if (e->name < file->text || !config_file_find(file, e->name))
		abort();
}

static void set_all(struct config *cfg, const struct config_entry *e)
{
	config_set(cfg, e->name, e->value);
	for (size_t i = 0; i < config_count(); i++)
		if (*config_setting(i)->alias)
			config_set(cfg, config_setting(i)->alias, e->value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct config_file file;
	struct config cfg;

	log_set_sink(drop_line, NULL);
	if (config_file_parse(&file, (const char *)data, len, "fuzz"))
		return 0;
	if (config_defaults(&cfg))
		abort();
	for (size_t i = 0; i < file.count; i++) {
		check_entry(&file, &file.entries[i], i ? file.entries[i - 1].line : 0);
		set_all(&cfg, &file.entries[i]);
	}
	config_cleanup(&cfg);
	config_file_cleanup(&file);
	return 0;
}
