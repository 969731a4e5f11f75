/* SPDX-License-Identifier: Apache-2.0 */
/* fork() with a service running: the child's copies do not keep a dead parent's connections
 * open; the parent's group cannot be used in the child; the child makes groups of its own,
 * and so does the parent afterwards. Descriptors and threads are gone with the last group. */
#include <dirent.h>

#include "boot_util.h"

static int count_entries(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static void group_of_one(void)
{
	struct config cfg = test_config();
	struct taut_id id;
	struct boot *b = NULL;

	CHECK(boot_id_create(&id, &cfg) == TAUT_OK);
	CHECK(boot_create(&b, &id, 0, 1, 5000, &cfg, NULL) == TAUT_OK);
	CHECK(b && boot_barrier(b) == TAUT_OK);
	boot_close(b);
	config_cleanup(&cfg);
}

static void in_child(struct boot *b)
{
	int fd;

	CHECK(boot_barrier(b) == TAUT_ERR_ARG);
	CHECK(strstr(taut_error_message(), "not to its child"));
	CHECK(boot_dial(&fd, b, 0, NULL, 0, true) == TAUT_ERR_ARG);
	boot_abort(b);
	boot_report(b, TAUT_ERR_NET, "nothing");
	boot_query_call(b, 1);
	boot_close(b);
	/* The thread sanitizer ends a child of a process with threads that starts one. */
#ifndef __SANITIZE_THREAD__
	group_of_one();
#endif
}

static int rank_main(int rank)
{
	struct config cfg = test_config();
	struct boot *b = NULL;
	pid_t child;

	share_id(rank, &cfg);
	CHECK(boot_create(&b, &page->id, rank, 2, 20000, &cfg, NULL) == TAUT_OK);
	CHECK(boot_barrier(b) == TAUT_OK);
	if (rank == 0) {
		CHECK(boot_barrier(b) == TAUT_ERR_PEER); /* though rank 1's child lives */
		atomic_store(&page->counter[2], 1);
		boot_close(b);
		config_cleanup(&cfg);
		return 0;
	}
	child = fork();
	if (child == 0) {
		failures = 0;
		in_child(b);
		atomic_store(&page->counter[1], failures + 1);
		wait_counter(2, 1);
		_exit(0);
	}
	wait_counter(1, 1);
	kill(getpid(), SIGKILL);
	return 1;
}

static int again_and_again(int rank)
{
	int fds, threads;

	(void)rank;
	group_of_one(); /* a sanitizer starts a thread with the first one */
	fds = count_entries("/proc/self/fd");
	threads = count_entries("/proc/self/task");
	for (int i = 0; i < 50; i++)
		group_of_one();
	CHECK(count_entries("/proc/self/fd") == fds);
	for (int i = 0; i < 1000 && count_entries("/proc/self/task") > threads; i++)
		sleep_ms(1); /* the kernel takes a moment after pthread_join() */
	CHECK(count_entries("/proc/self/task") == threads);
	return 0;
}

static int fork_while_busy(int rank)
{
	struct config cfg = test_config();
	struct boot *b = NULL;

	share_id(rank, &cfg);
	CHECK(boot_create(&b, &page->id, rank, 2, 20000, &cfg, NULL) == TAUT_OK);
	for (int i = 0; i < 20; i++) {
		pid_t child = fork();
		int status = 0;

		if (child == 0)
			_exit(boot_barrier(b) == TAUT_ERR_ARG ? 0 : 1);
		CHECK(boot_barrier(b) == TAUT_OK);
		CHECK(waitpid(child, &status, 0) == child && status == 0);
	}
	boot_close(b);
	config_cleanup(&cfg);
	return 0;
}

int main(void)
{
	log_now.level = LOG_NONE;
	page_new();
	start_ranks(0, 2, rank_main);
	CHECK(wait_rank(0) == 0);
	CHECK(wait_rank(1) == 128 + SIGKILL);
	CHECK(atomic_load(&page->counter[1]) == 1);
	page_new();
	start_ranks(0, 1, again_and_again);
	wait_ranks(0, 1, 0);
	page_new();
	start_ranks(0, 2, fork_while_busy);
	wait_ranks(0, 2, 0);
	return failures != 0;
}
