/* SPDX-License-Identifier: Apache-2.0 */
/* Identities: the 128 bytes of an id, and what this process says of itself. */
#ifndef BOOT_ID_H
#define BOOT_ID_H

#include "boot/addr.h"
#include "boot/table.h"

struct id_parts {
	uint8_t key[KEY_BYTES], secret[SECRET_BYTES];
	uint8_t node[NODE_BYTES]; /* of rank 0 */
	struct target meet;
};
enum { ID_ADDR_BYTES = 44 };
/* Takes as many of meet's addresses as fit. */
void id_pack(struct taut_id *out, const struct id_parts *p);
enum taut_status id_unpack(struct id_parts *out, const struct taut_id *id);

/* The machine as far as shared memory works: boot id, network name space and host name, or
 * cfg's host_id text and the network name space. */
void id_node(uint8_t out[NODE_BYTES], const struct config *cfg);
/* Host name, pid, processors, node; not where it listens. */
void id_self(struct record *out, const struct config *cfg);

#endif
