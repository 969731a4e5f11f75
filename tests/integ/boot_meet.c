/* SPDX-License-Identifier: Apache-2.0 */
/* boot_create_env(): meeting at a port, an abstract socket and through a file; what is in
 * the way of each. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "boot_util.h"

enum { SIZE = 5 };

static char where[400];
static bool secret_given = true;
static int other_secret = -1, late_rank_0;
static char warned[300];

static struct boot_env env_of(int rank, int size)
{
	struct boot_env env = { .rank = rank, .size = size, .local_rank = -1, .local_size = -1, .launcher = "manual" };

	snprintf(env.rendezvous, sizeof(env.rendezvous), "%s", where);
	env.secret_given = secret_given;
	memset(env.secret, rank == other_secret ? 9 : 7, sizeof(env.secret));
	return env;
}

static void sink(enum log_level level, enum log_module module, const char *line, void *ctx)
{
	(void)module;
	(void)ctx;
	if (level <= LOG_WARN)
		snprintf(warned, sizeof(warned), "%s", line);
}

/* Two groups one after the other, then two at once; ranks come in any order. */
static int good(int rank)
{
	struct config cfg = test_config();
	struct boot_env env = env_of(rank, SIZE);
	struct boot *a = NULL, *b = NULL, *c = NULL;
	int all[SIZE];

	if (rank == 0)
		sleep_ms((unsigned)late_rank_0);
	CHECK(boot_create_env(&a, &env, 20000, &cfg, NULL) == TAUT_OK);
	CHECK(a && boot_all_gather(a, &rank, sizeof(rank), all) == TAUT_OK && all[SIZE - 1] == SIZE - 1);
	boot_close(a);
	a = NULL;
	CHECK(boot_create_env(&b, &env, 20000, &cfg, NULL) == TAUT_OK);
	CHECK(boot_create_env(&c, &env, 20000, &cfg, NULL) == TAUT_OK);
	CHECK(b && boot_barrier(b) == TAUT_OK);
	CHECK(c && boot_barrier(c) == TAUT_OK);
	boot_close(c);
	boot_close(b);
	config_cleanup(&cfg);
	return 0;
}

static int wrong_secret(int rank)
{
	struct config cfg = test_config();
	struct boot_env env = env_of(rank, 2);
	struct boot *b = NULL;
	enum taut_status st = boot_create_env(&b, &env, 3000, &cfg, NULL);

	say(rank, taut_error_message());
	CHECK(st != TAUT_OK);
	if (rank == 1 && !strncmp(where, "file:", 5))
		CHECK(st == TAUT_ERR_AUTH);
	config_cleanup(&cfg);
	return 0;
}

static int fails(int rank, int size, enum taut_status want, const char *a, const char *b)
{
	struct config cfg = test_config();
	struct boot_env env = env_of(rank, size);
	struct boot *boot = NULL;
	enum taut_status st = boot_create_env(&boot, &env, 400, &cfg, NULL);

	config_cleanup(&cfg);
	if (st == want && strstr(taut_error_message(), a) && strstr(taut_error_message(), b))
		return 0;
	fprintf(stderr, "%s: status %d, \"%s\", wanted \"%s\" and \"%s\"\n", where, (int)st, taut_error_message(), a,
		b);
	failures++;
	return 1;
}

static int free_port(int *fd)
{
	struct sockaddr_in sa = { .sin_family = AF_INET };
	socklen_t len = sizeof(sa);

	*fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(bind(*fd, (void *)&sa, len) == 0 && listen(*fd, 1) == 0);
	CHECK(getsockname(*fd, (void *)&sa, &len) == 0);
	return ntohs(sa.sin_port);
}

static void all(int n, int (*run)(int rank))
{
	page_new();
	start_ranks(0, n, run);
	wait_ranks(0, n, 0);
}

static void ports(void)
{
	char text[32];
	int fd, port = free_port(&fd);

	snprintf(where, sizeof(where), "127.0.0.1:%d", port);
	snprintf(text, sizeof(text), "port %d,", port);
	fails(0, 2, TAUT_ERR_NET, text, "TAUT_RENDEZVOUS");
	close(fd);
	fails(0, 2, TAUT_ERR_TIMEOUT, "1 of 2 ranks did not join within 400 ms: 1", "");
	fails(1, 2, TAUT_ERR_TIMEOUT, "rank 0 at 127.0.0.1:", "did not answer within 400 ms");
	all(SIZE, good);
	late_rank_0 = 300;
	all(SIZE, good);
	late_rank_0 = 0;
	snprintf(where, sizeof(where), "[::1]:%d", port);
	all(SIZE, good);
	other_secret = 1;
	all(2, wrong_secret);
	other_secret = -1;
	strcpy(where, "no-such-host.invalid:1234");
	fails(1, 2, TAUT_ERR_NET, "\"no-such-host.invalid\" does not resolve", "TAUT_RENDEZVOUS");
	fails(0, 2, TAUT_ERR_NET, "\"no-such-host.invalid\" does not resolve", "TAUT_RENDEZVOUS");
	strcpy(where, "localhost:99999");
	fails(0, 2, TAUT_ERR_CONFIG, "localhost:99999", "1 to 65535");
}

enum { LATE_MS = 390, SOON_MS = 80 }; /* attempts that are twice as far apart each time wait until 515 ms */

static int one_late(int rank)
{
	struct config cfg = test_config();
	struct boot_env env = env_of(rank, 2);
	struct boot *b = NULL;

	if (rank == 0)
		sleep_ms(LATE_MS);
	if (rank == 0)
		atomic_store(&page->when[0], now_ns());
	CHECK(boot_create_env(&b, &env, 20000, &cfg, NULL) == TAUT_OK);
	if (rank == 1)
		atomic_store(&page->when[1], now_ns());
	boot_close(b);
	config_cleanup(&cfg);
	return 0;
}

/* On one machine nobody waits long for a rank 0 that is there; once of a few times, for other work comes between. */
static void found_soon(void)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 5 && least > SOON_MS * 1000000u; i++) {
		uint64_t took;

		page_new();
		start_ranks(0, 2, one_late);
		wait_ranks(0, 2, 0);
		took = atomic_load(&page->when[1]) - atomic_load(&page->when[0]);
		least = took < least ? took : least;
	}
	CHECK(least <= SOON_MS * 1000000u);
}

static void abstract(void)
{
	snprintf(where, sizeof(where), "abstract:boot-meet-test-%d", (int)getpid());
	found_soon();
	all(SIZE, good);
	late_rank_0 = 300;
	all(SIZE, good);
	late_rank_0 = 0;
	fails(1, 2, TAUT_ERR_TIMEOUT, "rank 0 at abstract:", "400 ms");
}

static const char *path(void)
{
	return where + 5;
}

static bool there(void)
{
	struct stat s;

	return !stat(path(), &s);
}

/* Leaves its file behind. */
static int killed_writer(int rank)
{
	struct config cfg = test_config();
	struct boot_env env = env_of(rank, 2);
	struct boot *b = NULL;

	boot_create_env(&b, &env, 60000, &cfg, NULL);
	return 0;
}

static void leave_stale_file(void)
{
	struct stat s;

	page_new();
	start_ranks(0, 1, killed_writer);
	for (int i = 0; i < 5000 && !there(); i++)
		sleep_ms(1);
	CHECK(there() && !stat(path(), &s) && (s.st_mode & 0777) == 0600);
	kill(page->pid[0], SIGKILL);
	wait_rank(0);
}

static void files(void)
{
	char dir[] = "/tmp/boot-meet-XXXXXX";
	FILE *f;

	CHECK(mkdtemp(dir) != NULL);
	snprintf(where, sizeof(where), "file:%s/id", dir);
	all(SIZE, good);
	CHECK(!there());
	secret_given = false;
	all(SIZE, good);
	secret_given = true;
	leave_stale_file();
	fails(1, 2, TAUT_ERR_TIMEOUT, "no rank 0 through file:", "refused");
	late_rank_0 = 200;
	all(SIZE, good);
	late_rank_0 = 0;
	CHECK(!there());
	fails(0, 2, TAUT_ERR_TIMEOUT, "1 of 2 ranks", "");
	CHECK(!there());
	f = fopen(path(), "w");
	fputs("rubbish", f);
	fclose(f);
	chmod(path(), 0600);
	fails(1, 2, TAUT_ERR_TIMEOUT, "no rank 0 through file:", "it holds no id");
	chmod(path(), 0666);
	fails(1, 2, TAUT_ERR_TIMEOUT, "no rank 0 through file:", "others may read or write it");
	all(SIZE, good);
	other_secret = 1;
	all(2, wrong_secret);
	other_secret = -1;
	CHECK(!there());
	CHECK(rmdir(dir) == 0);
	fails(0, 2, TAUT_ERR_SYS, "make /tmp/boot-meet-", "No such file");
}

/* Emulated: the warning that a derived secret is weak comes between machines only. */
static int two_hosts(int rank)
{
	struct config cfg = test_config();
	struct boot_env env = env_of(rank, 2);
	struct boot *b = NULL;

	log_set_sink(sink, NULL);
	log_now.level = LOG_WARN;
	CHECK(config_set(&cfg, "TAUT_HOSTID", rank ? "one" : "two") == TAUT_OK);
	CHECK(boot_create_env(&b, &env, 20000, &cfg, NULL) == TAUT_OK);
	CHECK(b && boot_nodes(b) == 2);
	CHECK((strstr(warned, "ranks on 2 machines") != NULL) == (rank == 0 && !secret_given));
	boot_close(b);
	config_cleanup(&cfg);
	return 0;
}

static int alone(int rank)
{
	struct config cfg = test_config();
	struct boot_env env = { .rank = 0, .size = 1, .launcher = "single" };
	struct boot *b = NULL;

	(void)rank;
	CHECK(boot_create_env(&b, &env, 1000, &cfg, NULL) == TAUT_OK);
	CHECK(b && boot_size(b) == 1 && boot_barrier(b) == TAUT_OK);
	boot_close(b);
	config_cleanup(&cfg);
	return 0;
}

int main(void)
{
	int fd;

	log_now.level = LOG_NONE;
	all(1, alone);
	ports();
	abstract();
	files();
	snprintf(where, sizeof(where), "127.0.0.1:%d", free_port(&fd));
	close(fd);
	all(2, two_hosts);
	secret_given = false;
	all(2, two_hosts);
	return failures != 0;
}
