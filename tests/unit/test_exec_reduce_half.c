/* SPDX-License-Identifier: Apache-2.0 */
#include "base/half.h"
#include "test_exec_reduce_ref.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static const enum taut_type small_types[] = { TAUT_FLOAT16, TAUT_BFLOAT16, TAUT_FLOAT8_E4M3, TAUT_FLOAT8_E5M2 };

static float decode(enum taut_type type, unsigned bits)
{
	switch (type) {
	case TAUT_FLOAT16:
		return f16_to_f32((uint16_t)bits);
	case TAUT_BFLOAT16:
		return bf16_to_f32((uint16_t)bits);
	case TAUT_FLOAT8_E4M3:
		return e4m3_to_f32((uint8_t)bits);
	default:
		return e5m2_to_f32((uint8_t)bits);
	}
}

static unsigned encode(enum taut_type type, float f)
{
	switch (type) {
	case TAUT_FLOAT16:
		return f16_from_f32(f);
	case TAUT_BFLOAT16:
		return bf16_from_f32(f);
	case TAUT_FLOAT8_E4M3:
		return e4m3_from_f32(f);
	default:
		return e5m2_from_f32(f);
	}
}

static void check_encode(enum taut_type type, float f)
{
	unsigned got = encode(type, f), want = ref_encode(type, f);

	if (got != want)
		fail_msg("%s of %a (%08x) is %#x, not %#x", taut_type_name(type), (double)f, f32_bits(f), got, want);
}

static void every_value_is_decoded_and_comes_back(void **state)
{
	(void)state;
	for (int t = 0; t < 4; t++) {
		enum taut_type type = small_types[t];

		for (unsigned bits = 0; bits < 1u << 8 * taut_type_size(type); bits++) {
			float got = decode(type, bits), want = ref_decode(type, bits);

			if (isnan(want) ? !isnan(got) : f32_bits(got) != f32_bits(want))
				fail_msg("%s %#x is %a, not %a", taut_type_name(type), bits, (double)got, (double)want);
			if (isnan(want))
				assert_int_equal(encode(type, got), small_refs[type].nan);
			else
				assert_int_equal(encode(type, got), bits);
		}
	}
}

static void ties_round_to_even_and_their_neighbours_do_not(void **state)
{
	(void)state;
	for (int t = 0; t < 4; t++) {
		const struct small_ref *s = &small_refs[small_types[t]];

		for (unsigned mag = 0; mag < ref_first_odd(s); mag++) {
			float tie = (float)((ref_magnitude(s, mag) + ref_magnitude(s, mag + 1)) / 2);

			for (int sign = -1; sign <= 1; sign += 2) {
				check_encode(small_types[t], sign * tie);
				check_encode(small_types[t], sign * nextafterf(tie, 0));
				check_encode(small_types[t], sign * nextafterf(tie, INFINITY));
			}
		}
	}
}

static void any_fp32_is_rounded_once(void **state)
{
	static const uint32_t odd[] = { 0,	    1,		0x7fffff,   0x800000,	0x7f7fffff,
					0x7f800000, 0x7f800001, 0x7fc00000, 0x7fffffff, 0x3f800000 };
	uint64_t seed = 1;

	(void)state;
	for (int t = 0; t < 4; t++) {
		for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
			check_encode(small_types[t], f32_from_bits(odd[i]));
			check_encode(small_types[t], f32_from_bits(odd[i] | 0x80000000));
		}
		for (int i = 0; i < 100000; i++) {
			uint64_t r = ref_random(&seed);
			/* most of them near the range of the type */
			uint32_t exp = r >> 32 & 1 ? (uint32_t)(r >> 33) % 48 + 100 : (uint32_t)(r >> 33) % 256;

			check_encode(small_types[t], f32_from_bits(((uint32_t)r & 0x807fffff) | exp << 23));
		}
	}
}

static void known_values(void **state)
{
	(void)state;
	assert_int_equal(f16_from_f32(1.0f), 0x3c00);
	assert_int_equal(f16_from_f32(-65504.0f), 0xfbff);
	assert_int_equal(f16_from_f32(65519.996f), 0x7bff);
	assert_int_equal(f16_from_f32(65520.0f), 0x7c00);
	assert_int_equal(f16_from_f32(0x1p-24f), 1);
	assert_int_equal(f16_from_f32(0x1p-25f), 0);
	assert_int_equal(bf16_from_f32(1.0f), 0x3f80);
	assert_int_equal(bf16_from_f32(0x1.ffffp127f), 0x7f80);
	assert_int_equal(e4m3_from_f32(1.0f), 0x38);
	assert_int_equal(e4m3_from_f32(448.0f), 0x7e);
	assert_int_equal(e4m3_from_f32(-1e30f), 0xfe);
	assert_int_equal(e4m3_from_f32(INFINITY), 0x7e);
	assert_int_equal(e4m3_from_f32(NAN), 0x7f);
	assert_int_equal(e4m3_from_f32(0x1p-9f), 1);
	assert_int_equal(e5m2_from_f32(1.0f), 0x3c);
	assert_int_equal(e5m2_from_f32(1e30f), 0x7b);
	assert_int_equal(e5m2_from_f32(-INFINITY), 0xfc);
	assert_int_equal(e5m2_from_f32(NAN), 0x7e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_values),
		cmocka_unit_test(every_value_is_decoded_and_comes_back),
		cmocka_unit_test(ties_round_to_even_and_their_neighbours_do_not),
		cmocka_unit_test(any_fp32_is_rounded_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
