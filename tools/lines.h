/* SPDX-License-Identifier: Apache-2.0 */
/* Output of many processes, put together line by line. Nothing here blocks: an outlet is
 * written to when poll() says so, a source is read when its outlet has room. One thread. */
#ifndef LINES_H
#define LINES_H

#include <stdbool.h>
#include <stddef.h>

/* A file descriptor to write to, whose mode is left as it is (others share it). */
struct outlet {
	int fd;
	char *buf;
	size_t len, cap;
	bool broken; /* the reader is gone, or */
	int error;   /* what cannot be written: an errno */
};
void outlet_init(struct outlet *o, int fd);
void outlet_put(struct outlet *o, const char *data, size_t len);
void outlet_printf(struct outlet *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Writes what poll() allows without blocking. */
void outlet_write(struct outlet *o);
/* More would only pile up. */
bool outlet_full(const struct outlet *o);
void outlet_cleanup(struct outlet *o);

/* One stream of one process; @fd non-blocking, closed at the end; -1 from then on. */
struct lines {
	int fd;
	struct outlet *to;
	char tag[16]; /* in front of each line; "": lines stay as they are */
	char *buf;
	size_t len, cap;
	bool inside; /* of a line too long for the buffer, whose beginning is out */
};
void lines_init(struct lines *l, int fd, struct outlet *to);
/* Reads once and passes on the lines that are complete. False: nothing was there. */
bool lines_read(struct lines *l);
/* Passes on what is left, with or without a line end, and closes. */
void lines_close(struct lines *l);

#endif
