/* SPDX-License-Identifier: Apache-2.0 */
/* Many ranks, few files, and cores for each. */
#include "run_taut.h"

#include <sched.h>
#include <sys/resource.h>

static void each_rank_starts_once(char *ranks, int n)
{
	static char seen[4096];
	struct ran *r = TAUT("run", "-n", ranks, "sh", "-c", "echo $TAUT_RANK");
	char *save = NULL;
	int lines = 0;

	CHECK(r->code == 0);
	memset(seen, 0, sizeof(seen));
	for (char *line = strtok_r(r->out, "\n", &save); line; line = strtok_r(NULL, "\n", &save), lines++) {
		CHECK(atoi(line) >= 0 && atoi(line) < n && !seen[atoi(line)]);
		seen[atoi(line)] = 1;
	}
	CHECK(lines == n);
}

static void few_files_are_said_to_be_too_few(void)
{
	struct rlimit old, few;
	struct ran *r;

	getrlimit(RLIMIT_NOFILE, &old);
	few = old;
	few.rlim_cur = 64; /* is raised, but the ranks keep it */
	setrlimit(RLIMIT_NOFILE, &few);
	r = TAUT("run", "-n", "64", "sh", "-c", "test $(ulimit -n) = 64");
	CHECK(r->code == 0);
	if (fork() == 0) {
		char *most, text[16];

		few.rlim_max = 64;
		setrlimit(RLIMIT_NOFILE, &few);
		r = TAUT("run", "-n", "64", "true");
		most = strstr(r->err, " open files, but the limit is 64: raise it (ulimit -Hn), or start at most ");
		CHECK(r->code == 1 && strstr(r->err, "64 ranks need ") && most);
		/* So many it can; 20 fit whatever this test has inherited. */
		snprintf(text, sizeof(text), "%d", atoi(strstr(most, "most ") + 5));
		CHECK(atoi(text) >= 20);
		r = TAUT("run", "-n", text, "true");
		CHECK(r->code == 0);
		exit(0);
	}
	int status = 1;

	wait(&status);
	CHECK(status == 0);
	setrlimit(RLIMIT_NOFILE, &old);
}

static void ranks_are_bound_to_cores_that_are_allowed(void)
{
	cpu_set_t old, one;
	struct ran *r = TAUT("run", "-n", "3", "--bind", "--env", "TAUT_LOG=info", "sh", "-c",
			     "test $TAUT_BIND = $(sed -n 's/Cpus_allowed_list:.//p' /proc/self/status)");

	CHECK(r->code == 0 && strstr(r->err, "rank 2 (pid ") && strstr(r->err, "is bound to cpu "));
	CHECK(!sched_getaffinity(0, sizeof(old), &old));
	CPU_ZERO(&one);
	for (int cpu = CPU_SETSIZE - 1; cpu >= 0 && !CPU_COUNT(&one); cpu--)
		if (CPU_ISSET(cpu, &old))
			CPU_SET(cpu, &one);
	CHECK(!sched_setaffinity(0, sizeof(one), &one));
	r = TAUT("run", "-n", "2", "--bind", "sh", "-c", "echo cpu $TAUT_BIND");
	CHECK(r->code == 0);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &one)) {
			char want[64];

			snprintf(want, sizeof(want), "cpu %d\ncpu %d\n", cpu, cpu);
			CHECK(!strcmp(r->out, want));
		}
	sched_setaffinity(0, sizeof(old), &old);
}

/* The graph is a file's; the cores are this machine's. */
static void ranks_with_gpus_say_what_they_are_near(void)
{
	struct ran *r;

	setenv("TAUT_TOPO_FILE", "numa:1 gpu:2 nic:2", 1);
	r = TAUT("run", "-n", "2", "--bind", "-v", "true");
	CHECK(r->code == 0 && strstr(r->err, "taut run: rank 1 (pid ") && strstr(r->err, " is bound to cpu "));
	CHECK(strstr(r->err, ": GPU 0 and mlx5_0 of NUMA node 0") && strstr(r->err, ": GPU 1 and mlx5_1 of"));
	r = TAUT("run", "-n", "3", "--bind", "-v", "true"); /* fewer GPUs than ranks */
	CHECK(r->code == 0 && strstr(r->err, "rank 2") && !strstr(r->err, "GPU"));
	r = TAUT("run", "-n", "2", "--bind", "true");
	CHECK(r->code == 0 && !*r->err);
	unsetenv("TAUT_TOPO_FILE");
}

int main(void)
{
	CHECK(TAUT("run", "-n", "64", "true")->code == 0);
	each_rank_starts_once("64", 64);
	each_rank_starts_once("256", 256);
	few_files_are_said_to_be_too_few();
	ranks_are_bound_to_cores_that_are_allowed();
	ranks_with_gpus_say_what_they_are_near();
	return 0;
}
