/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/fdpass.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

union control {
	char buf[CMSG_SPACE(FDPASS_MAX * sizeof(int))];
	struct cmsghdr align;
};

bool fdpass_send(int sock, const void *data, size_t len, const int *fds, int nfds)
{
	union control control = { .buf = { 0 } };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)data, .iov_len = len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf };
	struct cmsghdr *c;

	msg.msg_controllen = CMSG_SPACE((size_t)nfds * sizeof(int));
	c = CMSG_FIRSTHDR(&msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN((size_t)nfds * sizeof(int));
	memcpy(CMSG_DATA(c), fds, (size_t)nfds * sizeof(int));
	return sendmsg(sock, &msg, MSG_NOSIGNAL) == (ssize_t)len;
}

int fdpass_recv(int sock, void *data, size_t len, int *fds, int nfds)
{
	union control control = { .buf = { 0 } };
	struct iovec iov = { .iov_base = data, .iov_len = len };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf, .msg_controllen = sizeof(control.buf)
	};
	ssize_t got = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	struct cmsghdr *c;

	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	c = CMSG_FIRSTHDR(&msg);
	if (got != (ssize_t)len || !c || c->cmsg_type != SCM_RIGHTS ||
	    c->cmsg_len != CMSG_LEN((size_t)nfds * sizeof(int))) {
		errno = 0;
		return -1;
	}
	memcpy(fds, CMSG_DATA(c), (size_t)nfds * sizeof(int));
	return 1;
}
