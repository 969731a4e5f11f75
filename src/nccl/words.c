/* SPDX-License-Identifier: Apache-2.0 */
/* taut's sentences, in the log and for ncclGetLastError(), in the words of nccl.h: calls, buffers, settings. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "nccl/state.h"

/* The public call that this thread is in, or was in last; NULL: none yet. */
static _Thread_local const char *calling;

void nccl_calling(const char *call)
{
	calling = call;
}

/* @ours as in "taut_all_reduce", and in "all_reduce(count 8, ...)" where ranks are told who called what. */
static const struct {
	const char *ours, *theirs;
} calls[] = {
	{ "all_reduce", "ncclAllReduce" },
	{ "all_gather", "ncclAllGather" },
	{ "reduce_scatter", "ncclReduceScatter" },
	{ "broadcast", "ncclBroadcast" },
	{ "reduce", "ncclReduce" },
	{ "gather", "ncclGather" },
	{ "scatter", "ncclScatter" },
	{ "all_to_all", "ncclAlltoAll" },
	{ "comm_split", "ncclCommSplit" },
	{ "comm_create", "ncclCommInitRank" },
	{ "comm_shrink", "ncclCommShrink" },
	{ "comm_abort", "ncclCommAbort" },
	{ "id_create", "ncclGetUniqueId" },
	{ "op_create_premul_sum", "ncclRedOpCreatePreMulSum" },
	{ "send", "ncclSend" },
	{ "recv", "ncclRecv" },
};

static const char *call_name(const char *ours)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (!strcmp(calls[i].ours, ours))
			return calls[i].theirs;
	return NULL;
}

static bool is(const char *call)
{
	return calling && !strcmp(calling, call);
}

/* The parameter of the call. */
static const char *buffer_name(const char *ours)
{
	if (is("ncclBcast"))
		return "buff";
	if (!strcmp(ours, "in") || is("ncclSend"))
		return "sendbuff";
	return "recvbuff";
}

static bool is_buffer(const char *word, const char *after)
{
	return (!strcmp(word, "in") || !strcmp(word, "out") || !strcmp(word, "buf")) &&
	       (!strncmp(after, " is ", 4) || !strncmp(after, " (0x", 4));
}

/* @checks: the sentence is about the arguments of a call. NULL: as it is. */
static const char *word_for(const char *word, const char *after, bool first, bool checks)
{
	if (!strncmp(word, "TAUT_", 5))
		return config_alias(word);
	if (!strncmp(word, "taut_", 5))
		return first && *after == ':' && calling ? calling : call_name(word + 5);
	if (checks && is_buffer(word, after))
		return buffer_name(word);
	return *after == '(' ? call_name(word) : NULL;
}

void nccl_words(char *out, size_t len, const char *text)
{
	bool checks = !strncmp(text, "taut_", 5) || !strncmp(text, "in is ", 6), first = true;
	size_t at = 0;

	out[0] = '\0';
	while (*text && at + 1 < len) {
		size_t n = 0;
		char word[64];
		const char *better = NULL;

		while (isalnum((unsigned char)text[n]) || text[n] == '_')
			n++;
		if (n && n < sizeof(word)) {
			snprintf(word, sizeof(word), "%.*s", (int)n, text);
			better = word_for(word, text + n, first, checks);
		}
		n = n ? n : 1;
		at += (size_t)snprintf(out + at, len - at, "%.*s", better ? (int)strlen(better) : (int)n,
				       better ? better : text);
		text += n;
		first = false;
	}
}
