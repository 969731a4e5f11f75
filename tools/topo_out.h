/* SPDX-License-Identifier: Apache-2.0 */
/* A file that is there whole or not at all. */
#ifndef TOPO_OUT_H
#define TOPO_OUT_H

#include <stddef.h>

#include "base/status.h"

/* Writes @text to @path: a regular file is replaced when all of it is written, anything else (a terminal, a
 * pipe) is written to; "-" is standard output. */
enum taut_status topo_write_file(const char *path, const char *text, size_t len);

#endif
