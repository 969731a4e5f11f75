/* SPDX-License-Identifier: Apache-2.0 */
/* What every unit test includes first: cmocka with what it needs before it, and without
 * its macro fail(), which is the name of base/status.h's function. */
#ifndef UNIT_H
#define UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#undef fail
#undef fail_msg
#define fail_msg(...) (print_error(__VA_ARGS__), print_error("\n"), _fail(__FILE__, __LINE__))

#endif
