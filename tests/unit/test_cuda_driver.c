/* SPDX-License-Identifier: Apache-2.0 */
/* The values of the driver's interface against cuda.h, where the toolkit is; and a machine without driver. */
#include <dlfcn.h>

#include "cuda/driver.h"
#include "cuda/gpu.h"
#include "unit.h"

#if __has_include(<cuda.h>)
#include <cuda.h>
#define SAME(a, b) _Static_assert((int)(a) == (int)(b), #a)
SAME(CU_OK, CUDA_SUCCESS);
SAME(CU_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME(CU_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(CU_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED);
SAME(CU_PEER_ENABLED, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
SAME(CU_DEVICE_SMS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(CU_POINTER_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME(CU_POINTER_BUFFER_ID, CU_POINTER_ATTRIBUTE_BUFFER_ID);
SAME(CU_POINTER_START, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
SAME(CU_POINTER_SIZE, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
SAME(CU_POINTER_CONTEXT, CU_POINTER_ATTRIBUTE_CONTEXT);
SAME(CU_POINTER_HANDLES, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES);
SAME(CU_POINTER_POOL, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);
SAME(CU_HANDLE_FD, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME(CU_HANDLE_FABRIC, CU_MEM_HANDLE_TYPE_FABRIC);
SAME(CU_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
SAME(CU_ACCESS_READ_WRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME(CU_TYPE_DEVICE, CU_MEMORYTYPE_DEVICE);
SAME(CU_CAPTURE_NONE, CU_STREAM_CAPTURE_STATUS_NONE);
SAME(CU_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(CU_EVENT_NO_TIMING, CU_EVENT_DISABLE_TIMING);
SAME(CU_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
SAME(CU_HOST_MAPPED, CU_MEMHOSTALLOC_DEVICEMAP);
SAME(CU_REGISTER_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE);
SAME(CU_REGISTER_MAPPED, CU_MEMHOSTREGISTER_DEVICEMAP);
SAME(CU_P2P_ATOMICS, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED);
SAME(CU_IPC_LAZY_PEER, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
SAME(CU_FUNCTION_PTX_VERSION, CU_FUNC_ATTRIBUTE_PTX_VERSION);
SAME(CU_FUNCTION_SHARED, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SAME(CU_FUNCTION_SHARED_MOST, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(CU_DEVICE_SHARED_MOST, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME(CU_LAUNCH_EARLY, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
SAME(offsetof(struct cu_launch_attribute, value), offsetof(CUlaunchAttribute, value));
SAME(sizeof(struct cu_launch_attribute), sizeof(CUlaunchAttribute));
SAME(offsetof(struct cu_launch, stream), offsetof(CUlaunchConfig, hStream));
SAME(offsetof(struct cu_launch, nattributes), offsetof(CUlaunchConfig, numAttrs));
SAME(sizeof(struct cu_launch), sizeof(CUlaunchConfig));
_Static_assert(sizeof(struct cu_ipc_handle) == sizeof(CUipcMemHandle), "handle");
_Static_assert(sizeof(struct cu_fabric_handle) == sizeof(CUmemFabricHandle), "fabric handle");
_Static_assert(sizeof(struct cu_access) == sizeof(CUmemAccessDesc), "access");
_Static_assert(offsetof(struct cu_access, flags) == offsetof(CUmemAccessDesc, flags), "access");
#endif

static void without_a_driver_no_memory_is_of_a_gpu(void **state)
{
	struct gpu_card card = { .used = 1 };
	struct gpu *g = NULL;
	const char *why = NULL;
	int here;

	(void)state;
	if (cuda_driver(&why)) {
		print_message("a driver is here: skipped\n");
		skip();
	}
	assert_true(why && *why);
	assert_false(gpu_memory(&here));
	assert_int_equal(gpu_open(&g, &card, 0, 2, false), TAUT_OK);
	assert_null(g);
	assert_int_equal(card.used, 0);
	gpu_close(NULL);
}

/* What a failed look leaves with its thread is no thread's to free when the process ends meanwhile. */
static void after_one_look_there_is_no_other(void **state)
{
	(void)state;
	cuda_driver(NULL);
	dlerror();
	cuda_driver_if_used();
	assert_null(dlerror());
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(without_a_driver_no_memory_is_of_a_gpu),
					    cmocka_unit_test(after_one_look_there_is_no_other) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
