/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/id.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "boot/auth.h"

enum {
	ID_MAGIC_AT = 0,
	ID_VERSION_AT = 4,
	ID_NADDR_AT = 5,
	ID_PORT_AT = 6,
	ID_KEY_AT = 8,
	ID_SECRET_AT = 24,
	ID_UNIQ_AT = 56,
	ID_NODE_AT = 72,
	ID_ADDR_AT = 80,
	ID_SUM_AT = 124,
	ID_SUM_BYTES = 4
};

static void checksum(uint8_t out[16], const uint8_t *bytes)
{
	auth_derive(out, 16, NULL, "taut id checksum", bytes, ID_SUM_AT);
}

static int pack_addrs(uint8_t *out, const struct target *t)
{
	size_t at = 0;
	int n = 0;

	for (int i = 0; i < t->naddr; i++) {
		size_t len = t->addrs[i].family == 4 ? 4 : 16;

		if (at + 1 + len > ID_ADDR_BYTES)
			continue;
		out[at] = t->addrs[i].family;
		memcpy(out + at + 1, t->addrs[i].ip, len);
		at += 1 + len;
		n++;
	}
	return n;
}

void id_pack(struct taut_id *out, const struct id_parts *p)
{
	uint8_t *b = out->bytes, sum[16];

	memset(b, 0, TAUT_ID_BYTES);
	memcpy(b + ID_MAGIC_AT, "TAUT", 4);
	b[ID_VERSION_AT] = BOOT_VERSION;
	b[ID_PORT_AT] = (uint8_t)p->meet.port;
	b[ID_PORT_AT + 1] = (uint8_t)(p->meet.port >> 8);
	memcpy(b + ID_KEY_AT, p->key, KEY_BYTES);
	memcpy(b + ID_SECRET_AT, p->secret, SECRET_BYTES);
	memcpy(b + ID_UNIQ_AT, p->meet.uniq, UNIQ_BYTES);
	memcpy(b + ID_NODE_AT, p->node, NODE_BYTES);
	b[ID_NADDR_AT] = (uint8_t)pack_addrs(b + ID_ADDR_AT, &p->meet);
	checksum(sum, b);
	memcpy(b + ID_SUM_AT, sum, ID_SUM_BYTES);
}

enum taut_status id_unpack(struct id_parts *out, const struct taut_id *id)
{
	const uint8_t *b = id->bytes;
	struct reader r = { .at = b + ID_ADDR_AT, .left = ID_ADDR_BYTES };
	uint8_t sum[16];

	if (!auth_init())
		return fail(TAUT_ERR_SYS, "no source of random numbers");
	checksum(sum, b);
	if (memcmp(b + ID_MAGIC_AT, "TAUT", 4))
		return fail(TAUT_ERR_ARG,
			    "the id was not made by taut (taut_id_create()): it does not start with TAUT");
	if (b[ID_VERSION_AT] != BOOT_VERSION)
		return fail(
			TAUT_ERR_ARG,
			"the id has version %d, this library knows version %d: use one release of taut on all ranks",
			b[ID_VERSION_AT], BOOT_VERSION);
	if (memcmp(b + ID_SUM_AT, sum, ID_SUM_BYTES))
		return fail(TAUT_ERR_ARG, "the id is damaged: its checksum is wrong");
	*out = (struct id_parts){ .meet.port = (uint16_t)(b[ID_PORT_AT] | b[ID_PORT_AT + 1] << 8) };
	memcpy(out->key, b + ID_KEY_AT, KEY_BYTES);
	memcpy(out->secret, b + ID_SECRET_AT, SECRET_BYTES);
	memcpy(out->meet.uniq, b + ID_UNIQ_AT, UNIQ_BYTES);
	memcpy(out->node, b + ID_NODE_AT, NODE_BYTES);
	for (int i = 0; i < b[ID_NADDR_AT] && i < ADDR_MAX; i++)
		out->meet.naddr += addr_get(&out->meet.addrs[out->meet.naddr], &r);
	return TAUT_OK;
}

void id_node(uint8_t out[NODE_BYTES], const struct config *cfg)
{
	char text[512] = "", boot[64] = "", host[64] = "";
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	struct stat ns = { 0 };
	uint8_t hash[16];

	if (fd >= 0) {
		if (read(fd, boot, sizeof(boot) - 1) < 0)
			boot[0] = '\0';
		close(fd);
	}
	gethostname(host, sizeof(host) - 1);
	/* Without a network name space of its own every process of a host is in one. */
	if (stat("/proc/self/ns/net", &ns))
		ns.st_ino = 0;
	if (cfg->host_id && cfg->host_id[0])
		snprintf(text, sizeof(text), "text %llu %s", (unsigned long long)ns.st_ino, cfg->host_id);
	else
		snprintf(text, sizeof(text), "host %llu %s %s", (unsigned long long)ns.st_ino, boot, host);
	auth_derive(hash, sizeof(hash), NULL, "taut node", text, strlen(text));
	memcpy(out, hash, NODE_BYTES);
}

static int usable_cpus(void)
{
	cpu_set_t set;

	if (!sched_getaffinity(0, sizeof(set), &set))
		return CPU_COUNT(&set);
	return (int)sysconf(_SC_NPROCESSORS_ONLN); /* more processors than cpu_set_t holds */
}

void id_self(struct record *out, const struct config *cfg)
{
	*out = (struct record){ .pid = (int)getpid(), .cpus = usable_cpus() };
	gethostname(out->host, sizeof(out->host) - 1);
	id_node(out->node, cfg);
}
