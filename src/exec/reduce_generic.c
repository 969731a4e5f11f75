/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for any processor: SSE2 on x86-64, NEON on AArch64, by the compiler alone. */
#include "exec/reduce_variant.h"

#include "exec/reduce_loops.inc.h"

#if defined(__x86_64__)
#include <emmintrin.h>

#define STREAM stream

static void stream(char *dst, const char *src, size_t len)
{
	for (size_t i = 0; i < len; i += sizeof(__m128i))
		_mm_stream_si128((__m128i *)(dst + i), _mm_loadu_si128((const __m128i *)(src + i)));
}
#else
#define STREAM NULL
#endif

const struct reduce_variant reduce_generic = { .name = "generic", .kernels = kernels, .stream = STREAM };
