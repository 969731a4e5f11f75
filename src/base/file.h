/* SPDX-License-Identifier: Apache-2.0 */
/* Files that taut keeps for later runs: where they are, and how they are replaced. Functions that
 * can fail return 0 or an errno value, for the caller's sentence. No state; any thread. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stddef.h>

#include "base/status.h"

/* $XDG_CACHE_HOME/taut/@name, else ~/.cache/taut/@name; "" when neither variable is set.
 * TAUT_ERR_CONFIG when that is longer than @len. */
enum taut_status file_cache_path(char *out, size_t len, const char *name);
/* Whether file_replace() will be able to, for those who work long before it: makes the folder. */
int file_can_replace(const char *path);
/* Makes the folder if need be; a reader sees the old file or the whole new one. */
int file_replace(const char *path, const char *text, size_t len);
/* At most @cap bytes of a regular file; ENOENT and so on, EFBIG when there are more. */
int file_read(size_t *got, char *buf, size_t cap, const char *path);

#endif
