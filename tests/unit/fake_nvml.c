/* SPDX-License-Identifier: Apache-2.0 */
/* Stands for libnvidia-ml.so.1. With FAKE_OLD defined it is one of long ago, which lacks most calls. */
#include "fake_nvml.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "topo/nvml_abi.h"

#pragma GCC visibility push(default)

struct fake_machine fake_machine;

int nvmlInit_v2(void);
int nvmlShutdown(void);
const char *nvmlErrorString(int code);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml_device *d);
int nvmlDeviceGetPciInfo_v3(nvml_device d, struct nvml_pci *pci);
int nvmlDeviceGetNvLinkState(nvml_device d, unsigned link, int *on);
int nvmlDeviceGetNvLinkRemotePciInfo_v2(nvml_device d, unsigned link, struct nvml_pci *pci);

static const struct fake_gpu *gpu_of(nvml_device d)
{
	return &fake_machine.gpus[(uintptr_t)d - 1];
}

int nvmlInit_v2(void)
{
	fake_machine.inits += !fake_machine.init_status;
	return fake_machine.init_status;
}

int nvmlShutdown(void)
{
	fake_machine.inits--;
	return 0;
}

const char *nvmlErrorString(int code)
{
	return code == 9 ? "Driver Not Loaded" : "Unknown Error";
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = (unsigned)fake_machine.ngpus;
	return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml_device *d)
{
	if (!fake_machine.gpus[index].busid)
		return FAKE_NOT_SUPPORTED;
	*d = (nvml_device)(uintptr_t)(index + 1);
	return 0;
}

static int put_pci(struct nvml_pci *pci, const char *busid)
{
	memset(pci, 0, sizeof(*pci));
	snprintf(pci->busid, sizeof(pci->busid), "%s", busid);
	sscanf(busid, "%8x:%2x:%2x", &pci->domain, &pci->bus, &pci->device);
	return 0;
}

int nvmlDeviceGetPciInfo_v3(nvml_device d, struct nvml_pci *pci)
{
	return put_pci(pci, gpu_of(d)->busid);
}

int nvmlDeviceGetNvLinkState(nvml_device d, unsigned link, int *on)
{
	if (link >= (unsigned)gpu_of(d)->links)
		return FAKE_NOT_SUPPORTED;
	*on = gpu_of(d)->on[link];
	return 0;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(nvml_device d, unsigned link, struct nvml_pci *pci)
{
	const char *busid = gpu_of(d)->remote[link];

	return busid ? put_pci(pci, busid) : FAKE_NOT_SUPPORTED;
}

#ifndef FAKE_OLD

int nvmlSystemGetDriverVersion(char *version, unsigned len);
int nvmlDeviceGetName(nvml_device d, char *name, unsigned len);
int nvmlDeviceGetCudaComputeCapability(nvml_device d, int *major, int *minor);
int nvmlDeviceGetMemoryInfo(nvml_device d, struct nvml_memory *memory);
int nvmlDeviceGetCurrPcieLinkGeneration(nvml_device d, unsigned *v);
int nvmlDeviceGetCurrPcieLinkWidth(nvml_device d, unsigned *v);
int nvmlDeviceGetMaxPcieLinkGeneration(nvml_device d, unsigned *v);
int nvmlDeviceGetMaxPcieLinkWidth(nvml_device d, unsigned *v);
int nvmlDeviceGetNvLinkVersion(nvml_device d, unsigned link, unsigned *version);
int nvmlDeviceGetNvLinkRemoteDeviceType(nvml_device d, unsigned link, int *type);
int nvmlDeviceGetP2PStatus(nvml_device a, nvml_device b, int index, int *status);
int nvmlDeviceGetGpuFabricInfo(nvml_device d, struct nvml_fabric *f);
int nvmlDeviceGetGpuFabricInfoV(nvml_device d, struct nvml_fabric_v2 *f);
int nvmlDeviceGetFieldValues(nvml_device d, int count, struct nvml_field *fields);

static int index_of(nvml_device d)
{
	return (int)((uintptr_t)d - 1);
}

int nvmlSystemGetDriverVersion(char *version, unsigned len)
{
	snprintf(version, len, "580.159.04");
	return 0;
}

int nvmlDeviceGetName(nvml_device d, char *name, unsigned len)
{
	snprintf(name, len, "%s", gpu_of(d)->name);
	return 0;
}

int nvmlDeviceGetCudaComputeCapability(nvml_device d, int *major, int *minor)
{
	*major = gpu_of(d)->sm / 10;
	*minor = gpu_of(d)->sm % 10;
	return 0;
}

int nvmlDeviceGetMemoryInfo(nvml_device d, struct nvml_memory *memory)
{
	(void)d;
	*memory = (struct nvml_memory){ .total = 1ull << 37, .free = 1, .used = 2 };
	return 0;
}

int nvmlDeviceGetCurrPcieLinkGeneration(nvml_device d, unsigned *v)
{
	(void)d;
	*v = 1; /* it sleeps */
	return 0;
}

int nvmlDeviceGetCurrPcieLinkWidth(nvml_device d, unsigned *v)
{
	(void)d;
	*v = 16;
	return 0;
}

int nvmlDeviceGetMaxPcieLinkGeneration(nvml_device d, unsigned *v)
{
	(void)d;
	*v = 5;
	return 0;
}

int nvmlDeviceGetMaxPcieLinkWidth(nvml_device d, unsigned *v)
{
	(void)d;
	*v = 16;
	return 0;
}

int nvmlDeviceGetNvLinkVersion(nvml_device d, unsigned link, unsigned *version)
{
	(void)link;
	*version = gpu_of(d)->sm >= 90 ? 4 : 2;
	return 0;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(nvml_device d, unsigned link, int *type)
{
	if (gpu_of(d)->type[link] < 0)
		return FAKE_NOT_SUPPORTED;
	*type = gpu_of(d)->type[link];
	return 0;
}

int nvmlDeviceGetP2PStatus(nvml_device a, nvml_device b, int index, int *status)
{
	const struct fake_gpu *g = gpu_of(a);

	*status = index == NVML_P2P_NVLINK ? g->nvlink[index_of(b)] : g->p2p[index_of(b)];
	return 0;
}

int nvmlDeviceGetGpuFabricInfo(nvml_device d, struct nvml_fabric *f)
{
	if (!gpu_of(d)->fabric_state)
		return FAKE_NOT_SUPPORTED;
	memcpy(f->uuid, gpu_of(d)->uuid, sizeof(f->uuid));
	f->status = gpu_of(d)->fabric_status;
	f->clique = gpu_of(d)->clique;
	f->state = (unsigned char)gpu_of(d)->fabric_state;
	return 0;
}

int nvmlDeviceGetGpuFabricInfoV(nvml_device d, struct nvml_fabric_v2 *f)
{
	struct nvml_fabric v1;

	if (f->version != (sizeof(*f) | 2u << 24) || nvmlDeviceGetGpuFabricInfo(d, &v1))
		return FAKE_NOT_SUPPORTED;
	memcpy(f->uuid, v1.uuid, sizeof(f->uuid));
	f->status = v1.status;
	f->clique = v1.clique;
	f->state = v1.state;
	return 0;
}

int nvmlDeviceGetFieldValues(nvml_device d, int count, struct nvml_field *fields)
{
	for (int i = 0; i < count; i++) {
		int v = fields[i].field == NVML_FIELD_C2C_COUNT ? gpu_of(d)->c2c_links : gpu_of(d)->c2c_mbps;

		fields[i].status = gpu_of(d)->c2c_links ? 0 : FAKE_NOT_SUPPORTED;
		fields[i].type = NVML_TYPE_UINT;
		fields[i].value.ui = (unsigned)v;
	}
	return 0;
}

#endif
