/* SPDX-License-Identifier: Apache-2.0 */
/* A driver library that answers what the test puts into its `fake_machine`. */
#ifndef FAKE_NVML_H
#define FAKE_NVML_H

enum { FAKE_GPUS = 8, FAKE_LINKS = 18, FAKE_NOT_SUPPORTED = 3 };

struct fake_gpu {
	const char *busid; /* as NVML writes it; NULL: the handle is refused */
	const char *name;
	int sm, links;	      /* links that are there; those from 18 on are refused */
	int on[FAKE_LINKS];   /* 0: down */
	int type[FAKE_LINKS]; /* nvmlIntNvLinkDeviceType_t; -1: not supported */
	const char *remote[FAKE_LINKS];
	int fabric_state, fabric_status; /* state 0: not supported */
	unsigned clique;
	unsigned char uuid[16];
	int c2c_links, c2c_mbps;
	int p2p[FAKE_GPUS], nvlink[FAKE_GPUS]; /* nvmlGpuP2PStatus_t */
};

struct fake_machine {
	int init_status, inits; /* of nvmlInit_v2; how many are open */
	int ngpus;
	struct fake_gpu gpus[FAKE_GPUS];
};

#endif
