/* SPDX-License-Identifier: Apache-2.0 */
/* File descriptors over a Unix socket, with a few bytes that say what they are. */
#ifndef WIRE_FDPASS_H
#define WIRE_FDPASS_H

#include <stdbool.h>
#include <stddef.h>

#define FDPASS_MAX 2

/* All or nothing; false with errno set. */
bool fdpass_send(int sock, const void *data, size_t len, const int *fds, int nfds);
/* Exactly @len bytes with @nfds descriptors, which are then the caller's. 1: there; 0: nothing has come yet (never
 * waits); -1: something else came, or it failed, with errno set (0 when the peer closed or sent something else). */
int fdpass_recv(int sock, void *data, size_t len, int *fds, int nfds);

#endif
