/* SPDX-License-Identifier: Apache-2.0 */
/* The hand-written part of NVML's interface against NVIDIA's header, where that is installed. */
#include "unit.h"

#include <stddef.h>

#include "topo/nvml_abi.h"

#if defined(__has_include)
#if __has_include(<nvml.h>)
#define HAS_NVML 1
#include <nvml.h>
#endif
#endif

#ifdef HAS_NVML

static void structures_are_laid_out_as_in_the_header(void **state)
{
	(void)state;
	assert_int_equal(sizeof(struct nvml_pci), sizeof(nvmlPciInfo_t));
	assert_int_equal(offsetof(struct nvml_pci, busid), offsetof(nvmlPciInfo_t, busId));
	assert_int_equal(offsetof(struct nvml_pci, domain), offsetof(nvmlPciInfo_t, domain));
	assert_int_equal(sizeof(struct nvml_memory), sizeof(nvmlMemory_t));
	assert_int_equal(sizeof(struct nvml_field), sizeof(nvmlFieldValue_t));
	assert_int_equal(offsetof(struct nvml_field, type), offsetof(nvmlFieldValue_t, valueType));
	assert_int_equal(offsetof(struct nvml_field, status), offsetof(nvmlFieldValue_t, nvmlReturn));
	assert_int_equal(offsetof(struct nvml_field, value), offsetof(nvmlFieldValue_t, value));
	assert_int_equal(sizeof(struct nvml_fabric), sizeof(nvmlGpuFabricInfo_t));
	assert_int_equal(offsetof(struct nvml_fabric, state), offsetof(nvmlGpuFabricInfo_t, state));
	assert_int_equal(sizeof(struct nvml_fabric_v2), sizeof(nvmlGpuFabricInfo_v2_t));
	assert_int_equal(offsetof(struct nvml_fabric_v2, clique), offsetof(nvmlGpuFabricInfo_v2_t, cliqueId));
	assert_int_equal(offsetof(struct nvml_fabric_v2, state), offsetof(nvmlGpuFabricInfo_v2_t, state));
	assert_int_equal(sizeof(struct nvml_fabric_v2) | 2u << 24, nvmlGpuFabricInfo_v2);
}

static void numbers_are_those_of_the_header(void **state)
{
	(void)state;
	assert_int_equal(NVML_OK, NVML_SUCCESS);
	assert_int_equal(NVML_FEATURE_ON, NVML_FEATURE_ENABLED);
	assert_int_equal(NVML_P2P_READ, NVML_P2P_CAPS_INDEX_READ);
	assert_int_equal(NVML_P2P_NVLINK, NVML_P2P_CAPS_INDEX_NVLINK);
	assert_int_equal(NVML_DEVICE_GPU, NVML_NVLINK_DEVICE_TYPE_GPU);
	assert_int_equal(NVML_DEVICE_NPU, NVML_NVLINK_DEVICE_TYPE_IBMNPU);
	assert_int_equal(NVML_DEVICE_SWITCH, NVML_NVLINK_DEVICE_TYPE_SWITCH);
	assert_int_equal(NVML_DEVICE_UNKNOWN, NVML_NVLINK_DEVICE_TYPE_UNKNOWN);
	assert_int_equal(NVML_P2P_OK, NVML_P2P_STATUS_OK);
	assert_int_equal(NVML_P2P_CHIPSET, NVML_P2P_STATUS_CHIPSET_NOT_SUPPORED);
	assert_int_equal(NVML_P2P_GPU, NVML_P2P_STATUS_GPU_NOT_SUPPORTED);
	assert_int_equal(NVML_P2P_TOPOLOGY, NVML_P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED);
	assert_int_equal(NVML_P2P_REGKEY, NVML_P2P_STATUS_DISABLED_BY_REGKEY);
	assert_int_equal(NVML_P2P_NOT_SUPPORTED, NVML_P2P_STATUS_NOT_SUPPORTED);
	assert_int_equal(NVML_P2P_UNKNOWN, NVML_P2P_STATUS_UNKNOWN);
	assert_int_equal(NVML_FIELD_C2C_COUNT, NVML_FI_DEV_C2C_LINK_COUNT);
	assert_int_equal(NVML_FIELD_C2C_MBPS, NVML_FI_DEV_C2C_LINK_GET_MAX_BW);
	assert_int_equal(NVML_FABRIC_COMPLETED, NVML_GPU_FABRIC_STATE_COMPLETED);
	assert_int_equal(NVML_TYPE_UINT, NVML_VALUE_TYPE_UNSIGNED_INT);
	assert_int_equal(NVML_TYPE_ULLONG, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG);
	assert_int_equal(NVML_TYPE_INT, NVML_VALUE_TYPE_SIGNED_INT);
}

#else

static void structures_are_laid_out_as_in_the_header(void **state)
{
	(void)state;
	print_message("nvml.h is not installed here\n");
	skip();
}

static void numbers_are_those_of_the_header(void **state)
{
	(void)state;
	print_message("nvml.h is not installed here\n");
	skip();
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(structures_are_laid_out_as_in_the_header),
		cmocka_unit_test(numbers_are_those_of_the_header),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
