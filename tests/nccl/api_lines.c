/* SPDX-License-Identifier: Apache-2.0 */
/* What a program prints through NCCL_DEBUG: each line as often as it should be there, in NCCL's words. */
#include "nccl/api.h"

struct show {
	FILE *file; /* takes standard output and error */
	const char *level;
	process_fn fn;
};

static char text[65536]; /* of the last show */

static void shown(int i, void *arg)
{
	const struct show *s = (const struct show *)arg;

	unsetenv("TAUT_LOG");
	setenv("NCCL_DEBUG", s->level, 1);
	must(dup2(fileno(s->file), 1) == 1 && dup2(fileno(s->file), 2) == 2);
	s->fn(i, NULL);
}

static void show(const char *level, process_fn fn, const char *name)
{
	struct show s = { tmpfile(), level, fn };
	size_t n;

	must(s.file);
	alone(shown, &s, name);
	rewind(s.file);
	n = fread(text, 1, sizeof(text) - 1, s.file);
	text[n] = '\0';
	fclose(s.file);
}

static void has(int want, const char *what)
{
	int got = 0;

	for (const char *at = text; (at = strstr(at, what)); at++)
		got++;
	if (got == want)
		return;
	fprintf(stderr, "\"%s\" is there %d times, wanted %d:\n%s\n", what, got, want, text);
	failures++;
}

static void two_ranks_and_a_sum(int i, void *arg)
{
	ncclComm_t comm[2];
	int x[2] = { 1, 2 };

	(void)i;
	(void)arg;
	succeeds(ncclCommInitAll(comm, 2, NULL));
	succeeds(ncclGroupStart());
	for (int r = 0; r < 2; r++)
		succeeds(ncclAllReduce(&x[r], &x[r], 1, ncclInt, ncclSum, comm[r], NULL));
	succeeds(ncclGroupEnd());
	for (int r = 0; r < 2; r++)
		succeeds(ncclCommDestroy(comm[r]));
}

static void odd_settings(int i, void *arg)
{
	setenv("NCCL_MAX_NCHANNELS", "200", 1);
	setenv("NCCL_SHM_DISABLE", "yes", 1);
	setenv("NCCL_ALOG", "Ring", 1);
	two_ranks_and_a_sum(i, arg);
	two_ranks_and_a_sum(i, arg);
}

static void wrong_calls(int i, void *arg)
{
	ncclUniqueId id;
	ncclComm_t one;
	int x[3] = { 0 };

	(void)i;
	(void)arg;
	succeeds(ncclCommInitAll(&one, 1, NULL));
	gives(ncclInvalidArgument, ncclReduce(x, x + 1, 2, ncclInt, ncclSum, 0, one, NULL));
	gives(ncclInvalidArgument, ncclBcast(NULL, 2, ncclInt, 0, one, NULL));
	memset(&id, 1, sizeof(id));
	gives(ncclInvalidArgument, ncclCommInitRank(&one, 2, id, 0));
}

static void no_interface(int i, void *arg)
{
	ncclUniqueId id;

	(void)i;
	(void)arg;
	setenv("NCCL_SOCKET_IFNAME", "nonesuch", 1);
	gives(ncclInvalidUsage, ncclGetUniqueId(&id));
}

static void none_of_tauts_words(void)
{
	has(0, "taut_");
	has(0, "TAUT_");
}

int main(void)
{
	api_begin();
	show("INFO", two_ranks_and_a_sum, "lines of two ranks");
	has(2, "Init START");
	has(2, "Init COMPLETE");
	has(1, "Channel 00/01 : 0 1");
	has(2, "Channel 00/0 :"); /* of each rank to the next */
	has(3, "Channel");
	none_of_tauts_words();
	show("WARN", odd_settings, "warnings of settings");
	has(1, "NCCL WARN NCCL_MAX_NCHANNELS=200");
	has(1, "NCCL WARN NCCL_SHM_DISABLE=yes");
	has(1, "NCCL WARN NCCL_ALOG");
	has(3, "WARN");
	none_of_tauts_words();
	show("WARN", wrong_calls, "warnings of calls");
	has(1, "NCCL WARN ncclReduce: sendbuff (0x");
	has(1, "NCCL WARN ncclBcast: buff is NULL");
	has(1, "NCCL WARN the id was not made by taut (ncclGetUniqueId())");
	none_of_tauts_words();
	show("WARN", no_interface, "no interface");
	has(1, "matches NCCL_SOCKET_IFNAME \"nonesuch\"");
	has(1, " lo");
	none_of_tauts_words();
	return api_verdict("lines");
}
