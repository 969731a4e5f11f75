/* SPDX-License-Identifier: Apache-2.0 */
/* The part of NVML's binary interface that taut calls, after NVIDIA's NVML API Reference. The library is opened when
 * it is there; nothing is compiled against it. tests/unit/test_topo_nvml_abi.c compares with nvml.h where that is. */
#ifndef TOPO_NVML_ABI_H
#define TOPO_NVML_ABI_H

enum { NVML_OK = 0 };				 /* nvmlReturn_t: all else is a failure */
enum { NVML_FEATURE_OFF, NVML_FEATURE_ON };	 /* nvmlEnableState_t */
enum { NVML_P2P_READ = 0, NVML_P2P_NVLINK = 2 }; /* nvmlGpuP2PCapsIndex_t */

/* nvmlIntNvLinkDeviceType_t */
enum { NVML_DEVICE_GPU = 0, NVML_DEVICE_NPU = 1, NVML_DEVICE_SWITCH = 2, NVML_DEVICE_UNKNOWN = 255 };

/* nvmlGpuP2PStatus_t */
enum {
	NVML_P2P_OK,
	NVML_P2P_CHIPSET,
	NVML_P2P_GPU,
	NVML_P2P_TOPOLOGY,
	NVML_P2P_REGKEY,
	NVML_P2P_NOT_SUPPORTED,
	NVML_P2P_UNKNOWN
};

/* nvmlFieldValue_t.fieldId */
enum { NVML_FIELD_C2C_COUNT = 170, NVML_FIELD_C2C_MBPS = 172 };

enum { NVML_FABRIC_COMPLETED = 3 }; /* nvmlGpuFabricState_t */

typedef struct nvml_device *nvml_device;

struct nvml_pci { /* nvmlPciInfo_t */
	char busid_short[16];
	unsigned domain, bus, device, ids, sub_ids;
	char busid[32];
};
struct nvml_memory { /* nvmlMemory_t */
	unsigned long long total, free, used;
};
struct nvml_fabric { /* nvmlGpuFabricInfo_t */
	unsigned char uuid[16];
	int status;
	unsigned clique;
	unsigned char state;
};
struct nvml_fabric_v2 { /* nvmlGpuFabricInfo_v2_t */
	unsigned version;
	unsigned char uuid[16];
	int status;
	unsigned clique;
	unsigned char state;
	unsigned health;
};
struct nvml_field { /* nvmlFieldValue_t */
	unsigned field, scope;
	long long timestamp, latency;
	int type, status;
	union {
		double d;
		int si;
		unsigned ui;
		unsigned long ul;
		unsigned long long ull;
		long long sll;
		unsigned short us;
	} value;
};
enum {
	NVML_TYPE_DOUBLE,
	NVML_TYPE_UINT,
	NVML_TYPE_ULONG,
	NVML_TYPE_ULLONG,
	NVML_TYPE_SLLONG,
	NVML_TYPE_INT,
	NVML_TYPE_USHORT
};

#endif
