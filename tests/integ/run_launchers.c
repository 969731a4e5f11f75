/* SPDX-License-Identifier: Apache-2.0 */
/* A group from the environment, as each launcher that is there sets it: `taut run`, variables
 * set by hand, torchrun's variables, a file, Open MPI's and MPICH's mpirun, Slurm's variables.
 * Started with the argument "rank" this program is one rank. */
#include "run_taut.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <taut/taut.h>

enum { RANKS = 3 };

static int rank_main(void)
{
	struct taut_comm *comm;
	int in, out = 0;

	if (taut_comm_create_env(&comm, NULL))
		return 3;
	in = taut_comm_rank(comm) + 1;
	if (taut_all_reduce(&in, &out, 1, TAUT_INT32, TAUT_SUM, comm, NULL))
		return 4;
	printf("%d of %d: sum %d\n", taut_comm_rank(comm), taut_comm_size(comm), out);
	taut_comm_destroy(comm);
	return 0;
}

/* Each rank says its sum once. */
static void check_sums(char *text, const char *what)
{
	for (int rank = 0; rank < RANKS; rank++) {
		char line[64];

		snprintf(line, sizeof(line), "%d of %d: sum %d\n", rank, RANKS, RANKS * (RANKS + 1) / 2);
		if (!strstr(text, line)) {
			fprintf(stderr, "%s: no \"%.*s\" in: %s\n", what, (int)strlen(line) - 1, line, text);
			exit(1);
		}
	}
}

static int count(const char *text, const char *word)
{
	int n = 0;

	for (; (text = strstr(text, word)); text += strlen(word))
		n++;
	return n;
}

static void by_taut_run(char *self)
{
	struct ran *r = TAUT("run", "-n", "3", self, "rank");

	CHECK(r->code == 0);
	check_sums(r->out, "taut run");
	r = TAUT("run", "-n", "3", "--env", "TAUT_SECRET=x y", "--bind", self, "rank");
	CHECK(r->code == 0);
	check_sums(r->out, "taut run --bind");
	r = TAUT("run", "-n", "3", "--env", "TAUT_SLOT_BYTE=4K", self, "rank");
	CHECK(r->code == 0 && count(r->err, "did you mean TAUT_SLOT_BYTES?") == 2); /* taut run, and rank 0 */
}

static bool is_free(int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	bool ok;

	a.sin_port = htons((uint16_t)port);
	CHECK(fd >= 0);
	ok = !bind(fd, (struct sockaddr *)&a, sizeof(a));
	close(fd);
	return ok;
}

/* And so is the next one, where torchrun's ranks meet. Below those that the kernel gives to tests that run beside this
 * one. */
static int free_port(void)
{
	static int next;
	int port = 12000 + (getpid() + next) % 8000;

	for (next += 2; !is_free(port) || !is_free(port + 1); next += 2)
		port = 12000 + (getpid() + next) % 8000;
	return port;
}

/* @form: variables of a rank, with %d for its rank, %d for a port, %d for the process id. */
static void by_variables(const char *what, const char *form, char *self)
{
	static char text[OUTPUT_MAX];
	int out = output_file(), port = free_port();
	pid_t pids[RANKS];

	for (int rank = 0; rank < RANKS; rank++) {
		pids[rank] = fork();
		if (pids[rank] == 0) {
			char vars[1024];

			snprintf(vars, sizeof(vars), form, rank, rank, port, (int)getppid());
			for (char *save = NULL, *v = strtok_r(vars, " ", &save); v; v = strtok_r(NULL, " ", &save))
				putenv(v);
			dup2(out, 1);
			execl(self, self, "rank", (char *)NULL);
			_exit(99);
		}
	}
	for (int rank = 0; rank < RANKS; rank++)
		CHECK(taut_wait(pids[rank]) == 0);
	output_text(out, text);
	close(out);
	check_sums(text, what);
}

/* False when there is no such mpirun. */
static int by_mpirun(const char *mpirun, char *self)
{
	static char script[1024], text[OUTPUT_MAX];
	int out = output_file();

	snprintf(script, sizeof(script), "command -v %.*s >/dev/null || exit 77; exec timeout 60 %s -np %d %s rank",
		 (int)strcspn(mpirun, " "), mpirun, mpirun, RANKS, self);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(out, 1);
		execl("/bin/sh", "sh", "-c", script, (char *)NULL);
		_exit(99);
	}
	int code = taut_wait(pid);
	if (code == 77) {
		printf("not tried: %s is not installed\n", mpirun);
		return 0;
	}
	CHECK(code == 0);
	output_text(out, text);
	close(out);
	check_sums(text, mpirun);
	return 1;
}

int main(int argc, char **argv)
{
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (argc == 2 && !strcmp(argv[1], "rank"))
		return rank_main();
	CHECK(n > 0);
	self[n] = '\0';
	by_taut_run(self);
	by_variables("by hand", "TAUT_RANK=%d TAUT_SIZE=3 TAUT_LOCAL_RANK=%d TAUT_RENDEZVOUS=127.0.0.1:%d", self);
	by_variables("torchrun's variables",
		     "RANK=%d WORLD_SIZE=3 LOCAL_RANK=%d MASTER_ADDR=localhost MASTER_PORT=%d TORCHELASTIC_RUN_ID=%d",
		     self);
	by_variables("Slurm's variables",
		     "SLURM_PROCID=%d SLURM_LOCALID=%d SLURM_STEP_NUM_TASKS=3 SLURM_STEP_NODELIST=n1 SLURM_STEP_ID=%d "
		     "SLURM_JOB_ID=%d",
		     self);
	by_variables("a file",
		     "TAUT_RANK=%d TAUT_LOCAL_RANK=%d TAUT_SIZE=3 TAUT_TEST_X=%d "
		     "TAUT_RENDEZVOUS=file:/tmp/taut-test-meet-%d",
		     self);
	int tried = by_mpirun("mpirun.openmpi --allow-run-as-root --oversubscribe", self);

	tried += by_mpirun("mpirun.mpich", self);
	return tried == 2 ? 0 : 77; /* all else has passed; which is missing was said */
}
