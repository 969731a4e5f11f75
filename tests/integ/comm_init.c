/* SPDX-License-Identifier: Apache-2.0 */
/* Joining that goes wrong: each rank gets a sentence that says what is missing or wrong, and what
 * is not a rank disturbs nobody. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "failing.h"

#define SHORT_MS 1500

static enum taut_status join_env(struct taut_comm **out, int rank, int size, const char *where, const char *secret,
				 int timeout_ms)
{
	struct taut_comm_opts opts = { .size = sizeof(opts), .timeout_ms = timeout_ms };
	char text[16];

	snprintf(text, sizeof(text), "%d", rank);
	setenv("TAUT_RANK", text, 1);
	snprintf(text, sizeof(text), "%d", size);
	setenv("TAUT_SIZE", text, 1);
	setenv("TAUT_RENDEZVOUS", where, 1);
	setenv("TAUT_SECRET", secret, 1);
	return taut_comm_create_env(out, &opts);
}

/* Says what came of it; a group that came about works. */
static void report(struct taut_comm *comm, enum taut_status st, int rank, int size)
{
	say(rank, st);
	if (!st)
		CHECK(all_reduce_ok(comm, rank, size));
	if (!st)
		taut_comm_destroy(comm);
}

static void want(int rank, enum taut_status st, enum taut_status or, const char *words, const char *what)
{
	const struct said *s = &page->said[rank];

	if (getenv("SAY"))
		fprintf(stderr, "%s, rank %d: %s \"%s\"\n", what, rank, taut_status_name(s->st), s->text);
	if (s->at && (s->st == st || s->st == or) && (!words || strstr(s->text, words)))
		return;
	fprintf(stderr, "%s: rank %d was told %s \"%s\", wanted: %s, \"%s\"\n", what, rank,
		s->at ? taut_status_name(s->st) : "nothing", s->text, taut_status_name(st), words ? words : "");
	failures++;
}

/* A port that was free a moment ago; *@fd holds it until it is closed. */
static int some_port(int *fd)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);

	*fd = socket(AF_INET, SOCK_STREAM, 0);
	if (*fd < 0 || bind(*fd, (void *)&a, sizeof(a)) || getsockname(*fd, (void *)&a, &len))
		exit(1);
	return ntohs(a.sin_port);
}

/* --- by id --- */
static void one_missing(int rank, int size, void *arg)
{
	struct taut_comm *comm = NULL;

	(void)arg;
	if (rank == 2) {
		share_id(rank);
		return;
	}
	report(comm, join(&comm, rank, size, SHORT_MS), rank, size);
}

static void other_sizes(int rank, int size, void *arg)
{
	struct taut_comm *comm = NULL;

	(void)arg;
	report(comm, join(&comm, rank, rank ? size + 1 : size, SHORT_MS), rank, size);
}

/* The third process says that it is rank 1 too. */
static void rank_twice(int rank, int size, void *arg)
{
	struct taut_comm *comm = NULL;
	struct taut_comm_opts opts = { .size = sizeof(opts), .timeout_ms = SHORT_MS };

	(void)arg;
	share_id(rank);
	report(comm, taut_comm_create(&comm, &page->id, rank < 2 ? rank : 1, size, &opts), rank, size);
}

static void by_id(void)
{
	start(3, one_missing, NULL);
	finish(3, 0, "missing rank");
	want(0, TAUT_ERR_TIMEOUT, TAUT_ERR_TIMEOUT, ": 2 (", "missing rank");
	want(1, TAUT_ERR_TIMEOUT, TAUT_ERR_TIMEOUT, ": 2 (", "missing rank");
	start(2, other_sizes, NULL);
	finish(2, 0, "other size");
	want(0, TAUT_ERR_TIMEOUT, TAUT_ERR_ARG, "rank 1", "other size");
	want(1, TAUT_ERR_ARG, TAUT_ERR_MISMATCH, "3", "other size");
	start(3, rank_twice, NULL);
	finish(3, 0, "rank twice");
	want(0, TAUT_ERR_ARG, TAUT_ERR_ARG, "two processes join as rank 1", "rank twice");
	CHECK(strstr(page->said[1].text, "rank 1") || strstr(page->said[2].text, "rank 1"));
}

/* --- arguments --- */
static bool names_call(const char *begin)
{
	return !strncmp(taut_error_message(), begin, strlen(begin));
}

static void arguments(int rank, int size, void *arg)
{
	struct taut_comm_opts opts = { .size = sizeof(opts), .timeout_ms = 100 };
	char text[TAUT_ID_TEXT_BYTES], bad[TAUT_ID_TEXT_BYTES];
	struct taut_id id, other, zero = { { 0 } };
	struct taut_comm *comm = NULL;

	(void)rank;
	(void)size;
	(void)arg;
	CHECK(taut_id_create(&id) == TAUT_OK && taut_id_to_text(text, &id) == TAUT_OK);
	CHECK(taut_id_from_text(&other, text) == TAUT_OK && !memcmp(&id, &other, sizeof(id)));
	CHECK(taut_id_from_text(&other, "") == TAUT_ERR_ARG && taut_error_message()[0]);
	CHECK(taut_id_from_text(&other, NULL) == TAUT_ERR_ARG && taut_error_message()[0]);
	memcpy(bad, text, sizeof(bad));
	bad[100] = 'x';
	CHECK(taut_id_from_text(&other, bad) == TAUT_ERR_ARG && taut_error_message()[0]);
	bad[100] = '\0';
	CHECK(taut_id_from_text(&other, bad) == TAUT_ERR_ARG);
	CHECK(taut_comm_create(&comm, &id, 2, 2, NULL) == TAUT_ERR_ARG && strstr(taut_error_message(), "rank is 2"));
	CHECK(taut_comm_create(&comm, &id, -1, 2, NULL) == TAUT_ERR_ARG && strstr(taut_error_message(), "rank is -1"));
	CHECK(taut_comm_create(&comm, &id, 0, 0, NULL) == TAUT_ERR_ARG && strstr(taut_error_message(), "size is 0"));
	CHECK(taut_comm_create(&comm, NULL, 0, 1, NULL) == TAUT_ERR_ARG);
	CHECK(taut_comm_create(NULL, &id, 0, 1, NULL) == TAUT_ERR_ARG);
	CHECK(taut_comm_create(&comm, &zero, 0, 1, NULL) == TAUT_ERR_ARG &&
	      strstr(taut_error_message(), "taut_id_create"));
	opts.size = 8;
	CHECK(taut_comm_create(&comm, &id, 0, 1, &opts) == TAUT_ERR_ARG && strstr(taut_error_message(), "size"));
	opts = (struct taut_comm_opts){ .size = sizeof(opts), .timeout_ms = -1 };
	CHECK(taut_comm_create(&comm, &id, 0, 1, &opts) == TAUT_ERR_ARG &&
	      strstr(taut_error_message(), "opts->timeout_ms is -1"));
	CHECK(!comm);
	CHECK(taut_comm_create(&comm, &id, 0, 1, NULL) == TAUT_OK && all_reduce_ok(comm, 0, 1));
	CHECK(taut_comm_split(NULL, comm, 0, 0, NULL) == TAUT_ERR_ARG && names_call("taut_comm_split:"));
	CHECK(taut_comm_dup(NULL, comm, NULL) == TAUT_ERR_ARG && names_call("taut_comm_dup:"));
	CHECK(taut_comm_dup(&comm, comm, &opts) == TAUT_ERR_ARG && names_call("taut_comm_dup: opts->timeout_ms"));
	taut_comm_destroy(comm);
}

/* --- by a meeting point --- */
struct meeting {
	char where[300];
	const char *secrets[MOST];
	int timeout_ms;
};

static void meet(int rank, int size, void *arg)
{
	const struct meeting *m = arg;
	struct taut_comm *comm = NULL;

	report(comm, join_env(&comm, rank, size, m->where, m->secrets[rank], m->timeout_ms), rank, size);
}

static void by_meeting(void)
{
	struct meeting m = { .timeout_ms = SHORT_MS, .secrets = { "right", "wrong", "right" } };
	int fd, port = some_port(&fd);
	char text[32];

	snprintf(m.where, sizeof(m.where), "127.0.0.1:%d", port);
	close(fd);
	start(2, meet, &m);
	finish(2, 0, "wrong secret");
	want(0, TAUT_ERR_TIMEOUT, TAUT_ERR_AUTH, ": 1 (", "wrong secret");
	want(1, TAUT_ERR_AUTH, TAUT_ERR_TIMEOUT, "secret", "wrong secret");

	m.secrets[1] = "right";
	port = some_port(&fd);
	CHECK(listen(fd, 5) == 0); /* another program has it */
	snprintf(m.where, sizeof(m.where), "127.0.0.1:%d", port);
	start(2, meet, &m);
	finish(2, 0, "port in use");
	snprintf(text, sizeof(text), "%d", port);
	want(0, TAUT_ERR_NET, TAUT_ERR_NET, text, "port in use");
	want(1, TAUT_ERR_TIMEOUT, TAUT_ERR_NET, text, "port in use");
	close(fd);

	snprintf(m.where, sizeof(m.where), "no-such-host.invalid:%d", port);
	start(2, meet, &m);
	finish(2, 0, "unknown name");
	want(0, TAUT_ERR_NET, TAUT_ERR_CONFIG, "no-such-host.invalid", "unknown name");
	want(1, TAUT_ERR_NET, TAUT_ERR_CONFIG, "no-such-host.invalid", "unknown name");
}

/* --- strangers at the port while ranks join --- */
static int call_port(int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	a.sin_port = htons((uint16_t)port);
	for (int i = 0; i < 500 && connect(fd, (void *)&a, sizeof(a)); i++) {
		close(fd);
		fd = socket(AF_INET, SOCK_STREAM, 0);
		sleep_ms(2);
	}
	return fd;
}

static void disturb(int port)
{
	unsigned seed = 5;

	for (int i = 0; i < 200; i++) {
		unsigned char junk[3000];
		int fd = call_port(port);

		for (size_t k = 0; k < sizeof(junk); k++)
			junk[k] = (unsigned char)rand_r(&seed);
		/* Some say nothing, some a little, some much; some stay. */
		if (i % 3 && send(fd, junk, i % 3 == 1 ? 5 : sizeof(junk), MSG_NOSIGNAL) < 0)
			close(fd);
		else if (i % 4 == 0)
			close(fd);
		if (i == 20)
			atomic_store(&page->gate, 1); /* the others may come */
		sleep_ms(1);
	}
	for (;;)
		pause();
}

static void meet_later(int rank, int size, void *arg)
{
	if (rank)
		wait_for(&page->gate, 1);
	meet(rank, size, arg);
}

static void strangers(void)
{
	struct meeting m = { .timeout_ms = 30000, .secrets = { "s", "s", "s" } };
	int fd, port = some_port(&fd), status;
	pid_t pid;

	snprintf(m.where, sizeof(m.where), "127.0.0.1:%d", port);
	close(fd);
	start(3, meet_later, &m);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		disturb(port);
	}
	finish(3, 0, "strangers");
	for (int r = 0; r < 3; r++)
		want(r, TAUT_OK, TAUT_OK, NULL, "strangers");
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
}

/* --- the environment --- */
static const struct {
	const char *name, *vars[8], *words;
	enum taut_status st;
} environments[] = {
	{ "rank beyond size",
	  { "TAUT_RANK=5", "TAUT_SIZE=3", "TAUT_RENDEZVOUS=127.0.0.1:7777" },
	  "TAUT_RANK",
	  TAUT_ERR_CONFIG },
	{ "no size", { "TAUT_RANK=0", "TAUT_RENDEZVOUS=127.0.0.1:7777" }, "TAUT_SIZE", TAUT_ERR_CONFIG },
	{ "no rank", { "TAUT_SIZE=2", "TAUT_RENDEZVOUS=127.0.0.1:7777" }, "TAUT_RANK", TAUT_ERR_CONFIG },
	{ "no meeting point", { "TAUT_RANK=0", "TAUT_SIZE=2" }, "TAUT_RENDEZVOUS", TAUT_ERR_CONFIG },
	{ "rank is no number", { "TAUT_RANK=one", "TAUT_SIZE=2" }, "TAUT_RANK", TAUT_ERR_CONFIG },
	{ "meeting point without port",
	  { "TAUT_RANK=0", "TAUT_SIZE=2", "TAUT_RENDEZVOUS=127.0.0.1" },
	  "TAUT_RENDEZVOUS",
	  TAUT_ERR_CONFIG },
	{ "port beyond limits",
	  { "TAUT_RANK=0", "TAUT_SIZE=2", "TAUT_RENDEZVOUS=127.0.0.1:70000" },
	  "TAUT_RENDEZVOUS",
	  TAUT_ERR_CONFIG },
	{ "torchrun without address", { "RANK=0", "WORLD_SIZE=2", "MASTER_PORT=1" }, "MASTER_ADDR", TAUT_ERR_CONFIG },
	{ "torchrun, rank beyond size",
	  { "RANK=2", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=7777", "LOCAL_RANK=0" },
	  "RANK",
	  TAUT_ERR_CONFIG },
	{ "secret file that is not there",
	  { "TAUT_RANK=0", "TAUT_SIZE=2", "TAUT_RENDEZVOUS=127.0.0.1:7777", "TAUT_SECRET_FILE=/no/such/file" },
	  "/no/such/file",
	  TAUT_ERR_CONFIG },
	{ "wire that is none", { "TAUT_WIRE=pigeon" }, "TAUT_WIRE", TAUT_ERR_CONFIG },
};

static void from_environment(int rank, int size, void *arg)
{
	size_t i = *(size_t *)arg;
	struct taut_comm_opts opts = { .size = sizeof(opts), .timeout_ms = SHORT_MS };
	struct taut_comm *comm = NULL;
	enum taut_status st;

	for (int k = 0; k < 8 && environments[i].vars[k]; k++)
		putenv((char *)(uintptr_t)environments[i].vars[k]);
	st = taut_comm_create_env(&comm, &opts);
	if (!st && !strcmp(environments[i].name, "wire that is none"))
		st = all_reduce_ok(comm, 0, 1) ? TAUT_OK : TAUT_ERR_INTERNAL;
	say(rank, st);
	(void)size;
}

int main(void)
{
	setenv("TAUT_LOG", "none", 0);
	by_id();
	start(1, arguments, NULL);
	finish(1, 0, "arguments");
	by_meeting();
	strangers();
	for (size_t i = 0; i < sizeof(environments) / sizeof(environments[0]); i++) {
		start(1, from_environment, &i);
		finish(1, 0, environments[i].name);
		want(0, environments[i].st, environments[i].st, environments[i].words, environments[i].name);
	}
	printf("init: %s\n", failures ? "FAILED" : "ok");
	return failures != 0;
}
