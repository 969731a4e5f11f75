/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's element types, and small whole numbers in each of them, which all can hold exactly. */
#ifndef TESTS_NCCL_API_VALUES_H
#define TESTS_NCCL_API_VALUES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "nccl.h"

struct kind {
	ncclDataType_t type;
	const char *name;
	size_t bytes;
	bool has_sign;
	int mantissa, bias; /* bits of the one, value of the other; 0 and 0: a whole number */
};

static const struct kind kinds[ncclNumTypes] = {
	{ ncclInt8, "int8", 1, true, 0, 0 },
	{ ncclUint8, "uint8", 1, false, 0, 0 },
	{ ncclInt32, "int32", 4, true, 0, 0 },
	{ ncclUint32, "uint32", 4, false, 0, 0 },
	{ ncclInt64, "int64", 8, true, 0, 0 },
	{ ncclUint64, "uint64", 8, false, 0, 0 },
	{ ncclFloat16, "float16", 2, true, 10, 15 },
	{ ncclFloat32, "float32", 4, true, 23, 127 },
	{ ncclFloat64, "float64", 8, true, 52, 1023 },
	{ ncclBfloat16, "bfloat16", 2, true, 7, 127 },
	{ ncclFloat8e4m3, "float8e4m3", 1, true, 3, 7 },
	{ ncclFloat8e5m2, "float8e5m2", 1, true, 2, 15 },
};

/* @v in the bits of @k: the mantissa, which has a leading one that is not stored, above it the exponent, the sign. */
static inline uint64_t kind_bits(const struct kind *k, int v)
{
	uint64_t size = (uint64_t)(v < 0 ? -v : v), sign = v < 0 ? 1 : 0, one = 1;
	int top = 0;

	if (!k->bias)
		return (uint64_t)(int64_t)v;
	if (!v)
		return 0;
	while (size >> (top + 1))
		top++;
	return sign << (8 * k->bytes - 1) | (uint64_t)(top + k->bias) << k->mantissa |
	       ((size << k->mantissa >> top) & ((one << k->mantissa) - 1));
}

/* Element @i of @buf is @v. Little endian, as all machines that taut runs on. */
static inline void kind_put(const struct kind *k, void *buf, size_t i, int v)
{
	uint64_t bits = kind_bits(k, v);

	memcpy((char *)buf + i * k->bytes, &bits, k->bytes);
}

#endif
