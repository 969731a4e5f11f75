/* SPDX-License-Identifier: Apache-2.0 */
/* How a failure gets its sentence. The function that finds a failure calls fail() (or
 * errno_fail()), which keeps the sentence for taut_error_message() in this thread and logs
 * it at level err; callers pass the status on. */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include "taut/taut.h"

/* Keeps and logs the sentence; returns @st. */
enum taut_status fail(enum taut_status st, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* As fail(), with ": " and the text of @err appended; the status follows from @err
 * (ENOMEM, ETIMEDOUT, ECONNREFUSED ...; else TAUT_ERR_SYS). */
enum taut_status errno_fail(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* As fail() without logging: for failures the caller may yet mend, or that were logged
 * where they happened (on another thread). */
enum taut_status fail_quiet(enum taut_status st, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void status_clear_message(void);
/* The status that this thread's sentence was kept with. */
enum taut_status status_last(void);

#endif
