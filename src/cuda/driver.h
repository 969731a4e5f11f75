/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's driver, found at run time: one build runs with and without it. The types and values
 * below are those of its stable interface (cuda.h), of which a test compares what it can. */
#ifndef CUDA_DRIVER_H
#define CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct cu_ctx;
struct cu_stream;
struct cu_module;
struct cu_function;
struct cu_event;
struct cu_ipc_handle {
	char bytes[64];
};

struct cu_fabric_handle {
	char bytes[64];
};
struct cu_access { /* how memory is seen from a place */
	int kind, device;
	unsigned flags;
};

struct cu_launch_attribute {
	int id, pad, value, rest[15]; /* value: of a union of 64 bytes */
};
struct cu_launch {
	unsigned grid[3], block[3], shared_bytes;
	struct cu_stream *stream;
	struct cu_launch_attribute *attributes;
	unsigned nattributes;
};

enum { CU_OK = 0, CU_NOT_READY = 600, CU_PEER_ENABLED = 704, CU_NOT_SUPPORTED = 801 };
enum {
	CU_DEVICE_SMS = 16,
	CU_DEVICE_SHARED_MOST = 97, /* of a block that asks for it */
};
enum {
	CU_POINTER_CONTEXT = 1,
	CU_POINTER_TYPE = 2,
	CU_POINTER_BUFFER_ID = 7,
	CU_POINTER_START = 11,
	CU_POINTER_SIZE = 12,
	CU_POINTER_HANDLES = 14,
	CU_POINTER_POOL = 17,
};
enum { CU_TYPE_DEVICE = 2 };
enum { CU_NON_BLOCKING = 1, CU_EVENT_NO_TIMING = 2 };
enum { CU_CAPTURE_NONE = 0 };
enum { CU_STREAM_PER_THREAD = 2 }; /* each thread's default stream; names before it are of that of all */
enum { CU_CAPTURE_RELAXED = 2 };
enum { CU_HOST_PORTABLE = 1, CU_HOST_MAPPED = 2 };
enum { CU_REGISTER_PORTABLE = 1, CU_REGISTER_MAPPED = 2 };
enum { CU_P2P_ATOMICS = 3 };
enum { CU_IPC_LAZY_PEER = 1 };
enum { CU_HANDLE_FD = 1, CU_HANDLE_FABRIC = 8, CU_LOCATION_DEVICE = 1, CU_ACCESS_READ_WRITE = 3 };
enum { CU_FUNCTION_SHARED = 1, CU_FUNCTION_PTX_VERSION = 5, CU_FUNCTION_SHARED_MOST = 8 };
enum { CU_LAUNCH_EARLY = 6 }; /* programmatic stream serialization */

struct cuda_driver {
#define CU(name, symbol, params) int(*name) params;
#include "cuda/driver.def"
#undef CU
};

/* The driver, loaded and started at the first call; NULL when there is none or it does not work, with
 * why in *@why (may be NULL; static). Any thread. */
const struct cuda_driver *cuda_driver(const char **why);
/* The same if this process has loaded the driver already: does not load it for programs that
 * have nothing to do with a GPU. */
const struct cuda_driver *cuda_driver_if_used(void);
/* TAUT_OK, or the sentence "@what: error of the driver". */
enum taut_status cuda_st(int result, const char *what);

#endif
