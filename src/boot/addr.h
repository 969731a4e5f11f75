/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses: which of this host's interfaces to offer to peers, names to addresses,
 * socket addresses. No state; any thread. */
#ifndef BOOT_ADDR_H
#define BOOT_ADDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/config.h"
#include "boot/frame.h"

struct addr {
	uint8_t family; /* 4 or 6 */
	uint8_t ip[16];
};
enum { ADDR_MAX = 6, ADDR_TEXT = 64 };

/* Where a rank can be dialled. */
struct target {
	bool same_node;		  /* through the Unix listener */
	char name[104];		  /* of another Unix listener, in place of uniq; "": none */
	uint8_t uniq[UNIQ_BYTES]; /* names the Unix listener */
	uint16_t port;
	int naddr;
	struct addr addrs[ADDR_MAX];
};

/* NCCL's syntax: comma list of name prefixes; '=' in front: exact names; '^' in front: all
 * but these. An empty list takes every name. */
bool addr_name_matches(const char *list, const char *name);
/* How good an interface is by its name: 0 best; container and bridge devices late, the
 * loopback last. */
int addr_name_order(const char *name, bool loopback);
/* This host's addresses that cfg's interface list and family allow, most reachable first,
 * at most @max; at least one, else TAUT_ERR_CONFIG. */
enum taut_status addr_candidates(struct addr *out, int max, int *count, const struct config *cfg);
/* "HOST:PORT" or "[V6]:PORT"; @setting names the owner in errors. */
enum taut_status addr_resolve(struct target *out, const char *text, const char *setting);

socklen_t addr_sockaddr(struct sockaddr_storage *out, const struct addr *a, uint16_t port);
bool addr_from_sockaddr(struct addr *out, const struct sockaddr *sa);
/* The abstract Unix address of a listener. */
socklen_t addr_unix(struct sockaddr_storage *out, const uint8_t uniq[UNIQ_BYTES]);
socklen_t addr_abstract(struct sockaddr_storage *out, const char *name);
const char *addr_text(char out[ADDR_TEXT], const struct addr *a, uint16_t port);

void addr_put(struct buf *b, const struct addr *a);
bool addr_get(struct addr *out, struct reader *r);

#endif
