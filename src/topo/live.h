/* SPDX-License-Identifier: Apache-2.0 */
/* A machine from its files and what the driver says: what this machine, a folder and a capture have in common. */
#ifndef TOPO_LIVE_H
#define TOPO_LIVE_H

#include "topo/fs.h"
#include "topo/nvml.h"

/* @facts NULL: the driver says nothing, for which @why (may be "") is the reason. */
enum taut_status live_build(struct topo **out, const char *source, struct topo_fs *fs, const struct nvml_facts *facts,
			    const char *why);
/* The text of a capture of the same. */
enum taut_status capture_make(char **out, struct topo_fs *fs, const struct nvml_facts *facts, const char *why);

/* This machine: its files, and what the driver says (NULL: @why it does not). The caller's: fs_close(), nvml_free(). */
enum taut_status live_open(struct topo_fs **fs, struct nvml_facts **facts, char *why, size_t len);

#endif
