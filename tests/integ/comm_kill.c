/* SPDX-License-Identifier: Apache-2.0 */
/* kill -9 of a rank in every phase: each survivor is told who died, soon, and nothing is left
 * behind. Arguments: iterations (40), first seed (1), phase (all). */
#include <dirent.h>

#include "phases.h"

#define JOIN_MS 5000
#define KNOWN_MS 10000 /* beyond this it is no answer; the usual is far below a second */

static double worst_ms[PHASES];
static int runs[PHASES];

static void run_rank(int rank, int size, void *arg)
{
	enum phase phase = *(enum phase *)arg;
	struct taut_comm *comm = NULL;
	enum taut_status st;

	set_wire(phase);
	st = join(&comm, rank, size, JOIN_MS);
	atomic_fetch_add(&page->here, 1);
	while (!st)
		st = once(comm, phase);
	say(rank, st);
	if (!comm)
		return;
	CHECK(taut_barrier(comm, NULL) == page->said[rank].st);
	CHECK(taut_comm_status(comm) == page->said[rank].st);
	taut_comm_destroy(comm);
}

/* Files that a process holds or maps where they would outlive it. */
static int lasting_files(pid_t pid)
{
	char path[300], to[300], line[600];
	int n = 0;
	DIR *dir;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	for (struct dirent *e; dir && (e = readdir(dir));) {
		ssize_t len;

		snprintf(path, sizeof(path), "/proc/%d/fd/%.20s", (int)pid, e->d_name);
		len = readlink(path, to, sizeof(to) - 1);
		to[len > 0 ? len : 0] = '\0';
		/* Not in folders of /tmp: a tree to test may lie there. */
		if (strstr(to, "taut") &&
		    (!strncmp(to, "/dev/shm/", 9) || (!strncmp(to, "/tmp/", 5) && !strchr(to + 5, '/'))))
			n++;
	}
	if (dir)
		closedir(dir);
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		n += strstr(line, "/dev/shm/") != NULL;
	if (f)
		fclose(f);
	return n;
}

/* The victim's listening socket in the name space that no file system shows; "" if it has none yet. */
static void abstract_name(char out[64], pid_t pid)
{
	char path[64], line[400], to[64], inode[32];
	FILE *f = fopen("/proc/net/unix", "r");

	out[0] = '\0';
	while (f && !out[0] && fgets(line, sizeof(line), f)) {
		const char *name = strstr(line, "@taut-");

		if (!name || sscanf(line, "%*s %*s %*s %*s %*s %*s %31s", inode) != 1)
			continue;
		for (int fd = 3; fd < 64 && !out[0]; fd++) {
			ssize_t len;

			snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
			len = readlink(path, to, sizeof(to) - 1);
			to[len > 0 ? len : 0] = '\0';
			if (!strncmp(to, "socket:[", 8) && !strncmp(to + 8, inode, strlen(inode)))
				sscanf(name, "%63s", out);
		}
	}
	if (f)
		fclose(f);
}

static bool socket_there(const char *name)
{
	FILE *f = fopen("/proc/net/unix", "r");
	char line[400];
	bool there = false;

	while (f && fgets(line, sizeof(line), f))
		there |= strstr(line, name) != NULL;
	if (f)
		fclose(f);
	return there;
}

static void judge(enum phase phase, int size, int victim, uint64_t killed_at)
{
	char host[256], pid[32], who[32], missing[32];

	gethostname(host, sizeof(host));
	snprintf(pid, sizeof(pid), "%d", (int)page->pid[victim]);
	snprintf(who, sizeof(who), "rank %d", victim);
	snprintf(missing, sizeof(missing), "join within %d ms: %d ", JOIN_MS, victim);
	for (int r = 0; r < size; r++) {
		const struct said *s = &page->said[r];
		double ms = s->at > killed_at ? (double)(s->at - killed_at) / 1e6 : 0;
		bool late = s->st == TAUT_ERR_TIMEOUT && phase == JOINING;
		bool named = strstr(s->text, who) || (late && strstr(s->text, missing));

		if (r == victim)
			continue;
		if (!late && ms > worst_ms[phase])
			worst_ms[phase] = ms;
		if (phase != JOINING)
			named = named && strstr(s->text, host) && strstr(s->text, pid);
		if (s->at && (s->st == TAUT_ERR_PEER || late) && named && ms < KNOWN_MS)
			continue;
		fprintf(stderr, "%s: rank %d of %d, %s (pid %s) killed: told %s \"%s\" after %.0f ms\n",
			phase_names[phase], r, size, who, pid, taut_status_name(s->st), s->text, ms);
		failures++;
	}
}

static void one(enum phase phase, unsigned *seed)
{
	int size = 2 + rand_r(seed) % 3, victim = rand_r(seed) % size, files;
	unsigned wait_us = (unsigned)rand_r(seed) % 20000;
	uint64_t killed_at;
	siginfo_t info;
	char name[64];

	start(size, run_rank, &phase);
	wait_for(&page->id_there, 1);
	if (phase != JOINING)
		wait_for(&page->here, size);
	usleep(wait_us);
	files = lasting_files(page->pid[victim]);
	abstract_name(name, page->pid[victim]);
	CHECK(name[0] || phase == JOINING);
	kill(page->pid[victim], SIGKILL);
	/* On a busy machine even a kill takes its time; nobody can know before. */
	waitid(P_PID, (id_t)page->pid[victim], &info, WEXITED | WNOWAIT);
	killed_at = now_ns();
	if (finish(size, 1u << victim, phase_names[phase]))
		judge(phase, size, victim, killed_at);
	CHECK(files == 0);
	CHECK(!name[0] || !socket_there(name));
	CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
	runs[phase]++;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 39;
	unsigned seed = argc > 2 ? (unsigned)atoi(argv[2]) : 1;

	setenv("TAUT_LOG", "none", 0);
	for (int i = 0; i < n; i++) {
		one(argc > 3 ? (enum phase)atoi(argv[3]) : (enum phase)(i % PHASES), &seed);
	}
	for (int p = 0; p < PHASES; p++)
		if (runs[p])
			printf("%-12s %3d killed, all told within %.0f ms\n", phase_names[p], runs[p], worst_ms[p]);
	printf("kill -9: %s\n", failures ? "FAILED" : "ok");
	return failures != 0;
}
