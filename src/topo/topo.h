/* SPDX-License-Identifier: Apache-2.0 */
/* The machine as a graph: NUMA nodes, PCI switches, GPUs, NVSwitches, network cards and
 * their ports, and the links between them. One `struct topo` is one system: a machine, or
 * several whose GPUs share one NVLink domain. A cluster of systems is topo/cluster.h.
 *
 * Where it comes from: topo_live() (this machine), topo_read() (a file of any form). What asks
 * it: topo/paths.h (distances), topo/reach.h (which wire works for a pair, and why not),
 * topo/channels.h (rings and trees).
 *
 * Life: a source makes a topo with topo_create(), topo_add_node(), topo_add_link() and ends with
 * topo_finish(); from then on it is not changed and any thread may read it. topo_free() takes NULL.
 *
 * Figures: bandwidths in GB/s (1e9 bytes a second) in each direction, as payload; what is not
 * known is 0, -1 or "", as each field says, and a note tells the user. */
#ifndef TOPO_TOPO_H
#define TOPO_TOPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum topo_kind {
	TOPO_CPU, /* a NUMA node: its cores, memory and PCI root */
	TOPO_PCI, /* a PCI bridge or switch, or a PCI device of which nothing more is known */
	TOPO_GPU,
	TOPO_NVS, /* the NVSwitches of a system, as one */
	TOPO_NIC, /* a network card, or what stands for one */
	TOPO_NET, /* a port of a card: what a program opens ("mlx5_0", "eth0") */
	TOPO_KINDS
};

enum topo_link_kind {
	LINK_PCI,
	LINK_NVLINK, /* GPU to GPU, NVSwitch or (POWER) NUMA node */
	LINK_XGMI,
	LINK_C2C, /* GPU to its NUMA node, chip to chip */
	LINK_SMP, /* NUMA node to NUMA node */
	LINK_NET, /* card to port: the speed of the port */
	LINK_KINDS
};

/* Where a node sits on PCI. */
struct topo_pci {
	char busid[24]; /* "0000:3b:00.0", lower case, as found (up to 8 digits of domain); "": not on PCI */
	uint32_t class; /* 24 bits: 0x030200 GPU, 0x02.... network, 0x0604.. bridge; 0: not known */
	uint16_t vendor, device, subvendor, subdevice; /* 0: not known */
	double gts;				       /* of the link to what is above: GT/s of a lane; 0: not known */
	int width;				       /* lanes; 0: not known */
	double max_gts;				       /* what both ends of that link could do; 0: not known */
	int max_width;
	int acs;       /* of a bridge: 1: sends peer traffic up to the host bridge, 0: does not, -1: not known */
	uint32_t root; /* of the host bridge above: domain * 256 + bus, plus 1; 0: not known */
};

enum { TOPO_MASK_WORDS = 64 };

struct topo_cpu {
	int numa;			    /* the system's number; -1: not known */
	char arch[16];			    /* "x86_64", "ppc64", "arm64"; "": not known */
	char vendor[32];		    /* "GenuineIntel", "AuthenticAMD"; "" */
	int family, model;		    /* -1: not known */
	int nmask;			    /* words of affinity; 0: not known */
	uint32_t affinity[TOPO_MASK_WORDS]; /* processors, least significant word first */
	uint64_t memory;		    /* bytes; 0: not known */
	uint64_t host_hash;		    /* tells machines of one NVLink domain apart; 0: one machine */
};

struct topo_gpu {
	int dev;	      /* number among the GPUs of its machine */
	int rank;	      /* of the communicator; -1 */
	int sm;		      /* compute capability times 10; 0: not known */
	int gdr;	      /* 1: network cards may read its memory, 0: not, -1: not known */
	char gcn[16];	      /* AMD: "gfx942" or "910"; "" */
	int arch;	      /* AMD; 0 */
	bool listed;	      /* false: known by its PCI class only */
	int nvlinks;	      /* links it has; 0: none or not known */
	int nvlink_version;   /* 0: not known */
	uint64_t fabric_hash; /* of the NVLink domain's identifier; 0: none */
	int clique;	      /* in that domain; -1 */
	uint64_t memory;      /* bytes; 0: not known */
};

struct topo_net {
	int dev;	   /* number among the ports of its machine */
	long speed_mbit;   /* 0: not known */
	int port;	   /* of the card; 0: none */
	double latency_us; /* 0: not known */
	uint64_t guid;	   /* 0: none */
	int maxconn;	   /* 0: not known */
	int gdr;	   /* as of a GPU */
	int coll;	   /* 1: reduces in the network */
	bool listed;	   /* false: known by its PCI class only */
	bool keep;	   /* to be kept when the file is trimmed */
	int rail, plane;   /* -1: not known */
	char layer[16];	   /* "infiniband", "roce", "ethernet", "omnipath", "efa" ...; "": not known */
	char state[16];	   /* "up", "down"; "": not known */
	char driver[24];   /* "" */
	char firmware[32]; /* "" */
	char rdma[64];	   /* of an Ethernet interface: its RDMA device, and the other way round; "" */
	bool is_virtual;   /* bridge, veth, virtio ...: no card of its own, or a function of one */
	char gids[64];	   /* "ib", "v1 v2": types of the port's addresses; "" */
};

struct topo_node {
	enum topo_kind kind;
	int parent;	     /* node above in the PCI tree (of a NET: its NIC); -1: a CPU, an NVS, or not known */
	int machine;	     /* number of its machine in the system, from 0 */
	char name[64];	     /* model of a GPU or CPU, "mlx5_0" of a NET; "" */
	struct topo_pci pci; /* of a NET: that of its card stands at the NIC */
	union {
		struct topo_cpu cpu;
		struct topo_gpu gpu;
		struct topo_net net;
		int switches; /* of an NVS: how many; 0: not known */
	};
	/* made by topo_finish(): */
	int nlinks;
	const int *links; /* numbers of the links that end here, ascending */
};

struct topo_link {
	int a, b; /* nodes */
	enum topo_link_kind kind;
	int count;	/* lanes of PCI, NVLinks; 1 of others */
	double bw_gbps; /* of all of them together */
};

enum topo_p2p { P2P_UNKNOWN, P2P_OK, P2P_CHIPSET, P2P_GPU, P2P_TOPOLOGY, P2P_DISABLED, P2P_NO };

struct topo_note {
	char text[224];
};

struct topo {
	char source[128]; /* "this machine", "topo.xml": for messages */
	int nnodes, nlinks, nnotes;
	struct topo_node *nodes;
	struct topo_link *links;
	struct topo_note *notes; /* what is not known and why, what looks odd */
	int nmachines;
	int times;    /* the description names so many of these systems (node:4) */
	int iommu;    /* 1: translates peer traffic, 0: off or pass-through, -1: not known */
	int peermem;  /* 1: GPU memory can be registered with cards (nvidia-peermem or dma-buf), 0, -1: not known */
	bool vm;      /* the machine is a guest */
	uint8_t *p2p; /* enum topo_p2p of GPU i reading GPU j, [ngpus * ngpus]; NULL: not known */
	/* Set by topo_finish(): nodes of each kind: GPUs by machine and dev, NETs by machine and dev, CPUs
	 * by machine and NUMA number, others as added. */
	int count[TOPO_KINDS];
	int *of[TOPO_KINDS];
	int *link_ends; /* what topo_node.links points into */
};

/* --- making one --- */
enum taut_status topo_create(struct topo **out, const char *source);
void topo_free(struct topo *t);
/* Returns the node's number, or -1 when memory is out (said). The node is zeroed but for kind, parent, what means "not
 * known" as -1, and its machine, which is its parent's. Pointers to nodes are good until the next call. */
int topo_add_node(struct topo *t, enum topo_kind kind, int parent);
/* @bw_gbps <= 0: topo_finish() computes it. The link of a node to its parent is made by
 * topo_finish() when none was added. Adding a pair and kind again adds to the count and bandwidth. */
enum taut_status topo_add_link(struct topo *t, int a, int b, enum topo_link_kind kind, int count, double bw_gbps);
/* What the user should know about this system; cut to fit, the same sentence once. */
void topo_note(struct topo *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Numbers GPUs and ports that have no dev, joins NUMA nodes by SMP links, computes bandwidths, checks, and makes
 * the lists. TAUT_ERR_ARG with a sentence when the graph is not sound. */
enum taut_status topo_finish(struct topo *t);
/* NULL if sound, else what is wrong (static or in @buf). After topo_finish(). */
const char *topo_check(const struct topo *t, char *buf, size_t len);

/* --- asking --- */
/* The node that a user means: "gpu0" "GPU0", "nic0" "NIC0" (the RDMA ports, else all ports, as the matrix numbers
 * them), "mlx5_0", "eth0", "numa1" "cpu1", "nvs0", a bus id ("3b:00.0", "0000:3b:00.0"); -1: none. */
int topo_find(const struct topo *t, const char *name);
/* The name for people: "GPU 0", "mlx5_0", "NUMA 1", "PCI 0000:3a:00.0", "NVSwitch". */
const char *topo_name(const struct topo *t, int node, char *buf, size_t len);
/* The NUMA node above; -1: none. */
int topo_cpu_of(const struct topo *t, int node);
/* The port speaks verbs, as far as the graph tells. */
bool topo_is_rdma(const struct topo_node *net);
/* The ports that the matrix shows as NICn: those with RDMA, or all when no port has. Returns
 * their number; @nets (may be NULL) has room for count[TOPO_NET]. */
int topo_matrix_nets(const struct topo *t, int *nets);
/* The same graph: equal nodes and links, whatever their order, source and notes. On a difference says
 * it in @why (may be NULL). */
bool topo_equal(const struct topo *a, const struct topo *b, char *why, size_t len);
/* Equal systems have equal hashes; what tells one machine of a kind from another (names of hosts, guids, bus
 * numbers above the function, ranks) does not count, nor does the order. */
uint64_t topo_hash(const struct topo *t);
enum taut_status topo_copy(struct topo **out, const struct topo *t);

/* --- figures of the field (NCCL's constants; facts/collectives.md 3.2) --- */
double topo_pci_bw(double gts, int width);	/* unknown counts as gen 3 and x16 */
double topo_nvlink_bw(int sm);			/* of one link */
double topo_xgmi_bw(const char *gcn);		/* of one link */
double topo_smp_bw(const struct topo_cpu *cpu); /* between packages */
double topo_parse_gts(const char *text);	/* "16 GT/s", "32.0 GT/s PCIe", "16 GT/s PCIe/s"; 0: none */
/* "00ffff,ffff0000" to words, least significant first; returns their number, -1: no mask. */
int topo_parse_mask(uint32_t *words, int max, const char *text);
/* "0-3,8". */
const char *topo_mask_list(const uint32_t *words, int n, char *buf, size_t len);

/* --- sources --- */
/* This machine as it is now: /sys, and NVML where the driver is. TAUT_TOPO_FILE in @cfg comes first. */
struct config;
enum taut_status topo_live(struct topo **out, const struct config *cfg);
/* The machine whose /sys and /proc the folder @path holds. */
enum taut_status topo_from_root(struct topo **out, const char *path);
/* This machine as a text for TOPO_FORM_CAPTURE, without serial numbers, host names, hardware addresses and identifiers;
 * the caller's, freed with mem_free(). */
enum taut_status topo_capture(char **out);
enum topo_form {
	TOPO_FORM_AUTO, /* from what the file holds */
	TOPO_FORM_NCCL_XML,
	TOPO_FORM_HWLOC_XML,
	TOPO_FORM_NVIDIA_SMI, /* nvidia-smi topo -m */
	TOPO_FORM_SYNTHETIC,  /* numa:2 gpu:8 nvlink:18 ... */
	TOPO_FORM_CAPTURE,    /* taut topo --capture */
	TOPO_FORMS
};
extern const char *const topo_form_names[TOPO_FORMS + 1];
/* Messages give @name, line and column. @text need not end in a zero byte. */
enum taut_status topo_read(struct topo **out, const char *name, const char *text, size_t len, enum topo_form form);
/* @path "-": standard input. A folder is taken as the root of a captured machine. A @path that names no file but reads
 * as the synthetic form ("gpu:8 nvlink:18") is that. */
enum taut_status topo_read_file(struct topo **out, const char *path, enum topo_form form);

/* The readers, one file each; topo_read() chooses. */
enum taut_status topo_from_nccl_xml(struct topo **out, const char *name, const char *text, size_t len);
enum taut_status topo_from_hwloc_xml(struct topo **out, const char *name, const char *text, size_t len);
enum taut_status topo_from_smi(struct topo **out, const char *name, const char *text, size_t len);
enum taut_status topo_from_text(struct topo **out, const char *name, const char *text, size_t len);
enum taut_status topo_from_capture(struct topo **out, const char *name, const char *text, size_t len);

/* NCCL's XML form as NCCL writes it; *@out is the caller's, freed with mem_free(). */
enum taut_status topo_to_nccl_xml(char **out, const struct topo *t);

#endif
