/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this room share about the graph itself. */
#ifndef TOPO_GRAPH_H
#define TOPO_GRAPH_H

#include "topo/topo.h"

/* More than any machine has; what a file may claim ends here. */
enum { TOPO_MAX_NODES = 16384, TOPO_MAX_NUMA = 1024, TOPO_MAX_NOTES = 256 };

/* Domain, bus, device and function of "3b:00.0", "0000:3b:00.0" or "00000000:3B:00.0" as one number that sorts as
 * they do; -1: none. */
int64_t topo_busid_key(const char *busid);
/* "0000:3b:00.0" as topo_pci keeps it: lower case, a domain of at least 4 digits; false (and "") when @text is no
 * bus id. */
bool topo_busid_normal(char *out, size_t len, const char *text);

/* Number of the link of @kind between the nodes @a and @b; -1: none. */
int topo_link_between(const struct topo *t, int a, int b, enum topo_link_kind kind);
/* topo_add_link() for a pair that is known to have no link of @kind. */
enum taut_status topo_append_link(struct topo *t, int a, int b, enum topo_link_kind kind, int count, double bw_gbps);

/* Bandwidth and count of a link where they are not known, from what stands at its ends. */
void topo_link_figures(const struct topo *t, struct topo_link *l);
/* Notes what looks wrong in a description that people write or edit: after topo_finish(). */
void topo_note_odd(struct topo *t);
/* Digits with a point, whatever the locale says; moves @text past them. More than a million counts as 0. */
double topo_parse_decimal(const char **text);

#endif
