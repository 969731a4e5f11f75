/* SPDX-License-Identifier: Apache-2.0 */
/* Misuse: each call that is wrong in one thing gives the code that NCCL gives, and a sentence that names what is wrong.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <sys/mman.h>

#include "nccl/api.h"

#define NOT_A_NUMBER_OF_THESE 77

static ncclComm_t one; /* a communicator of one rank */

/* --- NULL --- */
static void no_comm_calls(void)
{
	int x = 0;

	refuses(ncclInvalidArgument, "NULL", ncclAllReduce(&x, &x, 1, ncclInt, ncclSum, NULL, NULL));
	refuses(ncclInvalidArgument, "NULL", ncclBroadcast(&x, &x, 1, ncclInt, 0, NULL, NULL));
	refuses(ncclInvalidArgument, "NULL", ncclBcast(&x, 1, ncclInt, 0, NULL, NULL));
	refuses(ncclInvalidArgument, "NULL", ncclReduce(&x, &x, 1, ncclInt, ncclSum, 0, NULL, NULL));
	refuses(ncclInvalidArgument, "NULL", ncclAllGather(&x, &x, 1, ncclInt, NULL, NULL));
	refuses(ncclInvalidArgument, "NULL", ncclReduceScatter(&x, &x, 1, ncclInt, ncclSum, NULL, NULL));
	refuses(ncclInvalidArgument, "NULL", ncclAlltoAll(&x, &x, 1, ncclInt, NULL, NULL));
	refuses(ncclInvalidArgument, "NULL", ncclGather(&x, &x, 1, ncclInt, 0, NULL, NULL));
	refuses(ncclInvalidArgument, "NULL", ncclScatter(&x, &x, 1, ncclInt, 0, NULL, NULL));
	refuses(ncclInvalidArgument, "NULL", ncclSend(&x, 1, ncclInt, 0, NULL, NULL));
	refuses(ncclInvalidArgument, "NULL", ncclRecv(&x, 1, ncclInt, 0, NULL, NULL));
}

static void no_comm(void)
{
	ncclScalarResidence_t where = ncclScalarHostImmediate;
	int x = 0, list[] = { 0 };
	ncclResult_t state;
	ncclWindow_t win;
	ncclRedOp_t op;
	ncclComm_t comm;
	void *handle;

	no_comm_calls();
	refuses(ncclInvalidArgument, "NULL", ncclCommCount(NULL, &x));
	refuses(ncclInvalidArgument, "NULL", ncclCommUserRank(NULL, &x));
	refuses(ncclInvalidArgument, "NULL", ncclCommCuDevice(NULL, &x));
	refuses(ncclInvalidArgument, "NULL", ncclCommGetAsyncError(NULL, &state));
	refuses(ncclInvalidArgument, "NULL", ncclCommSplit(NULL, 0, 0, &comm, NULL));
	refuses(ncclInvalidArgument, "NULL", ncclCommShrink(NULL, list, 1, &comm, NULL, 0));
	refuses(ncclInvalidArgument, "NULL", ncclRedOpCreatePreMulSum(&op, &x, ncclInt, where, NULL));
	refuses(ncclInvalidArgument, "NULL", ncclRedOpDestroy((ncclRedOp_t)NOT_A_NUMBER_OF_THESE, NULL));
	refuses(ncclInvalidArgument, "NULL", ncclCommRegister(NULL, &x, sizeof(x), &handle));
	refuses(ncclInvalidArgument, "NULL", ncclCommDeregister(NULL, &x));
	refuses(ncclInvalidArgument, "NULL", ncclCommWindowRegister(NULL, &x, sizeof(x), &win, 0));
	refuses(ncclInvalidArgument, "NULL", ncclCommWindowDeregister(NULL, (ncclWindow_t)&x));
	/* These have nothing to do, as free(NULL) has not. */
	succeeds(ncclCommDestroy(NULL));
	succeeds(ncclCommAbort(NULL));
	succeeds(ncclCommFinalize(NULL));
	succeeds(ncclCommRevoke(NULL, NCCL_REVOKE_DEFAULT));
}

static void no_place_for_the_answer(void)
{
	ncclScalarResidence_t where = ncclScalarHostImmediate;
	ncclUniqueId id;
	ncclRedOp_t op;
	int x = 0;

	succeeds(ncclGetUniqueId(&id));
	refuses(ncclInvalidArgument, "NULL", ncclGetVersion(NULL));
	refuses(ncclInvalidArgument, "NULL", ncclGetUniqueId(NULL));
	refuses(ncclInvalidArgument, "NULL", ncclCommInitRank(NULL, 1, id, 0));
	refuses(ncclInvalidArgument, "NULL", ncclCommInitRankConfig(NULL, 1, id, 0, NULL));
	refuses(ncclInvalidArgument, "NULL", ncclCommInitRankScalable(NULL, 1, 0, 1, &id, NULL));
	refuses(ncclInvalidArgument, "NULL", ncclCommInitAll(NULL, 1, NULL));
	refuses(ncclInvalidArgument, "NULL", ncclCommSplit(one, 0, 0, NULL, NULL));
	refuses(ncclInvalidArgument, "NULL", ncclCommCount(one, NULL));
	refuses(ncclInvalidArgument, "NULL", ncclCommUserRank(one, NULL));
	refuses(ncclInvalidArgument, "NULL", ncclCommCuDevice(one, NULL));
	refuses(ncclInvalidArgument, "NULL", ncclCommGetAsyncError(one, NULL));
	refuses(ncclInvalidArgument, "NULL", ncclRedOpCreatePreMulSum(NULL, &x, ncclInt, where, one));
	refuses(ncclInvalidArgument, "NULL", ncclRedOpCreatePreMulSum(&op, NULL, ncclInt, where, one));
	refuses(ncclInvalidArgument, "NULL", ncclMemAlloc(NULL, 10));
	refuses(ncclInvalidArgument, "NULL", ncclCommRegister(one, &x, sizeof(x), NULL));
	refuses(ncclInvalidArgument, "NULL", ncclCommWindowRegister(one, &x, sizeof(x), NULL, 0));
}

static void no_buffer(void)
{
	int x = 0;

	refuses(ncclInvalidArgument, "NULL", ncclAllReduce(NULL, &x, 1, ncclInt, ncclSum, one, NULL));
	refuses(ncclInvalidArgument, "NULL", ncclAllReduce(&x, NULL, 1, ncclInt, ncclSum, one, NULL));
	refuses(ncclInvalidArgument, "NULL", ncclAllGather(&x, NULL, 1, ncclInt, one, NULL));
	refuses(ncclInvalidArgument, "NULL", ncclBcast(NULL, 1, ncclInt, 0, one, NULL));
	succeeds(ncclAllReduce(NULL, NULL, 0, ncclInt, ncclSum, one, NULL));
}

/* A sentence names the call and the parameter as nccl.h does. */
static void in_its_words(void)
{
	int x[4] = { 0 };

	refuses(ncclInvalidArgument, "ncclAllReduce: sendbuff is NULL",
		ncclAllReduce(NULL, x, 1, ncclInt, ncclSum, one, NULL));
	refuses(ncclInvalidArgument, "ncclGather: recvbuff is NULL", ncclGather(x, NULL, 1, ncclInt, 0, one, NULL));
	refuses(ncclInvalidArgument, "ncclBroadcast: recvbuff is", ncclBroadcast(x, NULL, 1, ncclInt, 0, one, NULL));
	refuses(ncclInvalidArgument, "ncclBcast: buff is NULL", ncclBcast(NULL, 1, ncclInt, 0, one, NULL));
	refuses(ncclInvalidArgument, "ncclSend: sendbuff is NULL", ncclSend(NULL, 1, ncclInt, 0, one, NULL));
	refuses(ncclInvalidArgument, "ncclRecv: recvbuff is NULL", ncclRecv(NULL, 1, ncclInt, 0, one, NULL));
	refuses(ncclInvalidArgument, "ncclAlltoAll: sendbuff (0x", ncclAlltoAll(x, x + 1, 2, ncclInt, one, NULL));
	refuses(ncclInvalidArgument, "and recvbuff (0x", ncclAllReduce(x, x + 1, 2, ncclInt, ncclSum, one, NULL));
}

/* --- numbers out of their range --- */
static void ranks(void)
{
	ncclComm_t comm, none[1];
	ncclUniqueId id;

	succeeds(ncclGetUniqueId(&id));
	refuses(ncclInvalidArgument, "0", ncclCommInitRank(&comm, 0, id, 0));
	refuses(ncclInvalidArgument, "-1", ncclCommInitRank(&comm, -1, id, 0));
	refuses(ncclInvalidArgument, "-3", ncclCommInitRank(&comm, 2, id, -3));
	refuses(ncclInvalidArgument, "2", ncclCommInitRank(&comm, 2, id, 2));
	refuses(ncclInvalidArgument, "5", ncclCommInitRankConfig(&comm, 2, id, 5, NULL));
	refuses(ncclInvalidArgument, "7", ncclCommInitRankScalable(&comm, 2, 7, 1, &id, NULL));
	refuses(ncclInvalidArgument, "0", ncclCommInitRankScalable(&comm, 2, 0, 0, &id, NULL));
	refuses(ncclInvalidArgument, "3", ncclCommInitRankScalable(&comm, 2, 0, 3, &id, NULL));
	refuses(ncclInvalidArgument, "-2", ncclCommInitAll(none, -2, NULL));
}

static void devices(void)
{
	static const int twice[] = { 0, 1, 0 }, below[] = { 0, -4 };
	ncclComm_t comms[3];

	refuses(ncclInvalidUsage, "0", ncclCommInitAll(comms, 3, twice));
	refuses(ncclInvalidArgument, "-4", ncclCommInitAll(comms, 2, below));
}

static void types(void)
{
	static const int bad[] = { -1, ncclNumTypes, NOT_A_NUMBER_OF_THESE };
	char x[8] = { 0 };

	for (int k = 0; k < 3; k++) {
		ncclDataType_t type = (ncclDataType_t)bad[k];
		ncclRedOp_t op;
		char word[16];

		snprintf(word, sizeof(word), "%d", bad[k]);
		refuses(ncclInvalidArgument, word, ncclAllReduce(x, x, 1, type, ncclSum, one, NULL));
		refuses(ncclInvalidArgument, word, ncclBcast(x, 1, type, 0, one, NULL));
		refuses(ncclInvalidArgument, word, ncclAllGather(x, x, 1, type, one, NULL));
		refuses(ncclInvalidArgument, word, ncclSend(x, 1, type, 0, one, NULL));
		refuses(ncclInvalidArgument, word,
			ncclRedOpCreatePreMulSum(&op, x, type, ncclScalarHostImmediate, one));
	}
}

static void ops(void)
{
	static const int bad[] = { -1, ncclNumOps, NOT_A_NUMBER_OF_THESE };
	ncclRedOp_t made;
	int x = 0;

	for (int k = 0; k < 3; k++) {
		ncclRedOp_t op = (ncclRedOp_t)bad[k];
		char word[16];

		snprintf(word, sizeof(word), "%d", bad[k]);
		refuses(ncclInvalidArgument, word, ncclAllReduce(&x, &x, 1, ncclInt, op, one, NULL));
		refuses(ncclInvalidArgument, word, ncclReduce(&x, &x, 1, ncclInt, op, 0, one, NULL));
		refuses(ncclInvalidArgument, word, ncclReduceScatter(&x, &x, 1, ncclInt, op, one, NULL));
		refuses(ncclInvalidArgument, word, ncclRedOpDestroy(op, one));
	}
	for (int op = ncclSum; op < ncclNumOps; op++)
		refuses(ncclInvalidArgument, "op", ncclRedOpDestroy((ncclRedOp_t)op, one));
	refuses(ncclInvalidArgument, "9", ncclRedOpCreatePreMulSum(&made, &x, ncclInt, (ncclScalarResidence_t)9, one));
}

static void roots_and_peers(void)
{
	static const int bad[] = { -1, 1, NOT_A_NUMBER_OF_THESE };
	int x = 0;

	for (int k = 0; k < 3; k++) {
		int at = bad[k];
		char word[16];

		snprintf(word, sizeof(word), "%d", at);
		refuses(ncclInvalidArgument, word, ncclBroadcast(&x, &x, 1, ncclInt, at, one, NULL));
		refuses(ncclInvalidArgument, word, ncclBcast(&x, 1, ncclInt, at, one, NULL));
		refuses(ncclInvalidArgument, word, ncclReduce(&x, &x, 1, ncclInt, ncclSum, at, one, NULL));
		refuses(ncclInvalidArgument, word, ncclGather(&x, &x, 1, ncclInt, at, one, NULL));
		refuses(ncclInvalidArgument, word, ncclScatter(&x, &x, 1, ncclInt, at, one, NULL));
		refuses(ncclInvalidArgument, word, ncclSend(&x, 1, ncclInt, at, one, NULL));
		refuses(ncclInvalidArgument, word, ncclRecv(&x, 1, ncclInt, at, one, NULL));
	}
}

static void groups(void)
{
	ncclSimInfo_t sim = NCCL_SIM_INFO_INITIALIZER;

	refuses(ncclInvalidUsage, "ncclGroupEnd", ncclGroupEnd());
	refuses(ncclInvalidUsage, "ncclGroupSimulateEnd", ncclGroupSimulateEnd(&sim));
	succeeds(ncclGroupStart());
	succeeds(ncclGroupEnd());
	refuses(ncclInvalidUsage, "ncclGroupEnd", ncclGroupEnd());
}

/* --- configurations --- */
static void config_is_refused(const char *word, ncclConfig_t *config)
{
	ncclUniqueId id;
	ncclComm_t comm;

	succeeds(ncclGetUniqueId(&id));
	refuses(ncclInvalidArgument, word, ncclCommInitRankConfig(&comm, 1, id, 0, config));
	refuses(ncclInvalidArgument, word, ncclCommInitRankScalable(&comm, 1, 0, 1, &id, config));
	refuses(ncclInvalidArgument, word, ncclCommSplit(one, 0, 0, &comm, config));
}

#define REFUSED(member, value)                                                                                         \
	do {                                                                                                           \
		ncclConfig_t config = NCCL_CONFIG_INITIALIZER;                                                         \
                                                                                                                       \
		config.member = (value);                                                                               \
		config_is_refused(#member, &config);                                                                   \
	} while (0)

static void configs(void)
{
	ncclConfig_t blank;

	memset(&blank, 0, sizeof(blank));
	config_is_refused("NCCL_CONFIG_INITIALIZER", &blank);
	blank.size = sizeof(blank);
	config_is_refused("NCCL_CONFIG_INITIALIZER", &blank);
	REFUSED(blocking, 2);
	REFUSED(blocking, -1);
	REFUSED(cgaClusterSize, -1);
	REFUSED(minCTAs, 0);
	REFUSED(maxCTAs, -2);
	REFUSED(splitShare, 2);
	REFUSED(collnetEnable, 2);
	REFUSED(CTAPolicy, 64);
	REFUSED(shrinkShare, 2);
	REFUSED(nvlsCTAs, 0);
	REFUSED(nChannelsPerNetPeer, 0);
	REFUSED(nvlinkCentricSched, 2);
}

/* As a program has it that was built with the header of an older NCCL: what it does not have lies on a page that cannot
 * be read. */
static void older_config(size_t size, unsigned version)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *map = (char *)mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclConfig_t *old;
	ncclUniqueId id;
	ncclComm_t comm;
	int count = 0;

	must(map != MAP_FAILED && !mprotect(map + page, page, PROT_NONE));
	config.size = size;
	config.version = version;
	old = (ncclConfig_t *)(void *)(map + page - size);
	memcpy((void *)old, &config, size);
	succeeds(ncclGetUniqueId(&id));
	succeeds(ncclCommInitRankConfig(&comm, 1, id, 0, old));
	succeeds(ncclCommCount(comm, &count));
	must(count == 1);
	succeeds(ncclCommDestroy(comm));
	munmap(map, 2 * page);
}

static void older_configs(void)
{
	older_config(offsetof(ncclConfig_t, blocking) + 8, NCCL_VERSION(2, 14, 3));
	older_config(offsetof(ncclConfig_t, splitShare), NCCL_VERSION(2, 17, 1));
	older_config(offsetof(ncclConfig_t, trafficClass) + 4, NCCL_VERSION(2, 18, 5));
	older_config(offsetof(ncclConfig_t, collnetEnable), NCCL_VERSION(2, 26, 2));
	older_config(offsetof(ncclConfig_t, nChannelsPerNetPeer), NCCL_VERSION(2, 27, 3));
}

/* From a newer NCCL, with members that are not known here. */
static void newer_config(void)
{
	struct {
		ncclConfig_t config;
		int more[8];
	} big = { .config = NCCL_CONFIG_INITIALIZER, .more = { 1, 2, 3, 4, 5, 6, 7, 8 } };
	ncclUniqueId id;
	ncclComm_t comm;

	big.config.size = sizeof(big);
	big.config.version = NCCL_VERSION(2, 31, 0);
	succeeds(ncclGetUniqueId(&id));
	succeeds(ncclCommInitRankConfig(&comm, 1, id, 0, &big.config));
	succeeds(ncclCommDestroy(comm));
}

/* --- memory --- */
static void windows(void)
{
	char *buf = (char *)aligned_alloc(NCCL_WIN_REQUIRED_ALIGNMENT, 3 * NCCL_WIN_REQUIRED_ALIGNMENT);
	int symmetric = NCCL_WIN_COLL_SYMMETRIC;
	ncclWindow_t win;
	void *handle;

	must(buf);
	refuses(ncclInvalidArgument, "4096", ncclCommWindowRegister(one, buf + 64, 4096, &win, symmetric));
	refuses(ncclInvalidArgument, "lag", ncclCommWindowRegister(one, buf, 4096, &win, 0x80));
	refuses(ncclInvalidArgument, "buff", ncclCommWindowRegister(one, NULL, 4096, &win, 0));
	refuses(ncclInvalidArgument, "size", ncclCommWindowRegister(one, buf, 0, &win, 0));
	succeeds(ncclCommWindowRegister(one, buf + 64, 4096, &win, NCCL_WIN_DEFAULT));
	succeeds(ncclCommWindowDeregister(one, win));
	refuses(ncclInvalidArgument, "regist", ncclCommWindowDeregister(one, win));
	refuses(ncclInvalidArgument, "regist", ncclCommDeregister(one, buf));
	refuses(ncclInvalidArgument, "buff", ncclCommRegister(one, NULL, 4096, &handle));
	free(buf);
}

/* --- shrink, revoke, finalize --- */
static void shrink_and_revoke(struct team *t)
{
	ncclComm_t comm = t->comm[0], child;
	int me[] = { t->first }, other[] = { 1 - t->first };

	refuses(ncclInvalidArgument, "lag", ncclCommShrink(comm, other, 1, &child, NULL, 8));
	refuses(ncclInvalidArgument, "excludeRanks", ncclCommShrink(comm, NULL, 1, &child, NULL, 0));
	refuses(ncclInvalidArgument, "NULL", ncclCommShrink(comm, other, 1, NULL, NULL, 0));
	refuses(ncclInvalidArgument, "excludeRanksCount", ncclCommShrink(comm, other, 0, &child, NULL, 0));
	refuses(ncclInvalidArgument, "excludeRanksList", ncclCommShrink(comm, me, 1, &child, NULL, 0));
	refuses(ncclInvalidArgument, "lag", ncclCommRevoke(comm, 1));
	all_sum(comm, t->first, 2); /* nothing of this did any harm */
	succeeds(ncclCommFinalize(comm));
	refuses(ncclInvalidArgument, "inalize", ncclCommFinalize(comm));
}

/* --- kernels that communicate by themselves need what taut does not have --- */
static void device_calls(void)
{
	static const char *const names[] = { "ncclDevCommCreate", "pncclDevCommCreate" };

	for (int k = 0; k < 2; k++) {
		ncclResult_t (*call)(ncclComm_t comm, const void *wanted, void *out) = NULL;
		void *found = dlsym(RTLD_DEFAULT, names[k]);
		char room[512] = { 0 };

		must(found);
		memcpy((void *)&call, &found, sizeof(found));
		refuses(ncclInvalidUsage, "ncclDevCommCreate", call(one, room, room));
	}
}

static void sentences(void)
{
	for (int r = 0; r < ncclNumResults + 2; r++)
		must(ncclGetErrorString((ncclResult_t)r)[0]);
	must(strcmp(ncclGetErrorString(ncclSuccess), ncclGetErrorString(ncclInvalidUsage)));
	must(ncclGetLastError(NULL)[0]);
	must(ncclGetLastError(one)[0]);
}

/* --- whose sentence --- */
static void *fails_elsewhere(void *arg)
{
	int x = 0;

	(void)arg;
	must(strstr(ncclGetLastError(NULL), "97")); /* it has had none of its own: the process's */
	refuses(ncclInvalidArgument, "98", ncclBcast(&x, 1, ncclInt, 98, one, NULL));
	return NULL;
}

/* What fails in another thread meanwhile is not taken for a thread's own failure. */
static void sentences_of_threads(void)
{
	pthread_t thread;
	int x = 0;

	gives(ncclInvalidArgument, ncclBcast(&x, 1, ncclInt, 97, one, NULL));
	must(!pthread_create(&thread, NULL, fails_elsewhere, NULL));
	must(!pthread_join(thread, NULL));
	must(strstr(ncclGetLastError(NULL), "97"));
	must(strstr(ncclGetLastError(one), "98"));
}

/* A communicator that one of the library's threads could not make: its user is told why, whatever failed before. */
static void sentence_of_a_thread_of_the_library(void)
{
	ncclComm_t comm[2];
	ncclUniqueId id[2];
	int x = 0;

	gives(ncclInvalidArgument, ncclBcast(&x, 1, ncclInt, 97, one, NULL));
	succeeds(ncclGetUniqueId(&id[0]));
	succeeds(ncclGetUniqueId(&id[1]));
	memset(id[0].internal + 8, 0, sizeof(id[0]) - 8);
	succeeds(ncclGroupStart());
	for (int i = 0; i < 2; i++)
		succeeds(ncclCommInitRank(&comm[i], 1, id[i], 0));
	must(ncclGroupEnd() != ncclSuccess);
	must(!strstr(ncclGetLastError(NULL), "97"));
	if (comm[1])
		succeeds(ncclCommDestroy(comm[1]));
}

static void all(int i, void *arg)
{
	(void)i;
	(void)arg;
	must(!ncclGetLastError(NULL)[0]); /* nothing has happened yet */
	succeeds(ncclCommInitAll(&one, 1, NULL));
	no_comm();
	no_place_for_the_answer();
	no_buffer();
	in_its_words();
	ranks();
	devices();
	types();
	ops();
	roots_and_peers();
	groups();
	configs();
	older_configs();
	newer_config();
	windows();
	device_calls();
	sentences();
	sentences_of_threads();
	sentence_of_a_thread_of_the_library();
	all_sum(one, 0, 1);
	succeeds(ncclCommDestroy(one));
}

int main(void)
{
	api_begin();
	alone(all, NULL, "misuse");
	as_processes(2, shrink_and_revoke, "misuse by two");
	return api_verdict("errors");
}
