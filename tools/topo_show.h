/* SPDX-License-Identifier: Apache-2.0 */
/* What `taut topo` shows of a system; one file a kind of answer. All of it reads a view, writes
 * to @out, and leaves it to the caller to find out whether that could be written. */
#ifndef TOPO_SHOW_H
#define TOPO_SHOW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "topo/channels.h"
#include "topo/machine.h"
#include "topo/paths.h"
#include "topo/reach.h"
#include "topo/topo.h"

struct topo_view {
	const struct topo *t;
	const struct topo_paths *p;
	const struct reach_rules *rules;
	const struct machine *m; /* NULL: the system is not this machine */
	int nodes;		 /* systems like this one; 1 unless --nodes */
};

/* --- topo_words.c: texts that several answers use; each returns @buf --- */
enum { TOPO_WORDS = 160 };
/* "48", "370.8", "1200". */
const char *topo_number(double v, char *buf, size_t len);
/* "251 GiB". */
const char *topo_size(uint64_t bytes, char *buf, size_t len);
/* "400 Gbit/s", "speed not known". */
const char *topo_speed(long mbit, char *buf, size_t len);
/* What topo_find() takes back: "gpu0", "mlx5_0", "numa0", "nvs0", "0000:3b:00.0"; "1/gpu0" of another
 * machine than the first. */
const char *topo_id(const struct topo *t, int node, char *buf, size_t len);
/* "PCIe gen5 x16", "18 NVLinks", "between NUMA nodes", "port". */
const char *topo_link_words(const struct topo *t, int link, char *buf, size_t len);
/* "gen5 x16" of the link from a node up; "" where neither is known. */
const char *topo_pci_words(double gts, int width, char *buf, size_t len);
/* "NVIDIA H100", else "gfx942" or "sm 9.0"; "" when nothing is known. */
const char *topo_gpu_model(const struct topo_node *gpu, char *buf, size_t len);
/* The bandwidth of @link stands for "no limit": what is inside a card or a machine. */
bool topo_is_nominal(const struct topo *t, int link);
/* The link of @node to what is above is slower than both ends allow. */
bool topo_is_slow(const struct topo_node *n);
/* The link between @a and @b of @kind; -1: none. */
int topo_link_of(const struct topo *t, int a, int b, enum topo_link_kind kind);
bool topo_has_rdma(const struct topo *t);
/* The network interface of an RDMA port: the same port once more. */
bool topo_is_twin(const struct topo_node *net);
/* The ports that the matrix shows, as nvidia-smi: those with RDMA. @nets has room for count[TOPO_NET]. */
int topo_matrix_ports(const struct topo *t, int *nets);
/* The tree downwards, in the order of nodes: first[node], then next[that] ...; -1 ends. False: memory is out. */
struct topo_kids {
	int *first, *next;
};
bool topo_kids_init(struct topo_kids *k, const struct topo *t);
void topo_kids_cleanup(struct topo_kids *k);

/* --- this machine besides its graph: topo_machine.c --- */
void topo_print_machine(FILE *out, const struct machine *m);
/* Caches, cores, devices, huge pages. */
void topo_print_machine_tree(FILE *out, const struct machine *m);
void topo_print_notes(FILE *out, const struct topo_view *v);
/* Adds the machine's keys to @o. */
void topo_json_machine(json_t *o, const struct machine *m);

/* --- the graph --- */
/* One line: "topo.xml: 8 GPUs (NVIDIA H100), 10 ports, 2 NUMA nodes". */
void topo_print_headline(FILE *out, const struct topo_view *v);
/* As nvidia-smi topo -m; @underline: with the codes that it sends to a terminal. */
enum taut_status topo_print_matrix(FILE *out, const struct topo_view *v, bool underline);
enum taut_status topo_print_tree(FILE *out, const struct topo_view *v);
enum taut_status topo_print_path(FILE *out, const struct topo_view *v, int a, int b);
void topo_print_why(FILE *out, const struct topo_view *v, int a, int b);
/* NULL: memory is out. */
json_t *topo_json(const struct topo_view *v);
/* A drawing for a document. */
enum taut_status topo_print_svg(FILE *out, const struct topo_view *v);

/* --- several systems --- */
void topo_print_nodes(FILE *out, const struct topo_view *v);

/* --- channels: topo_rings.c --- */
enum taut_status topo_print_channels(FILE *out, const struct topo_view *v, enum channel_pattern pattern);
enum taut_status topo_print_bound(FILE *out, const struct topo_view *v);
/* NCCL's graph XML. */
enum taut_status topo_print_graph_xml(FILE *out, const struct topo_view *v);

#endif
