/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzz targets share. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Also where assert() does nothing. */
static inline void must(bool holds)
{
	if (!holds)
		abort();
}

/* A sink for the log: what is refused is said for nobody. */
static inline void drop_line(enum log_level level, enum log_module module, const char *line, void *ctx)
{
	(void)level;
	(void)module;
	(void)line;
	(void)ctx;
}

#endif
