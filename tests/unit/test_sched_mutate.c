/* SPDX-License-Identifier: Apache-2.0 */
/* Random changes of valid schedules: the verifier answers, whatever it is given, and reads
 * nothing out of bounds (the sanitizer builds see that). The sequence is the same each time;
 * the first argument is another number of rounds. */
#include "test_sched_util.h"

static uint64_t state_of_random = 88172645463325252u;
static long rounds = 20000;

static uint32_t random_below(uint32_t n)
{
	state_of_random ^= state_of_random << 13;
	state_of_random ^= state_of_random >> 7;
	state_of_random ^= state_of_random << 17;
	return (uint32_t)(state_of_random >> 32) % n;
}

static int odd_number(int old)
{
	static const int odd[] = { -1, 0, 1, 2, 3, 7, 63, 64, 65, 1 << 20, INT32_MAX, INT32_MIN };

	switch (random_below(4)) {
	case 0:
		return odd[random_below(sizeof(odd) / sizeof(odd[0]))];
	case 1:
		return old > -1000 ? old - 1 : old;
	case 2:
		return old < 1000 ? old + 1 : old;
	default:
		return (int)random_below(8);
	}
}

static void change_ref(struct sched_ref *ref)
{
	if (random_below(2))
		ref->buf = (uint8_t)random_below(6);
	else
		ref->chunk = odd_number(ref->chunk);
}

static void change_slice(uint32_t *first, uint32_t *n)
{
	if (random_below(2))
		*first = (uint32_t)odd_number((int)*first);
	else
		*n = (uint32_t)odd_number((int)*n);
}

static void change_step(struct sched_step *p)
{
	switch (random_below(8)) {
	case 0:
		p->op = (uint8_t)random_below(7);
		break;
	case 1:
		change_ref(&p->src);
		break;
	case 2:
		change_ref(&p->src2);
		break;
	case 3:
		change_ref(&p->dst);
		break;
	case 4:
		p->nchunks = odd_number(p->nchunks);
		break;
	case 5:
		change_slice(&p->from, &p->nfrom);
		break;
	default:
		change_slice(&p->to, &p->nto);
	}
}

static void change_head(struct sched *s)
{
	switch (random_below(8)) {
	case 0:
		s->coll = (enum sched_coll)random_below(COLL_COUNT + 2);
		break;
	case 1:
		s->rank = odd_number(s->rank);
		break;
	case 2:
		s->nranks = odd_number(s->nranks);
		break;
	case 3:
		s->root = odd_number(s->root);
		break;
	case 4:
		s->per_block = odd_number(s->per_block);
		break;
	case 5:
		s->scratch_chunks = (int)random_below(20) - 1;
		break;
	default:
		s->mapped = !s->mapped;
	}
}

static void change(struct all *a)
{
	struct sched *s = a->scheds[random_below((uint32_t)a->n)];
	uint32_t kind = random_below(8);

	if (kind == 0)
		change_head(s);
	else if (kind == 1 && s->npeers)
		s->peers[random_below(s->npeers)] = odd_number(s->peers[0]);
	else if (kind == 2 && s->nsteps)
		s->nsteps--;
	else if (kind == 3 && s->nsteps > 1)
		s->steps[random_below(s->nsteps)] = s->steps[random_below(s->nsteps)];
	else if (s->nsteps)
		change_step(s->steps + random_below(s->nsteps));
}

static bool build_any(struct all *a)
{
	static const int node_of[] = { 0, 1, 1, 0, 2, 2, 0, 1, 2 };
	const struct sched_algo *algo;
	uint32_t algos = 0;
	struct sched_req req = { .coll = (enum sched_coll)random_below(COLL_COUNT),
				 .nranks = 2 + (int)random_below(8),
				 .node_of = node_of };

	while (sched_algos[algos])
		algos++;
	algo = sched_algos[random_below(algos)];
	req.nnodes = req.nranks > 4 ? 3 : 2;
	req.root = (int)random_below((uint32_t)req.nranks);
	if (!sched_algo_fits(algo, &req))
		return false;
	all_build(a, algo, &req);
	return true;
}

static void changed_schedules_never_crash_the_verifier(void **state)
{
	long verified = 0, accepted = 0;

	(void)state;
	while (verified < rounds) {
		struct verify_opts opts = { .depth = 1 + (int)random_below(3),
					    .in_place = random_below(2),
					    .hold = random_below(2),
					    .vectors = random_below(2) };
		enum taut_status st;
		struct all a;
		int changes = 1 + (int)random_below(3);

		if (!build_any(&a))
			continue;
		for (int i = 0; i < changes; i++)
			change(&a);
		st = verify_all(a.scheds, a.n, &opts);
		if (st != TAUT_OK && st != TAUT_ERR_INTERNAL && st != TAUT_ERR_ARG && st != TAUT_ERR_UNSUPPORTED)
			fail_msg("status %s: %s", taut_status_name(st), taut_error_message());
		accepted += st == TAUT_OK;
		verified++;
		all_free(&a);
	}
	/* most changes matter, and some do not: or the test would not test */
	assert_true(accepted > verified / 100);
	assert_true(accepted < verified / 2);
}

static void changed_schedules_can_be_printed(void **state)
{
	char text[4096];

	(void)state;
	for (int i = 0; i < 2000; i++) {
		struct all a;
		size_t len;

		if (!build_any(&a))
			continue;
		for (uint32_t k = 0; k < a.scheds[0]->nsteps; k++)
			if (sched_check(a.scheds[0]) == TAUT_OK)
				change_step(a.scheds[0]->steps + k);
		if (sched_check(a.scheds[0]) == TAUT_OK) {
			len = sched_print(a.scheds[0], text, sizeof(text));
			assert_int_equal(strlen(text), len < sizeof(text) ? len : sizeof(text) - 1);
		}
		all_free(&a);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(changed_schedules_never_crash_the_verifier),
		cmocka_unit_test(changed_schedules_can_be_printed),
	};

	if (argc > 1)
		rounds = atol(argv[1]);
	return cmocka_run_group_tests(tests, quiet, loud);
}
