/* SPDX-License-Identifier: Apache-2.0 */
/* What GPU calls say when something fails: a rank that is killed in the middle of a collective, an abort from another
 * thread, calls that differ, a rank that leaves or comes late, a GPU that does not work any more. Every call ends
 * with the sentence, on every rank, and so do calls that nobody waits for. Ranks are processes that this one
 * starts; rank r uses GPU r modulo their number. Argument: how often to kill (default 100). */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "gpu_util.h"

#define BYTES ((size_t)8 << 20)
enum { AHEAD = 6, PATIENCE_S = 40, TIMES_MOST = 1000, END_MS = 10000 };

static struct gpu_functions gpu;
static struct page {
	struct taut_id id[TIMES_MOST];
	atomic_int made, up, turn, over, failed; /* of the kills: ids, ranks that compute, whose turn it is, ends */
	struct taut_id pair_id;
	atomic_int pair_made, step, left;
} * page;
static int rank;
static void *stream;
static unsigned char *buf;

#define CHECK(what)                                                                                                    \
	do {                                                                                                           \
		if (!(what)) {                                                                                         \
			fprintf(stderr, "rank %d: %s:%d: not so: %s (last error: %s)\n", rank, __FILE__, __LINE__,     \
				#what, taut_error_message());                                                          \
			atomic_fetch_add(&page->failed, 1);                                                            \
		}                                                                                                      \
	} while (0)

static void use_gpu(int r)
{
	int gpus = gpu_load(&gpu);

	if (!gpus)
		exit(77);
	rank = r;
	alarm(120);
	gpu_use(&gpu, r % gpus);
	gpu_must(gpu.stream(&stream, 1), "cuStreamCreate");
	buf = gpu_alloc(&gpu, BYTES);
}

static void wait_for(atomic_int *what, int least)
{
	while (atomic_load(what) < least)
		sleep_ms(1);
}

static enum taut_status reduce(struct taut_comm *comm, size_t bytes, void *on)
{
	return taut_all_reduce(buf, buf, bytes / 4, TAUT_FLOAT32, TAUT_MAX, comm, on);
}

/* Until the group has failed, as who polls sees it. */
static enum taut_status await_failure(struct taut_comm *comm)
{
	for (int ms = 0; ms < END_MS; ms++) {
		enum taut_status st = taut_comm_status(comm);

		if (st)
			return st;
		sleep_ms(1);
	}
	return TAUT_OK;
}

static bool says(const char *text)
{
	return strstr(taut_error_message(), text);
}

/* The GPU itself must have stayed whole. */
static void check_gpu(void)
{
	CHECK(!gpu.sync(stream));
	gpu_set(&gpu, buf, 0, BYTES);
}

/* --- kills --- */
/* Small, middle and large calls: each kernel. */
static size_t bytes_of(int time)
{
	static const size_t sizes[] = { 64, 60000, 400000, BYTES };

	return sizes[time % 4];
}

static void compute(struct taut_comm *comm, int time)
{
	enum taut_status st = TAUT_OK;

	for (int i = 0; !st; i++) {
		st = reduce(comm, bytes_of(time), i % 2 ? stream : NULL);
		if (!i && !st)
			atomic_fetch_add(&page->up, 1);
	}
}

static void victim(int time)
{
	struct taut_comm *comm;

	use_gpu(1);
	wait_for(&page->turn, time + 1);
	wait_for(&page->made, time + 1);
	taut_must(taut_comm_create(&comm, &page->id[time], 1, 2, NULL), "taut_comm_create");
	compute(comm, time);
	exit(1);
}

static void survivor(int times)
{
	use_gpu(0);
	for (int time = 0; time < times; time++) {
		struct taut_comm *comm;
		uint64_t begun;

		wait_for(&page->turn, time + 1);
		taut_must(taut_id_create(&page->id[time]), "taut_id_create");
		atomic_store(&page->made, time + 1);
		taut_must(taut_comm_create(&comm, &page->id[time], 0, 2, NULL), "taut_comm_create");
		begun = now_ns();
		compute(comm, time);
		CHECK(taut_comm_status(comm) == TAUT_ERR_PEER && says("rank 1"));
		check_gpu();
		taut_comm_destroy(comm);
		CHECK(now_ns() - begun < 5000000000u);
		atomic_store(&page->over, time + 1);
	}
	exit(0);
}

static pid_t start(void (*what)(int), int arg)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	what(arg);
	exit(0);
}

static int ended(pid_t pid)
{
	int status = 0;

	waitpid(pid, &status, 0);
	return WEXITSTATUS(status);
}

static bool await(atomic_int *what, int least, const char *sentence)
{
	for (int ms = 0; ms < PATIENCE_S * 1000; ms++) {
		if (atomic_load(what) >= least)
			return true;
		sleep_ms(1);
	}
	fprintf(stderr, "%s: not within %d s\n", sentence, PATIENCE_S);
	atomic_fetch_add(&page->failed, 1);
	return false;
}

static void kills(int times)
{
	pid_t first = start(survivor, times), pid[TIMES_MOST];
	uint64_t begun = now_ns();
	int started = 0, time;

	for (time = 0; time < times && !atomic_load(&page->failed); time++) {
		for (; started < times && started < time + AHEAD; started++)
			pid[started] = start(victim, started);
		atomic_store(&page->turn, time + 1);
		if (!await(&page->up, 2 * (time + 1), "two ranks that compute"))
			break;
		sleep_ms((unsigned)(time * 7 % 20));
		kill(pid[time], SIGKILL);
		waitpid(pid[time], NULL, 0);
		if (!await(&page->over, time + 1, "the end of a call whose peer was killed"))
			break;
	}
	for (int i = time; i < started; i++) {
		kill(pid[i], SIGKILL);
		waitpid(pid[i], NULL, 0);
	}
	if (time < times)
		kill(first, SIGKILL);
	waitpid(first, NULL, 0);
	printf("%d ranks were killed in the middle of a collective in %.1f s\n", time,
	       (double)(now_ns() - begun) * 1e-9);
}

/* --- a pair of ranks, through one failure after the other --- */
static struct taut_comm *meet(void)
{
	static int meetings;
	struct taut_comm *comm;

	meetings++;
	if (rank == 0) {
		wait_for(&page->left, 2 * (meetings - 1));
		taut_must(taut_id_create(&page->pair_id), "taut_id_create");
		atomic_store(&page->step, 0);
		atomic_store(&page->pair_made, meetings);
	}
	wait_for(&page->pair_made, meetings);
	taut_must(taut_comm_create(&comm, &page->pair_id, rank, 2, NULL), "taut_comm_create");
	taut_must(reduce(comm, 4096, NULL), "taut_all_reduce");
	return comm;
}

static void part(struct taut_comm *comm)
{
	check_gpu();
	taut_comm_destroy(comm);
	atomic_fetch_add(&page->left, 1);
}

/* Large calls too: each kernel waits in its own way. @waited: by the call, else by its stream only: who asks then is
 * told. */
static void differ(size_t bytes, bool waited)
{
	struct taut_comm *comm = meet();
	enum taut_status st = reduce(comm, rank ? bytes / 2 : bytes, waited ? NULL : stream);

	if (!waited && !st) {
		CHECK(!gpu.sync(stream));
		st = taut_comm_status(comm);
	}
	CHECK(st == TAUT_ERR_MISMATCH);
	CHECK(says("rank 0") && says("rank 1") && says("all_reduce(count "));
	part(comm);
}

static void differ_in_kind(void)
{
	struct taut_comm *comm = meet();
	enum taut_status st =
		rank ? taut_all_gather(buf, buf + BYTES / 2, 1000, TAUT_INT8, comm, NULL) : reduce(comm, 4000, NULL);

	CHECK(st == TAUT_ERR_MISMATCH);
	CHECK(says("all_reduce") && says("all_gather"));
	part(comm);
}

static void *abort_soon(void *comm)
{
	sleep_ms(300);
	CHECK(!taut_comm_abort(comm));
	return NULL;
}

/* Rank 1 never makes the call; rank 0 waits in a kernel. */
static void aborted(size_t bytes)
{
	struct taut_comm *comm = meet();
	pthread_t thread;
	enum taut_status st;

	if (rank == 0) {
		pthread_create(&thread, NULL, abort_soon, comm);
		st = reduce(comm, bytes, NULL);
		pthread_join(thread, NULL);
	} else {
		st = await_failure(comm);
	}
	CHECK(st == TAUT_ERR_ABORTED);
	CHECK(reduce(comm, bytes, NULL) == TAUT_ERR_ABORTED);
	part(comm);
}

static void late(void)
{
	struct taut_comm *comm = meet();

	if (rank)
		sleep_ms(2500);
	CHECK(!reduce(comm, 60000, NULL));
	CHECK(!taut_comm_status(comm));
	part(comm);
}

/* Rank 1 leaves in order, and rank 0 waits for it: in a collective, or for a message. */
static void leaves(bool message)
{
	struct taut_comm *comm = meet();
	enum taut_status st;

	if (rank == 0) {
		st = message ? taut_recv(buf, 4096, TAUT_INT8, 1, 3, comm, NULL) : reduce(comm, 60000, NULL);
		CHECK(st == TAUT_ERR_PEER && says("rank 1"));
	}
	part(comm);
}

/* A kernel that writes to address 0. */
static void break_gpu(void)
{
	static const char ptx[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
				  ".visible .entry bad() { .reg .u64 %a; .reg .u32 %b; mov.u64 %a, 64; mov.u32 %b, 1;\n"
				  "st.global.u32 [%a], %b; ret; }\n";
	void *lib = dlopen("libcuda.so.1", RTLD_NOW), *module, *f;
	int (*load)(void **, const void *), (*find)(void **, void *, const char *);
	int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
		      void **);

	*(void **)&load = dlsym(lib, "cuModuleLoadData");
	*(void **)&find = dlsym(lib, "cuModuleGetFunction");
	*(void **)&launch = dlsym(lib, "cuLaunchKernel");
	gpu_must(load(&module, ptx), "cuModuleLoadData");
	gpu_must(find(&f, module, "bad"), "cuModuleGetFunction");
	gpu_must(launch(f, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL), "cuLaunchKernel");
	CHECK(gpu.sync(stream) == 700);
}

/* Rank 1's GPU breaks; it makes one more call, or (@silent) had made one that nobody waits for. */
static void broken(bool silent)
{
	struct taut_comm *comm = meet();
	enum taut_status st;

	if (rank && silent) {
		CHECK(!reduce(comm, 4096, stream)); /* is counted as made, and looked for */
		break_gpu();
		st = await_failure(comm);
	} else if (rank) {
		break_gpu();
		st = reduce(comm, 60000, NULL);
	} else {
		if (silent)
			CHECK(!reduce(comm, 4096, NULL));
		st = reduce(comm, 60000, NULL);
	}
	CHECK(st == TAUT_ERR_SYS && says("illegal memory access"));
	if (!rank)
		check_gpu();
	taut_comm_destroy(comm);
	atomic_fetch_add(&page->left, 1);
}

static void pair(int r)
{
	use_gpu(r);
	for (int i = 0; i < 4; i++) {
		differ(bytes_of(i), true);
		differ(bytes_of(i), false);
		aborted(bytes_of(i));
	}
	differ_in_kind();
	late();
	leaves(false);
	leaves(true);
	if (!getenv("FAKE_GPUS")) /* which do not break */
		broken(false);
}

static void silent_pair(int r)
{
	use_gpu(r);
	broken(true);
}

/* Memory that cannot be cleared is given back; on the driver without GPUs, which can be told to fail. */
static void uncleared(int r)
{
	void *lib, *p = &lib;
	struct taut_comm *comm;
	struct taut_id id;
	void (*refuse)(void);
	int (*count)(void), before;

	use_gpu(r);
	lib = dlopen("libcuda.so.1", RTLD_NOW);
	*(void **)&refuse = dlsym(lib, "fake_refuse_memset");
	*(void **)&count = dlsym(lib, "fake_allocations");
	gpu_must(!refuse || !count, "the driver's functions for tests");
	taut_must(taut_id_create(&id), "taut_id_create");
	taut_must(taut_comm_create(&comm, &id, 0, 1, NULL), "taut_comm_create");
	before = count();
	refuse();
	CHECK(taut_mem_alloc(&p, 1 << 20, comm) == TAUT_ERR_SYS && says("clearing GPU memory"));
	CHECK(p == &lib);
	CHECK(count() == before);
	taut_comm_destroy(comm);
}

static void both(void (*what)(int), const char *sentence)
{
	pid_t pid[2];
	int status;

	atomic_store(&page->left, 0);
	atomic_store(&page->pair_made, 0);
	for (int r = 0; r < 2; r++)
		pid[r] = start(what, r);
	for (int r = 0; r < 2; r++) {
		waitpid(pid[r], &status, 0);
		if (!status)
			continue;
		fprintf(stderr, "%s: rank %d ended with status %x\n", sentence, r, (unsigned)status);
		atomic_fetch_add(&page->failed, 1);
	}
}

int main(int argc, char **argv)
{
	int times = argc > 1 ? atoi(argv[1]) : 100;

	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return 1;
	if (ended(start(use_gpu, 0)) == 77)
		return 77;
	both(pair, "failures");
	if (!getenv("FAKE_GPUS"))
		both(silent_pair, "a GPU that broke in silence");
	else if (ended(start(uncleared, 0)))
		atomic_fetch_add(&page->failed, 1);
	kills(times < TIMES_MOST ? times : TIMES_MOST);
	if (!atomic_load(&page->failed))
		printf("every failure was told\n");
	return atomic_load(&page->failed) != 0;
}
