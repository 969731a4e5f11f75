/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/nvml.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "base/mem.h"
#include "topo/graph.h"
#include "topo/nvml_abi.h"

/* --- facts --- */

enum taut_status nvml_create(struct nvml_facts **out, int ngpus)
{
	struct nvml_facts *f = mem_calloc(1, sizeof(*f));
	size_t n = (size_t)ngpus;

	if (!f)
		return fail(TAUT_ERR_NOMEM, "NVML: facts of %d GPUs", ngpus);
	f->ngpus = ngpus;
	f->gpus = mem_calloc(n, sizeof(*f->gpus));
	f->read = mem_calloc(n, n);
	f->nvlink = mem_calloc(n, n);
	if (!f->gpus || !f->read || !f->nvlink)
		goto err_free;
	for (int i = 0; i < ngpus; i++)
		f->gpus[i].clique = f->gpus[i].fabric_state = f->gpus[i].mig = -1;
	*out = f;
	return TAUT_OK;
err_free:
	nvml_free(f);
	return fail(TAUT_ERR_NOMEM, "NVML: facts of %d GPUs", ngpus);
}

void nvml_free(struct nvml_facts *f)
{
	if (!f)
		return;
	mem_free(f->gpus);
	mem_free(f->read);
	mem_free(f->nvlink);
	mem_free(f);
}

const struct gpu_facts *nvml_find(const struct nvml_facts *f, const char *busid)
{
	int64_t key = topo_busid_key(busid);

	for (int i = 0; i < f->ngpus && key >= 0; i++)
		if (topo_busid_key(f->gpus[i].busid) == key)
			return &f->gpus[i];
	return NULL;
}

/* --- the library --- */

/* What it does not have is NULL, and its answer "not known". */
struct nvml {
	int (*init)(void);
	int (*shutdown)(void);
	const char *(*error)(int);
	int (*driver)(char *, unsigned);
	int (*count)(unsigned *);
	int (*handle)(unsigned, nvml_device *);
	int (*pci)(nvml_device, struct nvml_pci *);
	int (*name)(nvml_device, char *, unsigned);
	int (*capability)(nvml_device, int *, int *);
	int (*memory)(nvml_device, struct nvml_memory *);
	int (*gen)(nvml_device, unsigned *);
	int (*width)(nvml_device, unsigned *);
	int (*max_gen)(nvml_device, unsigned *);
	int (*max_width)(nvml_device, unsigned *);
	int (*link_state)(nvml_device, unsigned, int *);
	int (*link_version)(nvml_device, unsigned, unsigned *);
	int (*link_pci)(nvml_device, unsigned, struct nvml_pci *);
	int (*link_type)(nvml_device, unsigned, int *);
	int (*p2p)(nvml_device, nvml_device, int, int *);
	int (*fabric)(nvml_device, struct nvml_fabric *);
	int (*fabric_v)(nvml_device, struct nvml_fabric_v2 *);
	int (*fields)(nvml_device, int, struct nvml_field *);
	int (*mig)(nvml_device, unsigned *, unsigned *);
};

static void bind_all(struct nvml *n, void *library)
{
	const struct {
		void *slot;
		const char *name;
	} calls[] = {
		{ &n->init, "nvmlInit_v2" },
		{ &n->shutdown, "nvmlShutdown" },
		{ &n->error, "nvmlErrorString" },
		{ &n->driver, "nvmlSystemGetDriverVersion" },
		{ &n->count, "nvmlDeviceGetCount_v2" },
		{ &n->handle, "nvmlDeviceGetHandleByIndex_v2" },
		{ &n->pci, "nvmlDeviceGetPciInfo_v3" },
		{ &n->name, "nvmlDeviceGetName" },
		{ &n->capability, "nvmlDeviceGetCudaComputeCapability" },
		{ &n->memory, "nvmlDeviceGetMemoryInfo" },
		{ &n->gen, "nvmlDeviceGetCurrPcieLinkGeneration" },
		{ &n->width, "nvmlDeviceGetCurrPcieLinkWidth" },
		{ &n->max_gen, "nvmlDeviceGetMaxPcieLinkGeneration" },
		{ &n->max_width, "nvmlDeviceGetMaxPcieLinkWidth" },
		{ &n->link_state, "nvmlDeviceGetNvLinkState" },
		{ &n->link_version, "nvmlDeviceGetNvLinkVersion" },
		{ &n->link_pci, "nvmlDeviceGetNvLinkRemotePciInfo_v2" },
		{ &n->link_type, "nvmlDeviceGetNvLinkRemoteDeviceType" },
		{ &n->p2p, "nvmlDeviceGetP2PStatus" },
		{ &n->fabric, "nvmlDeviceGetGpuFabricInfo" },
		{ &n->fabric_v, "nvmlDeviceGetGpuFabricInfoV" },
		{ &n->fields, "nvmlDeviceGetFieldValues" },
		{ &n->mig, "nvmlDeviceGetMigMode" },
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		void *call = dlsym(library, calls[i].name);

		memcpy(calls[i].slot, &call, sizeof(call)); /* POSIX: pointers to both have one form */
	}
}

/* --- one GPU --- */

/* As /sys writes it. */
static void copy_busid(char out[24], const struct nvml_pci *pci)
{
	char text[sizeof(pci->busid) + 1];

	snprintf(text, sizeof(text), "%.*s", (int)sizeof(pci->busid), pci->busid);
	topo_busid_normal(out, 24, text);
}

static int ask_number(int (*call)(nvml_device, unsigned *), nvml_device d)
{
	unsigned v = 0;

	return call && call(d, &v) == NVML_OK && v < 1000 ? (int)v : 0;
}

static enum nvml_end end_of(int type, bool unseen, bool has_busid)
{
	if (type == NVML_DEVICE_NPU)
		return NVML_END_CPU;
	if (type == NVML_DEVICE_SWITCH || (type != NVML_DEVICE_GPU && unseen))
		return NVML_END_SWITCH;
	/* drivers before the type could be asked give the address alone */
	return type == NVML_DEVICE_GPU || has_busid ? NVML_END_GPU : NVML_END_UNKNOWN;
}

static void ask_end(const struct nvml *n, nvml_device d, unsigned link, struct nvml_link *l)
{
	struct nvml_pci pci = { .domain = 0 };
	int type = NVML_DEVICE_UNKNOWN;
	bool unseen = false; /* in a guest a switch's address is all ones */

	if (n->link_type && n->link_type(d, link, &type) != NVML_OK)
		type = NVML_DEVICE_UNKNOWN;
	if (n->link_pci && n->link_pci(d, link, &pci) == NVML_OK) {
		unseen = pci.domain == UINT_MAX || !strncasecmp(pci.busid, "ffffff", 6);
		if (!unseen)
			copy_busid(l->busid, &pci);
	}
	l->end = (uint8_t)end_of(type, unseen, *l->busid != '\0');
}

static void ask_links(const struct nvml *n, nvml_device d, struct gpu_facts *g)
{
	for (unsigned link = 0; link < NVML_LINKS && n->link_state; link++) {
		struct nvml_link *l = &g->links[link];
		int on = NVML_FEATURE_OFF;
		unsigned version = 0;

		if (n->link_state(d, link, &on) != NVML_OK)
			continue;
		l->state = on == NVML_FEATURE_ON ? 2 : 1;
		if (l->state == 1)
			continue;
		if (n->link_version && n->link_version(d, link, &version) == NVML_OK && version < 100)
			l->version = (uint8_t)version;
		ask_end(n, d, link, l);
	}
}

/* FNV-1a; nothing of the identifier is to be seen. */
static uint64_t hash_uuid(const unsigned char uuid[16])
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);
	unsigned any = 0;

	for (int i = 0; i < 16; i++) {
		h = (h ^ uuid[i]) * UINT64_C(0x100000001b3);
		any |= uuid[i];
	}
	return any ? h : 0;
}

static void keep_fabric(struct gpu_facts *g, const unsigned char uuid[16], int status, unsigned clique, unsigned state)
{
	g->fabric_state = state < 16 ? (int)state : -1;
	if (state != NVML_FABRIC_COMPLETED)
		return;
	g->fabric_status = status;
	if (status == NVML_OK) {
		g->clique = (int)(clique & 0x7fffffff);
		g->fabric_hash = hash_uuid(uuid);
	}
}

static void ask_fabric(const struct nvml *n, nvml_device d, struct gpu_facts *g)
{
	struct nvml_fabric_v2 v2 = { .version = sizeof(v2) | 2u << 24 };
	struct nvml_fabric v1 = { .state = 0 };

	if (n->fabric_v && n->fabric_v(d, &v2) == NVML_OK)
		keep_fabric(g, v2.uuid, v2.status, v2.clique, v2.state);
	else if (n->fabric && n->fabric(d, &v1) == NVML_OK)
		keep_fabric(g, v1.uuid, v1.status, v1.clique, v1.state);
}

static int field_number(const struct nvml_field *f)
{
	unsigned long long v;

	if (f->status != NVML_OK)
		return 0;
	v = f->type == NVML_TYPE_UINT || f->type == NVML_TYPE_INT ? f->value.ui : f->value.ull;
	return v < 10000000 ? (int)v : 0;
}

static void ask_c2c(const struct nvml *n, nvml_device d, struct gpu_facts *g)
{
	struct nvml_field fields[2] = {
		{ .field = NVML_FIELD_C2C_COUNT, .status = -1 },
		{ .field = NVML_FIELD_C2C_MBPS, .status = -1 },
	};

	if (!n->fields || n->fields(d, 2, fields) != NVML_OK)
		return;
	g->c2c_links = field_number(&fields[0]);
	g->c2c_mbps = field_number(&fields[1]);
}

static void ask_gpu(const struct nvml *n, nvml_device d, struct gpu_facts *g)
{
	struct nvml_pci pci = { .domain = 0 };
	struct nvml_memory memory = { .total = 0 };
	unsigned mig = 0, pending = 0;
	int major = 0, minor = 0;

	if (n->pci && n->pci(d, &pci) == NVML_OK)
		copy_busid(g->busid, &pci);
	if (!n->name || n->name(d, g->name, sizeof(g->name)) != NVML_OK)
		g->name[0] = '\0';
	g->name[sizeof(g->name) - 1] = '\0';
	if (n->capability && n->capability(d, &major, &minor) == NVML_OK)
		g->sm = major * 10 + minor;
	if (n->memory && n->memory(d, &memory) == NVML_OK)
		g->memory = memory.total;
	g->pcie_gen = ask_number(n->gen, d);
	g->pcie_width = ask_number(n->width, d);
	g->pcie_max_gen = ask_number(n->max_gen, d);
	g->pcie_max_width = ask_number(n->max_width, d);
	if (n->mig && n->mig(d, &mig, &pending) == NVML_OK)
		g->mig = mig == 1;
	ask_links(n, d, g);
	ask_fabric(n, d, g);
	ask_c2c(n, d, g);
}

/* --- all of them --- */

static uint8_t p2p_of(int status)
{
	static const uint8_t ours[] = {
		[NVML_P2P_OK] = P2P_OK,		  [NVML_P2P_CHIPSET] = P2P_CHIPSET,
		[NVML_P2P_GPU] = P2P_GPU,	  [NVML_P2P_TOPOLOGY] = P2P_TOPOLOGY,
		[NVML_P2P_REGKEY] = P2P_DISABLED, [NVML_P2P_NOT_SUPPORTED] = P2P_NO,
		[NVML_P2P_UNKNOWN] = P2P_UNKNOWN,
	};

	return status >= 0 && status < (int)sizeof(ours) ? ours[status] : P2P_UNKNOWN;
}

static uint8_t ask_p2p(const struct nvml *n, nvml_device a, nvml_device b, int index)
{
	int status = NVML_P2P_UNKNOWN;

	if (!n->p2p || n->p2p(a, b, index, &status) != NVML_OK)
		return P2P_UNKNOWN;
	return p2p_of(status);
}

static void ask_pairs(const struct nvml *n, const nvml_device *d, struct nvml_facts *f)
{
	for (int i = 0; i < f->ngpus; i++)
		for (int j = 0; j < f->ngpus; j++) {
			int at = i * f->ngpus + j;

			f->read[at] = i == j ? P2P_OK : ask_p2p(n, d[i], d[j], NVML_P2P_READ);
			f->nvlink[at] = i == j ? P2P_UNKNOWN : ask_p2p(n, d[i], d[j], NVML_P2P_NVLINK);
		}
}

/* GPUs whose handle is refused (lost, or of another user) are left out. */
static int open_gpus(const struct nvml *n, nvml_device d[NVML_GPUS])
{
	unsigned count = 0;
	int opened = 0;

	if (!n->count || !n->handle || n->count(&count) != NVML_OK)
		return 0;
	for (unsigned i = 0; i < count && opened < NVML_GPUS; i++)
		if (n->handle(i, &d[opened]) == NVML_OK)
			opened++;
		else
			log_warn(LOG_TOPO, "NVML: GPU %u does not open: it is left out", i);
	return opened;
}

static enum taut_status ask_all(const struct nvml *n, struct nvml_facts **out)
{
	nvml_device d[NVML_GPUS];
	struct nvml_facts *f;
	enum taut_status st = nvml_create(&f, open_gpus(n, d));

	if (st)
		return st;
	if (!n->driver || n->driver(f->driver, sizeof(f->driver)) != NVML_OK)
		f->driver[0] = '\0';
	f->driver[sizeof(f->driver) - 1] = '\0';
	for (int i = 0; i < f->ngpus; i++)
		ask_gpu(n, d[i], &f->gpus[i]);
	ask_pairs(n, d, f);
	*out = f;
	return TAUT_OK;
}

enum taut_status nvml_load(struct nvml_facts **out, const char *library, char *why, size_t len)
{
	struct nvml n = { .init = NULL };
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	enum taut_status st = TAUT_OK;
	int code;

	*out = NULL;
	*why = '\0';
	if (!handle) {
		snprintf(why, len, "NVIDIA's driver library cannot be opened (%s)", library);
		return TAUT_OK;
	}
	bind_all(&n, handle);
	code = n.init ? n.init() : -1;
	if (code == NVML_OK)
		st = ask_all(&n, out);
	else
		snprintf(why, len, "NVIDIA's driver does not answer: %s",
			 n.init && n.error ? n.error(code) : "its library has no nvmlInit_v2");
	if (code == NVML_OK && n.shutdown)
		n.shutdown();
	dlclose(handle);
	return st;
}
