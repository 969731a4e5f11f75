/* SPDX-License-Identifier: Apache-2.0 */
#include "lines.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

enum { LINE_MIN = 4096, LINE_MAX_BYTES = 65536, OUTLET_FULL = 1 << 20 };

void outlet_init(struct outlet *o, int fd)
{
	*o = (struct outlet){ .fd = fd };
}

static bool reserve(char **buf, size_t *cap, size_t want)
{
	size_t next = *cap ? *cap : LINE_MIN;
	char *grown;

	while (next < want)
		next *= 2;
	if (next == *cap)
		return true;
	grown = mem_realloc(*buf, next, 1);
	if (!grown)
		return false;
	*buf = grown;
	*cap = next;
	return true;
}

void outlet_put(struct outlet *o, const char *data, size_t len)
{
	if (o->broken || !reserve(&o->buf, &o->cap, o->len + len))
		return;
	memcpy(o->buf + o->len, data, len);
	o->len += len;
}

void outlet_printf(struct outlet *o, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	outlet_put(o, text, strlen(text));
}

static bool writable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	return poll(&p, 1, 0) == 1;
}

/* PIPE_BUF bytes fit into a pipe that poll() calls writable. */
void outlet_write(struct outlet *o)
{
	size_t at = 0;

	while (at < o->len && writable(o->fd)) {
		size_t n = o->len - at < PIPE_BUF ? o->len - at : PIPE_BUF;
		ssize_t done = write(o->fd, o->buf + at, n);

		if (done < 0 && errno != EINTR && errno != EAGAIN) {
			o->broken = true;
			o->error = errno == EPIPE ? 0 : errno;
			o->len = at;
		}
		if (done < 0)
			break;
		at += (size_t)done;
	}
	if (!at)
		return;
	o->len -= at;
	memmove(o->buf, o->buf + at, o->len);
}

bool outlet_full(const struct outlet *o)
{
	return o->len >= OUTLET_FULL;
}

void outlet_cleanup(struct outlet *o)
{
	mem_free(o->buf);
	*o = (struct outlet){ .fd = -1 };
}

void lines_init(struct lines *l, int fd, struct outlet *to)
{
	*l = (struct lines){ .fd = fd, .to = to };
}

static void put_line(struct lines *l, const char *line, size_t len)
{
	if (!l->inside)
		outlet_put(l->to, l->tag, strlen(l->tag));
	outlet_put(l->to, line, len);
	l->inside = line[len - 1] != '\n';
}

/* Passes on @len bytes, of which the last ends a line or the room for one. */
static void put_lines(struct lines *l, size_t len)
{
	for (size_t at = 0; at < len;) {
		const char *end = l->tag[0] ? memchr(l->buf + at, '\n', len - at) : NULL;
		size_t n = end ? (size_t)(end - l->buf) + 1 - at : len - at;

		put_line(l, l->buf + at, n);
		at += n;
	}
	l->len -= len;
	memmove(l->buf, l->buf + len, l->len);
}

bool lines_read(struct lines *l)
{
	const char *end;
	ssize_t n;

	if (l->to->broken) { /* as if the process wrote to the closed pipe itself */
		lines_close(l);
		return true;
	}
	if (!reserve(&l->buf, &l->cap, l->len == l->cap ? l->cap + 1 : l->cap))
		return false;
	n = read(l->fd, l->buf + l->len, l->cap - l->len);
	if (n < 0)
		return errno == EINTR;
	if (n == 0) {
		lines_close(l);
		return true;
	}
	l->len += (size_t)n;
	end = memrchr(l->buf, '\n', l->len);
	if (end)
		put_lines(l, (size_t)(end - l->buf) + 1);
	else if (l->len >= LINE_MAX_BYTES)
		put_lines(l, l->len);
	return true;
}

void lines_close(struct lines *l)
{
	if (l->fd < 0)
		return;
	if (l->len)
		put_lines(l, l->len);
	if (l->inside && l->tag[0])
		outlet_put(l->to, "\n", 1);
	close(l->fd);
	l->fd = -1;
	mem_free(l->buf);
	l->buf = NULL;
}
