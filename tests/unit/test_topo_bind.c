/* SPDX-License-Identifier: Apache-2.0 */
/* Machines are synthetic: their cores for hwloc (HWLOC_SYNTHETIC), their GPUs as a graph. The last tests bind processes
 * on the machine at hand. */
#include "topo_make.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "topo/bind.h"

static char said[1024]; /* warnings */

static void keep_line(enum log_level level, enum log_module module, const char *line, void *ctx)
{
	(void)module;
	(void)ctx;
	if (level == LOG_WARN)
		snprintf(said + strlen(said), sizeof(said) - strlen(said), "%s\n", line);
}

static int setup(void **state)
{
	(void)state;
	said[0] = '\0';
	log_set_sink(keep_line, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	log_set_sink(NULL, NULL);
	unsetenv("HWLOC_SYNTHETIC");
	return 0;
}

/* 2 NUMA nodes of 8 cores; processors p and p + 16 share core p. */
static const char two_nodes[] = "numa:2 core:8 pu:2(indexes=0,16,1,17,2,18,3,19,4,20,5,21,6,22,7,23,8,24,9,25,10,26,"
				"11,27,12,28,13,29,14,30,15,31)";
static const struct make four_gpus = { .numas = 2, .gpus = 4, .ports = 4, .cores = 8 };
static const struct bind_nodes both = { { 3 } }, only_first = { { 1 } };

static struct bind *plan(const char *machine, const struct bind_ask *ask)
{
	struct bind *b = NULL;

	setenv("HWLOC_SYNTHETIC", machine, 1);
	if (bind_plan(&b, ask))
		fail_msg("%s", taut_error_message());
	return b;
}

static void allow(cpu_set_t *set, int from, int to)
{
	for (int i = from; i <= to; i++)
		CPU_SET((size_t)i, set);
}

static void cores_are_spread_and_then_go_round(void **state)
{
	(void)state;
	for (int ranks = 1; ranks <= 8; ranks++)
		for (int rank = 1; rank < ranks; rank++) /* one each, in order */
			assert_true(bind_core(rank, ranks, 8) > bind_core(rank - 1, ranks, 8));
	assert_int_equal(bind_core(1, 2, 8), 4);
	assert_int_equal(bind_core(3, 4, 8), 6);
	assert_int_equal(bind_core(8, 9, 8), 0);
	assert_int_equal(bind_core(17, 20, 8), 1);
	assert_int_equal(bind_core(4095, 4096, 1048576), 1048320);
}

static void a_plan_takes_whole_cores(void **state)
{
	struct bind *b = plan("pack:2 core:4 pu:2", &(struct bind_ask){ .ranks = 4 });

	(void)state;
	assert_int_equal(b->cores, 8);
	assert_string_equal(b->slots[0].list, "0-1");
	assert_string_equal(b->slots[1].list, "4-5");
	assert_string_equal(b->slots[3].list, "12-13");
	assert_true(CPU_ISSET_S(12, b->set_bytes, b->slots[3].set));
	assert_int_equal(CPU_COUNT_S(b->set_bytes, b->slots[3].set), 2);
	assert_string_equal(b->slots[3].near, "");
	bind_free(b);
	bind_free(NULL);
}

static void ranks_without_gpus_prefer_the_memory_near_their_core(void **state)
{
	struct topo *t = make_topo(&(struct make){ .numas = 2, .cores = 8 });
	struct bind *b = plan(two_nodes, &(struct bind_ask){ .ranks = 4, .topo = t, .nodes = &both });

	(void)state;
	for (int rank = 0; rank < 4; rank++)
		assert_int_equal(b->slots[rank].numa, rank / 2);
	assert_string_equal(b->slots[2].list, "8,24");
	bind_free(b);
	topo_free(t);
}

static void ranks_share_the_cores_of_their_gpus_node(void **state)
{
	struct topo *t = make_topo(&four_gpus);
	struct bind *b = plan(two_nodes, &(struct bind_ask){ .ranks = 4, .topo = t, .nodes = &both });

	(void)state;
	assert_string_equal(b->slots[0].list, "0-3,16-19");
	assert_string_equal(b->slots[1].list, "4-7,20-23");
	assert_string_equal(b->slots[2].list, "8-11,24-27");
	assert_string_equal(b->slots[3].list, "12-15,28-31");
	assert_int_equal(b->slots[1].numa, 0);
	assert_int_equal(b->slots[2].numa, 1);
	assert_string_equal(b->slots[0].near, "GPU 0 and mlx5_0 of NUMA node 0");
	assert_string_equal(b->slots[3].near, "GPU 3 and mlx5_3 of NUMA node 1");
	assert_string_equal(said, "");
	bind_free(b);
	/* one rank has the node of GPU 0 for itself */
	b = plan(two_nodes, &(struct bind_ask){ .ranks = 1, .topo = t, .nodes = &both });
	assert_string_equal(b->slots[0].list, "0-7,16-23");
	bind_free(b);
	topo_free(t);
}

static void visible_gpus_are_those_of_the_ranks(void **state)
{
	struct topo *t = make_topo(&four_gpus);
	struct bind *b = plan(two_nodes, &(struct bind_ask){ .ranks = 2, .topo = t, .visible = "3,1", .nodes = &both });

	(void)state;
	assert_string_equal(b->slots[0].list, "8-15,24-31");
	assert_string_equal(b->slots[1].list, "0-7,16-23");
	bind_free(b);
	/* fewer than ranks: which rank has which cannot be known */
	b = plan(two_nodes, &(struct bind_ask){ .ranks = 2, .topo = t, .visible = "3", .nodes = &both });
	assert_string_equal(b->slots[0].list, "0,16");
	assert_string_equal(b->slots[1].list, "8,24");
	assert_string_equal(said, "");
	bind_free(b);
	b = plan(two_nodes, &(struct bind_ask){ .ranks = 1, .topo = t, .visible = "GPU-1b2c", .nodes = &both });
	assert_string_equal(b->slots[0].list, "0,16");
	assert_non_null(strstr(said, "CUDA_VISIBLE_DEVICES=GPU-1b2c: only numbers"));
	bind_free(b);
	topo_free(t);
}

static void the_list_of_visible_gpus_ends_as_for_the_driver(void **state)
{
	struct topo *t = make_topo(&four_gpus);
	int gpus[4];

	(void)state;
	assert_int_equal(bind_visible(t, NULL, gpus), 4);
	assert_int_equal(bind_visible(t, "2", gpus), 1);
	assert_int_equal(gpus[0], t->of[TOPO_GPU][2]);
	assert_int_equal(bind_visible(t, "1,7,0", gpus), 1);
	assert_int_equal(bind_visible(t, "-1", gpus), 0);
	assert_int_equal(bind_visible(t, "0,1,2,3,0,1", gpus), 4);
	assert_int_equal(bind_visible(t, "0,MIG-12", gpus), -1);
	assert_int_equal(bind_visible(t, "0x1", gpus), -1);
	topo_free(t);
}

static void what_may_not_be_used_is_not(void **state)
{
	struct topo *t = make_topo(&four_gpus);
	cpu_set_t some = { 0 };
	struct bind_ask ask = {
		.ranks = 4, .topo = t, .allowed = &some, .allowed_bytes = sizeof(some), .nodes = &both
	};
	struct bind *b;

	(void)state;
	allow(&some, 2, 5); /* offline or in no cpuset: cores 0, 1, 6, 7, all second processors, most of node 1 */
	allow(&some, 15, 15);
	b = plan(two_nodes, &ask);
	assert_string_equal(b->slots[0].list, "2-3");
	assert_string_equal(b->slots[1].list, "4-5");
	assert_string_equal(b->slots[2].list, "15");
	assert_string_equal(b->slots[3].list, "15");
	assert_string_equal(said, "");
	bind_free(b);
	topo_free(t);
}

static void a_node_that_is_forbidden_is_warned_of(void **state)
{
	struct topo *t = make_topo(&four_gpus);
	cpu_set_t some = { 0 };
	struct bind_ask ask = {
		.ranks = 4, .topo = t, .allowed = &some, .allowed_bytes = sizeof(some), .nodes = &only_first
	};
	struct bind *b;

	(void)state;
	allow(&some, 0, 7);
	b = plan(two_nodes, &ask);
	assert_string_equal(b->slots[0].list, "0-3");
	assert_string_equal(b->slots[2].list, "0");
	assert_string_equal(b->slots[3].list, "4");
	assert_int_equal(b->slots[2].numa, 0);
	assert_non_null(strstr(said, "rank 2: GPU 2 is near NUMA node 1, none of whose cores this process may use"));
	assert_non_null(strstr(said, "rank 3: GPU 3"));
	bind_free(b);
	ask.allowed = NULL;
	said[0] = '\0';
	b = plan(two_nodes, &ask);
	assert_string_equal(b->slots[2].list, "8-11,24-27");
	assert_int_equal(b->slots[1].numa, 0);
	assert_int_equal(b->slots[2].numa, -1);
	assert_non_null(
		strstr(said, "rank 2: the memory near it is that of NUMA node 1, which this process may not use"));
	bind_free(b);
	topo_free(t);
}

static void more_ranks_than_cores_go_round(void **state)
{
	struct topo *t = make_topo(&(struct make){ .numas = 2, .gpus = 8, .cores = 1 });
	struct bind *b = plan("numa:2 core:1 pu:2(indexes=0,2,1,3)",
			      &(struct bind_ask){ .ranks = 8, .topo = t, .nodes = &both });

	(void)state;
	for (int rank = 0; rank < 8; rank++) {
		assert_string_equal(b->slots[rank].list, rank < 4 ? "0,2" : "1,3");
		assert_int_equal(b->slots[rank].numa, rank / 4);
	}
	assert_string_equal(b->slots[7].near, "GPU 7 of NUMA node 1");
	bind_free(b);
	topo_free(t);
}

/* A graph that does not know the processors of a node: its number does. */
static void a_node_without_processors_goes_by_its_number(void **state)
{
	struct topo *t = make_topo(&(struct make){ .numas = 2, .gpus = 2 });
	struct bind *b = plan(two_nodes, &(struct bind_ask){ .ranks = 2, .topo = t, .nodes = &both });

	(void)state;
	assert_string_equal(b->slots[0].list, "0-7,16-23");
	assert_string_equal(b->slots[1].list, "8-15,24-31");
	bind_free(b);
	topo_free(t);
}

/* Whatever the numbers: every rank has processors, all of them allowed, and near its GPU; and no two ranks share a
 * core unless there are more ranks than cores. */
static void check_plan(const struct bind *b, const struct topo *t, const cpu_set_t *some, int ranks)
{
	for (int r = 0; r < ranks; r++) {
		cpu_set_t near, *mine = b->slots[r].set;

		assert_true(CPU_COUNT_S(b->set_bytes, mine) > 0);
		if (!bind_near(t, t->of[TOPO_GPU][r], some, &near, sizeof(near)))
			memcpy(&near, some, sizeof(near));
		for (size_t p = 0; p < 8 * b->set_bytes; p++)
			assert_true(!CPU_ISSET_S(p, b->set_bytes, mine) || CPU_ISSET(p, &near));
	}
}

static void any_part_of_a_machine_gives_a_sound_plan(void **state)
{
	struct topo *t = make_topo(&four_gpus);
	unsigned random = 99;

	(void)state;
	for (int turn = 0; turn < 300; turn++) {
		cpu_set_t some = { 0 };
		struct bind_ask ask = { .ranks = 1 + turn % 4,
					.topo = t,
					.allowed = &some,
					.allowed_bytes = sizeof(some),
					.nodes = &both };
		struct bind *b;

		for (int p = 0; p < 32; p++) {
			random = random * 1103515245u + 12345u;
			if ((random >> 16) % 8 < (unsigned)turn % 8 || p == turn % 32)
				CPU_SET((size_t)p, &some);
		}
		b = plan(two_nodes, &ask);
		check_plan(b, t, &some, ask.ranks);
		bind_free(b);
	}
	topo_free(t);
}

static void ports_below_the_same_switch_come_first(void **state)
{
	struct topo *t = make_topo(&(struct make){ .numas = 2, .gpus = 4, .ports = 2 });

	(void)state;
	assert_int_equal(bind_port(t, t->of[TOPO_GPU][0]), t->of[TOPO_NET][0]);
	assert_int_equal(bind_port(t, t->of[TOPO_GPU][1]), t->of[TOPO_NET][0]);
	assert_int_equal(bind_port(t, t->of[TOPO_GPU][3]), t->of[TOPO_NET][1]);
	topo_free(t);
	t = make_topo(&(struct make){ .numas = 1, .gpus = 4, .ports = 2 });
	assert_int_equal(bind_port(t, t->of[TOPO_GPU][2]), t->of[TOPO_NET][0]);
	assert_int_equal(bind_port(t, t->of[TOPO_GPU][3]), t->of[TOPO_NET][1]);
	topo_free(t);
	t = make_topo(&(struct make){ .numas = 2, .gpus = 2, .ports = 1 }); /* none at all near GPU 1 */
	assert_int_equal(bind_port(t, t->of[TOPO_GPU][1]), -1);
	topo_free(t);
}

static void a_plan_that_finds_no_memory_says_so(void **state)
{
	enum taut_status st = TAUT_ERR_NOMEM;
	struct topo *t = make_topo(&four_gpus);
	struct bind_ask ask = { .ranks = 3, .topo = t };
	struct bind *b = NULL;

	(void)state;
	setenv("HWLOC_SYNTHETIC", "core:4 pu:1", 1);
	for (long n = 1; st; n++) {
		mem_fail_from(n);
		st = bind_plan(&b, &ask);
		assert_true(st == TAUT_OK || st == TAUT_ERR_NOMEM);
	}
	mem_fail_from(0);
	bind_free(b);
	topo_free(t);
}

/* --- on this machine --- */

static pid_t child(const struct bind *b, int rank, bool bound)
{
	int ready[2];
	char c = 0;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (bound && bind_apply(b, rank))
			_exit(1);
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* The lowest processor that this process may use, alone. */
static int one_processor(cpu_set_t *one)
{
	cpu_set_t mine;
	int p = 0;

	assert_int_equal(sched_getaffinity(0, sizeof(mine), &mine), 0);
	while (!CPU_ISSET((size_t)p, &mine))
		p++;
	CPU_ZERO(one);
	CPU_SET((size_t)p, one);
	return p;
}

static void what_a_process_got_is_checked(void **state)
{
	cpu_set_t one;
	struct bind_ask ask = { .ranks = 1, .allowed = &one, .allowed_bytes = sizeof(one), .nodes = &only_first };
	struct bind *b = NULL;
	char list[16];
	pid_t pid;

	(void)state;
	snprintf(list, sizeof(list), "%d", one_processor(&one));
	assert_int_equal(bind_plan(&b, &ask), TAUT_OK);
	assert_string_equal(b->slots[0].list, list);
	pid = child(b, 0, true);
	assert_int_equal(bind_check(b, 0, pid), TAUT_OK);
	assert_string_equal(said, "");
	end(pid);
	/* memory that it did not get is warned of */
	b->slots[0].numa = 5;
	pid = child(b, 0, true);
	assert_int_equal(bind_check(b, 0, pid), TAUT_OK);
	assert_non_null(strstr(said, "its memory was to come from NUMA node 5, but its policy is "));
	end(pid);
	/* cores that it did not get are an error; on one processor there is no other */
	b->slots[0].numa = -1;
	CPU_SET_S(8 * b->set_bytes - 1, b->set_bytes, b->slots[0].set);
	pid = child(b, 0, false);
	assert_int_equal(bind_check(b, 0, pid), TAUT_ERR_SYS);
	end(pid);
	bind_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cores_are_spread_and_then_go_round),
		cmocka_unit_test(a_plan_takes_whole_cores),
		cmocka_unit_test_setup_teardown(ranks_without_gpus_prefer_the_memory_near_their_core, setup, teardown),
		cmocka_unit_test_setup_teardown(ranks_share_the_cores_of_their_gpus_node, setup, teardown),
		cmocka_unit_test_setup_teardown(visible_gpus_are_those_of_the_ranks, setup, teardown),
		cmocka_unit_test(the_list_of_visible_gpus_ends_as_for_the_driver),
		cmocka_unit_test_setup_teardown(what_may_not_be_used_is_not, setup, teardown),
		cmocka_unit_test_setup_teardown(a_node_that_is_forbidden_is_warned_of, setup, teardown),
		cmocka_unit_test_setup_teardown(more_ranks_than_cores_go_round, setup, teardown),
		cmocka_unit_test_setup_teardown(a_node_without_processors_goes_by_its_number, setup, teardown),
		cmocka_unit_test_setup_teardown(any_part_of_a_machine_gives_a_sound_plan, setup, teardown),
		cmocka_unit_test(ports_below_the_same_switch_come_first),
		cmocka_unit_test_setup_teardown(a_plan_that_finds_no_memory_says_so, setup, teardown),
		cmocka_unit_test_setup_teardown(what_a_process_got_is_checked, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
