/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/service.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "boot/accept.h"

enum { BACKLOG = 4096 };

/* Out of descriptors: refuse, instead of coming round for ever. */
static void refuse_one(int listener)
{
	int fd;

	log_warn(LOG_BOOT, "out of file descriptors: a connection was refused; raise the limit (ulimit -n)");
	close(service->spare);
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		close(fd);
	service->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* The listener takes what comes to any address; TAUT_SOCKET_IFNAME may allow some only. */
static bool came_to_allowed(const struct source *s, int fd)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	struct addr to;

	if (!service->only || s != &service->tcp.source)
		return true;
	if (getsockname(fd, (void *)&sa, &len) || !addr_from_sockaddr(&to, (void *)&sa))
		return false;
	for (int i = 0; i < service->nonly; i++)
		if (!memcmp(&service->only[i], &to, sizeof(to)))
			return true;
	return false;
}

void listen_accept(struct source *s)
{
	for (int i = 0; i < 64; i++) {
		int fd = accept4(s->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		struct conn *c;

		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE)
				refuse_one(s->fd);
			return;
		}
		c = conn_new(fd, s->kind == SOURCE_UNIX);
		if (!c)
			continue;
		if (came_to_allowed(s, fd)) {
			accept_start(c);
		} else {
			service_reject(c, "it came to an address that TAUT_SOCKET_IFNAME does not allow");
			conn_close(c);
		}
	}
}

int listen_tcp(uint16_t *port, int family)
{
	int domain = family == 1 ? AF_INET : AF_INET6, one = 1, only = family == 2, err;
	int fd = socket(domain, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct addr any = { .family = domain == AF_INET ? 4 : 6 };
	struct sockaddr_storage sa;
	socklen_t len = addr_sockaddr(&sa, &any, *port);

	if (fd < 0 && domain == AF_INET6 && !only)
		return listen_tcp(port, 1);
	if (fd < 0)
		return -1;
	if (domain == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only));
	/* A port given by hand may still have connections of the last run in TIME_WAIT. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (!bind(fd, (void *)&sa, len) && !listen(fd, BACKLOG) && !getsockname(fd, (void *)&sa, &len)) {
		*port = ntohs(((struct sockaddr_in *)(void *)&sa)->sin_port); /* at the same place in IPv6 */
		return fd;
	}
	err = errno;
	close(fd);
	/* IPv6 may be there, but switched off for all interfaces. */
	if (domain == AF_INET6 && !only && err == EADDRNOTAVAIL)
		return listen_tcp(port, 1);
	errno = err;
	return -1;
}

int listen_unix(const struct sockaddr_storage *sa, socklen_t len)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return -1;
	if (!bind(fd, (const void *)sa, len) && !listen(fd, BACKLOG))
		return fd;
	err = errno;
	close(fd);
	errno = err;
	return -1;
}

static int listen_at(enum source_kind kind, uint16_t port, const char *name)
{
	struct sockaddr_storage sa;
	socklen_t len;

	if (kind == SOURCE_TCP)
		return listen_tcp(&port, 0);
	len = addr_abstract(&sa, name);
	return listen_unix(&sa, len);
}

enum taut_status service_listen(struct listener **out, uint16_t port, const char *name, const char *setting,
				const char *text)
{
	enum source_kind kind = name[0] ? SOURCE_UNIX : SOURCE_TCP;
	struct listener *l = mem_calloc(1, sizeof(*l));

	if (!l)
		return fail(TAUT_ERR_NOMEM, "a listener");
	l->source = (struct source){ kind, listen_at(kind, port, name) };
	if (l->source.fd < 0) {
		int err = errno;

		mem_free(l);
		if (kind == SOURCE_UNIX)
			return errno_fail(err,
					  "listen on the abstract socket \"%s\", where the ranks are to meet: set "
					  "another one (%s is \"%s\")",
					  name, setting, text);
		return errno_fail(err, "listen on port %u, where the ranks are to meet: set another one (%s is \"%s\")",
				  port, setting, text);
	}
	l->next = service->tcp.next;
	service->tcp.next = l;
	service_watch(&l->source, EPOLLIN, EPOLL_CTL_ADD);
	*out = l;
	return TAUT_OK;
}

void service_unlisten(struct listener *l)
{
	struct listener **p = &service->tcp.next;

	while (*p && *p != l)
		p = &(*p)->next;
	if (!*p)
		return;
	*p = l->next;
	service_watch(&l->source, 0, EPOLL_CTL_DEL);
	close(l->source.fd);
	l->source.fd = -1;
	/* An event for it may be in the service thread's hands: leave it to that thread. */
	l->next = service->unix_.next;
	service->unix_.next = l;
	service_wake();
}

void listen_free(struct listener *l)
{
	while (l) {
		struct listener *next = l->next;

		if (l->source.fd >= 0)
			close(l->source.fd);
		mem_free(l);
		l = next;
	}
}
