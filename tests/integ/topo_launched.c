/* SPDX-License-Identifier: Apache-2.0 */
/* `taut topo` as the ranks of a job: rank 0 prints each kind of machine once, the others nothing. Machines are emulated
 * by TAUT_HOSTID, and described by a file each. */
#include "run_taut.h"

/* What rank $TAUT_RANK does: a machine of its own for every two ranks, the third of another kind. */
static const char script[] =
	"m=$((TAUT_RANK / 2)); TAUT_HOSTID=m$m; TAUT_TOPO_FILE='numa:2 gpu:8 nvlink:18 nic:8x400G'\n"
	"test $m = 2 && TAUT_TOPO_FILE='numa:1 gpu:2 nic:1x100G'\n"
	"export TAUT_HOSTID TAUT_TOPO_FILE; exec \"$TAUT_TEST_COMMAND\" topo";

static int count(const char *text, const char *word)
{
	int n = 0;

	for (; (text = strstr(text, word)); text += strlen(word))
		n++;
	return n;
}

static void the_cluster_is_printed_once(void)
{
	/* Below warnings: a crowded machine may be told to be slow. */
	struct ran *r = TAUT("run", "-n", "6", "--env", "TAUT_LOG=err", "sh", "-c", (char *)(size_t)script);
	char host[64], want[256];

	gethostname(host, sizeof(host));
	CHECK(r->code == 0 && !*r->err);
	CHECK(!strncmp(r->out, "6 ranks on 3 machines: 2 kinds, 18 GPUs\n", 40));
	snprintf(want, sizeof(want), "\nhosts: %s, %s\n", host, host);
	CHECK(count(r->out, "hosts: ") == 2 && count(r->out, want) == 1);
	CHECK(count(r->out, ": 8 GPUs, 8 ports") == 1 && count(r->out, ": 2 GPUs, 1 port") == 1);
	CHECK(count(r->out, "\tGPU0\t") == 2); /* two matrices */
}

static void one_rank_is_no_job(void)
{
	struct ran *r = TAUT("run", "-n", "1", taut_command(), "topo");

	CHECK(r->code == 0 && !strstr(r->out, "hosts: "));
}

static void a_machine_that_cannot_be_seen_is_said(void)
{
	struct ran *r;

	setenv("TAUT_TOPO_FILE", "/nowhere/at/all", 1);
	r = TAUT("run", "-n", "2", taut_command(), "topo");
	unsetenv("TAUT_TOPO_FILE");
	CHECK(r->code == 1 && strstr(r->err, "/nowhere/at/all"));
	CHECK(strstr(r->err, "taut topo --nodes 1"));
}

/* A shell in a container of a training operator: nobody else comes. */
static void ranks_of_a_job_that_is_elsewhere_are_not_waited_for(void)
{
	static const char *const set[][2] = {
		{ "RANK", "0" }, { "WORLD_SIZE", "2" }, { "MASTER_ADDR", "127.0.0.1" }, { "MASTER_PORT", "29500" }
	};
	struct ran *r;

	unsetenv("LOCAL_RANK");
	for (int i = 0; i < 4; i++)
		setenv(set[i][0], set[i][1], 1);
	r = TAUT("topo");
	for (int i = 0; i < 4; i++)
		unsetenv(set[i][0]);
	CHECK(r->code == 0 && *r->out && !strstr(r->out, "hosts: "));
	CHECK(strstr(r->err, "this machine alone"));
}

int main(void)
{
	taut_command();
	the_cluster_is_printed_once();
	one_rank_is_no_job();
	a_machine_that_cannot_be_seen_is_said();
	ranks_of_a_job_that_is_elsewhere_are_not_waited_for();
	return 0;
}
