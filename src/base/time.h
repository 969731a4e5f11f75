/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks and the processor's pause hint. */
#ifndef BASE_TIME_H
#define BASE_TIME_H

#include <stdint.h>

uint64_t now_ns(void); /* monotonic */
void sleep_ms(unsigned ms);

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("yield");
#endif
}

#endif
