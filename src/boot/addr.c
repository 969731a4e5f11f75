/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

bool addr_name_matches(const char *list, const char *name)
{
	bool without = *list == '^', exact, found = false;

	if (!*list)
		return true;
	list += without;
	exact = *list == '=';
	list += exact;
	while (*list) {
		size_t len = strcspn(list, ",");

		if (len && !strncmp(name, list, len) && (!exact || !name[len]))
			found = true;
		list += len + (list[len] == ',');
	}
	return found != without;
}

int addr_name_order(const char *name, bool loopback)
{
	static const char *const late[] = {
		"docker", "veth", "br-", "virbr", "cni", "flannel", "cali", "podman", "lxc"
	};

	if (loopback)
		return 3;
	for (size_t i = 0; i < sizeof(late) / sizeof(late[0]); i++)
		if (!strncmp(name, late[i], strlen(late[i])))
			return 2;
	return strncmp(name, "ib", 2) ? 1 : 0;
}

bool addr_from_sockaddr(struct addr *out, const struct sockaddr *sa)
{
	const struct sockaddr_in *v4 = (const void *)sa;
	const struct sockaddr_in6 *v6 = (const void *)sa;

	*out = (struct addr){ 0 };
	if (sa->sa_family == AF_INET) {
		out->family = 4;
		memcpy(out->ip, &v4->sin_addr, 4);
		return true;
	}
	/* A link-local address means something only with an interface of its reader. */
	if (sa->sa_family != AF_INET6 || IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr))
		return false;
	if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
		out->family = 4;
		memcpy(out->ip, v6->sin6_addr.s6_addr + 12, 4);
		return true;
	}
	out->family = 6;
	memcpy(out->ip, &v6->sin6_addr, 16);
	return true;
}

/* False: not to be offered. @order sorts: by interface, then IPv4 before IPv6. */
static bool candidate(struct addr *out, int *order, const struct ifaddrs *i, const struct config *cfg)
{
	if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) || !addr_name_matches(cfg->ifname, i->ifa_name))
		return false;
	if (!addr_from_sockaddr(out, i->ifa_addr))
		return false;
	if ((cfg->family == 1 && out->family != 4) || (cfg->family == 2 && out->family != 6))
		return false;
	*order = 2 * addr_name_order(i->ifa_name, i->ifa_flags & IFF_LOOPBACK) + (out->family == 6);
	return true;
}

/* " lo eth0": each once; their addresses are in the list one by one, by family. */
static void list_names(char *out, size_t len, const struct ifaddrs *list)
{
	size_t at = 0;

	out[0] = '\0';
	for (const struct ifaddrs *i = list; i && at < len; i = i->ifa_next) {
		const struct ifaddrs *before = list;

		while (before != i && strcmp(before->ifa_name, i->ifa_name))
			before = before->ifa_next;
		if (before == i)
			at += (size_t)snprintf(out + at, len - at, " %s", i->ifa_name);
	}
}

static enum taut_status no_candidate(const struct ifaddrs *list, const struct config *cfg)
{
	static const char *const families[] = { "IPv4 or IPv6", "IPv4", "IPv6" };
	char names[512];

	list_names(names, sizeof(names), list);
	if (!cfg->ifname[0])
		return fail(TAUT_ERR_CONFIG,
			    "no interface is up and has an %s address (TAUT_SOCKET_FAMILY); this host has:%s",
			    families[cfg->family >= 0 && cfg->family <= 2 ? cfg->family : 0], names);
	return fail(TAUT_ERR_CONFIG,
		    "no interface that is up and has an %s address matches TAUT_SOCKET_IFNAME \"%s\" "
		    "(TAUT_SOCKET_FAMILY); this host has:%s",
		    families[cfg->family >= 0 && cfg->family <= 2 ? cfg->family : 0], cfg->ifname, names);
}

enum taut_status addr_candidates(struct addr *out, int max, int *count, const struct config *cfg)
{
	struct ifaddrs *list = NULL;
	enum taut_status st = TAUT_OK;
	int n = 0;

	if (getifaddrs(&list))
		return errno_fail(errno, "list the network interfaces");
	for (int want = 0; want < 8 && n < max; want++)
		for (const struct ifaddrs *i = list; i && n < max; i = i->ifa_next) {
			int order;

			if (candidate(&out[n], &order, i, cfg) && order == want)
				n++;
		}
	if (n)
		*count = n;
	else
		st = no_candidate(list, cfg);
	freeifaddrs(list);
	return st;
}

static enum taut_status split(char *host, size_t size, char *port, size_t port_size, const char *text,
			      const char *setting)
{
	const char *colon = strrchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : 0;
	char *end;
	long n = colon ? strtol(colon + 1, &end, 10) : 0;

	if (!colon || !len || colon[1] < '0' || colon[1] > '9' || *end || n < 1 || n > 65535)
		return fail(TAUT_ERR_CONFIG, "%s \"%s\": want HOST:PORT with a port of 1 to 65535, or file:PATH",
			    setting, text);
	if (text[0] == '[' && text[len - 1] == ']') {
		text++;
		len -= 2;
	}
	if (len >= size)
		return fail(TAUT_ERR_CONFIG, "%s \"%s\": host name too long", setting, text);
	memcpy(host, text, len);
	host[len] = '\0';
	snprintf(port, port_size, "%ld", n);
	return TAUT_OK;
}

enum taut_status addr_resolve(struct target *out, const char *text, const char *setting)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list;
	char host[256], port[8];
	enum taut_status st = split(host, sizeof(host), port, sizeof(port), text, setting);
	int rc;

	if (st)
		return st;
	rc = getaddrinfo(host, port, &hints, &list);
	if (rc)
		return fail(TAUT_ERR_NET, "%s \"%s\": the name \"%s\" does not resolve: %s", setting, text, host,
			    rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
	*out = (struct target){ .port = (uint16_t)atoi(port) };
	for (const struct addrinfo *i = list; i && out->naddr < ADDR_MAX; i = i->ai_next)
		out->naddr += addr_from_sockaddr(&out->addrs[out->naddr], i->ai_addr);
	freeaddrinfo(list);
	if (!out->naddr)
		return fail(TAUT_ERR_NET, "%s \"%s\": the name \"%s\" has no usable address", setting, text, host);
	return TAUT_OK;
}

socklen_t addr_sockaddr(struct sockaddr_storage *out, const struct addr *a, uint16_t port)
{
	struct sockaddr_in *v4 = (void *)out;
	struct sockaddr_in6 *v6 = (void *)out;

	memset(out, 0, sizeof(*out));
	if (a->family == 4) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(port);
		memcpy(&v4->sin_addr, a->ip, 4);
		return sizeof(*v4);
	}
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(port);
	memcpy(&v6->sin6_addr, a->ip, 16);
	return sizeof(*v6);
}

socklen_t addr_unix(struct sockaddr_storage *out, const uint8_t uniq[UNIQ_BYTES])
{
	char name[8 + 2 * UNIQ_BYTES], *at = name;

	at += sprintf(at, "taut-");
	for (int i = 0; i < UNIQ_BYTES; i++)
		at += sprintf(at, "%02x", uniq[i]);
	return addr_abstract(out, name);
}

socklen_t addr_abstract(struct sockaddr_storage *out, const char *name)
{
	struct sockaddr_un *un = (void *)out;
	size_t len = strlen(name), most = sizeof(un->sun_path) - 1;

	memset(out, 0, sizeof(*out));
	un->sun_family = AF_UNIX;
	len = len < most ? len : most;
	memcpy(un->sun_path + 1, name, len); /* the zero in front makes it abstract */
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

const char *addr_text(char out[ADDR_TEXT], const struct addr *a, uint16_t port)
{
	char ip[INET6_ADDRSTRLEN] = "?";

	inet_ntop(a->family == 4 ? AF_INET : AF_INET6, a->ip, ip, sizeof(ip));
	snprintf(out, ADDR_TEXT, a->family == 4 ? "%s:%u" : "[%s]:%u", ip, port);
	return out;
}

void addr_put(struct buf *b, const struct addr *a)
{
	buf_u8(b, a->family);
	buf_bytes(b, a->ip, a->family == 4 ? 4 : 16);
}

bool addr_get(struct addr *out, struct reader *r)
{
	const uint8_t *ip;

	*out = (struct addr){ .family = rd_u8(r) };
	if (out->family != 4 && out->family != 6)
		return false;
	ip = rd_bytes(r, out->family == 4 ? 4 : 16);
	if (ip)
		memcpy(out->ip, ip, out->family == 4 ? 4 : 16);
	return ip != NULL;
}
