/* SPDX-License-Identifier: Apache-2.0 */
/* Two networks with one cable between them (namespaces and a veth pair), two ranks in each: shared memory inside, tcp
 * between. All collectives, by running integ_collectives there; the variants of this test are over IPv6, with the
 * interface named, with two_level. The namespaces have no names: they end with the processes that hold them, however
 * this test ends. Needs root, else it is skipped. */
#include <libgen.h>
#include <limits.h>

#include "ranks.h"

static pid_t holder[2];

/* A process in a network namespace of its own, that lives as long as this one. */
static pid_t hold_network(void)
{
	int ready[2];
	char ok = 0;
	pid_t pid;

	must(pipe(ready) == 0);
	pid = fork();
	must(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		ok = unshare(CLONE_NEWNET) == 0;
		must(write(ready[1], &ok, 1) == 1);
		for (;;)
			pause();
	}
	must(read(ready[0], &ok, 1) == 1);
	close(ready[0]);
	close(ready[1]);
	if (!ok) {
		printf("skipped: a network namespace cannot be made here (unshare)\n");
		kill(pid, SIGKILL);
		exit(77);
	}
	return pid;
}

/* `ip ...` in network @i. */
static int ip(int i, const char *format, int number)
{
	char words[256], line[400];

	snprintf(words, sizeof(words), format, number);
	snprintf(line, sizeof(line), "nsenter -t %d -n ip %s", (int)holder[i], words);
	return system(line);
}

static void connect_networks(void)
{
	if (ip(0, "link add cable0 type veth peer name cable1 netns %d", (int)holder[1])) {
		printf("skipped: no veth pair (ip from iproute2 and the kernel's veth are needed)\n");
		exit(77);
	}
	for (int i = 0; i < 2; i++) {
		must(ip(i, "link set lo up", 0) == 0);
		must(ip(i, "link set cable%d up", i) == 0);
		must(ip(i, i ? "addr add 10.77.0.2/24 dev cable%d" : "addr add 10.77.0.1/24 dev cable%d", i) == 0);
		must(ip(i, i ? "addr add fd77::2/64 dev cable%d nodad" : "addr add fd77::1/64 dev cable%d nodad", i) ==
		     0);
	}
}

/* The test of collectives, in the two networks; it ends with this process, however that ends. */
static int collectives(void)
{
	char path[PATH_MAX], program[PATH_MAX + 32];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	int status = 1;
	pid_t pid;

	must(n > 0);
	path[n] = '\0';
	snprintf(program, sizeof(program), "%s/integ_collectives", dirname(path));
	pid = fork();
	must(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(program, program, "auto", "4", "4", (char *)NULL);
		_exit(99);
	}
	must(waitpid(pid, &status, 0) == pid);
	return status;
}

int main(void)
{
	char networks[64];
	int status;

	if (geteuid()) {
		printf("skipped: network namespaces need root\n");
		return 77;
	}
	holder[0] = hold_network();
	holder[1] = hold_network();
	connect_networks();
	snprintf(networks, sizeof(networks), "%d,%d", (int)holder[0], (int)holder[1]);
	setenv("TEST_HOSTS", "2,2", 1);
	setenv("TEST_NETWORKS", networks, 1);
	status = collectives();
	kill(holder[0], SIGKILL);
	kill(holder[1], SIGKILL);
	printf("collectives between two networks: %s (status %d)\n", status ? "FAILED" : "ok", status);
	return status != 0;
}
