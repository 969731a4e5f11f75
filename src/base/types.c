/* SPDX-License-Identifier: Apache-2.0 */
/* Element types and operations: sizes and names. */
#include "taut/taut.h"

static const struct {
	const char *name;
	size_t size;
} types[TAUT_TYPE_COUNT] = {
	[TAUT_INT8] = { "int8", 1 },	      [TAUT_UINT8] = { "uint8", 1 },	    [TAUT_INT16] = { "int16", 2 },
	[TAUT_UINT16] = { "uint16", 2 },      [TAUT_INT32] = { "int32", 4 },	    [TAUT_UINT32] = { "uint32", 4 },
	[TAUT_INT64] = { "int64", 8 },	      [TAUT_UINT64] = { "uint64", 8 },	    [TAUT_FLOAT16] = { "half", 2 },
	[TAUT_BFLOAT16] = { "bfloat16", 2 },  [TAUT_FLOAT32] = { "float", 4 },	    [TAUT_FLOAT64] = { "double", 8 },
	[TAUT_FLOAT8_E4M3] = { "f8e4m3", 1 }, [TAUT_FLOAT8_E5M2] = { "f8e5m2", 1 },
};

size_t taut_type_size(enum taut_type type)
{
	return (unsigned)type < TAUT_TYPE_COUNT ? types[type].size : 0;
}

const char *taut_type_name(enum taut_type type)
{
	return (unsigned)type < TAUT_TYPE_COUNT ? types[type].name : "unknown type";
}

const char *taut_op_name(enum taut_op op)
{
	static const char *const names[TAUT_OP_COUNT] = { "sum", "prod", "max", "min", "avg", "band", "bor", "bxor" };

	if ((unsigned)op < TAUT_OP_COUNT)
		return names[op];
	return op >= TAUT_OP_USER ? "premul_sum" : "unknown op";
}
