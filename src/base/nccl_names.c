/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nccl_names.h"

#include <stdbool.h>
#include <string.h>

#include "base/nearest.h"

/* Why, as the end of "NCCL_X has no effect: ...". */
#define NO_RDMA "taut has no RDMA wire; between machines it uses TCP"
#define NO_CARD "taut chooses no network card for a GPU; TCP goes over the interfaces that NCCL_SOCKET_IFNAME allows"
#define NET_IS_WIRE "TAUT_WIRE chooses the wire between ranks"
#define NO_SHARING "every connection has buffers of its own"
#define SOCKET_COUNT "taut has no helper threads for sockets; NCCL_NSOCKS_PERTHREAD sets the sockets of a connection"
#define SOCKET_KERNEL "the kernel sizes the buffers of sockets"
#define SOCKET_FORM "the form of messages over TCP is not a setting"
#define JOIN_TIMEOUT "TAUT_JOIN_TIMEOUT_MS sets how long ranks wait for each other"
#define MEET_TCP "how ranks meet is set by TAUT_RENDEZVOUS and TAUT_SOCKET_IFNAME"
#define CONNECT "when connections are made is not a setting"
#define COPY "how the memory of a GPU is read and written is not a setting"
#define REGISTER "buffers are shared with the peers without being registered"
#define ALLOCATE "how taut allocates memory of GPUs is not a setting"
#define BUFFERS "the size of these buffers is not a setting"
#define NO_NVLS "taut does not use NVLink SHARP (NVLS)"
#define NO_COLLNET "taut does not reduce inside the network (CollNet, SHARP)"
#define NO_MNNVL "taut does not use NVLink between machines"
#define NO_RELAY "no GPU relays the messages of others"
#define NO_GIN "GPUs start no network transfers in taut"
#define NO_DEVICE_API "taut has no calls for kernels of the program"
#define COST "the cost model chooses, among what NCCL_ALGO and NCCL_PROTO allow"
#define CHANNELS "the one setting of channels is NCCL_MAX_NCHANNELS"
#define CUT "how messages are cut follows from the schedule"
#define CHANNEL_FILE "taut takes no channels from outside"
#define CHANNEL_DUMP "taut topo --graph-xml writes what this asks for"
#define ONE_TOPOLOGY "a GPU is one device of the topology"
#define KERNELS "the shape and the launch of kernels are not settings"
#define SHARED_GPU "several ranks may share a GPU without it"
#define NO_PROXY "taut has no proxy threads"
#define THREADS "names and stacks of threads are not settings"
#define NO_BIND "taut binds no threads of a program"
#define CONFIG "what the program asks for in ncclConfig_t is not overridden"
#define CHECKS "arguments are always checked, and TAUT_CHECK=1 compares the calls of the ranks"
#define NO_RAS "taut has no RAS service; a call that waits longer than TAUT_STALL_MS is looked into by the ranks"
#define NO_TIME "lines of the log carry no time"
#define LEVEL "a warning does not change what is logged after it"
#define NO_NVTX "taut marks no ranges for profilers"
#define SETTINGS "taut reads the settings file that TAUT_CONFIG names; taut settings shows what holds"
#define NO_PLUGIN "taut loads no plugins"

static const struct nccl_name table[] = {
#define SET_INT(field, env, alias, dflt, lo, hi, doc) { alias, NCCL_USE_HONOURED, env },
#define SET_SIZE(field, env, alias, dflt, lo, hi, doc) { alias, NCCL_USE_HONOURED, env },
#define SET_STR(field, env, alias, dflt, doc) { alias, NCCL_USE_HONOURED, env },
#define SET_ENUM(field, env, alias, dflt, names, doc) { alias, NCCL_USE_HONOURED, env },
#define SET_WORD(field, env, alias, dflt, names, doc) { alias, NCCL_USE_HONOURED, env },
#include "base/config.def"
#define UNUSED(variable, why) { variable, NCCL_USE_NONE, why },
#define THEIRS(variable) { variable, NCCL_USE_OTHERS, "" },
#include "base/nccl_names.def"
};
enum { NAMES = sizeof(table) / sizeof(table[0]) };

/* @known "" (a setting without an alias) is nobody's name. */
static bool matches(const char *known, const char *name)
{
	size_t len = strlen(known);

	if (len && known[len - 1] == '*')
		return !strncmp(known, name, len - 1);
	return len && !strcmp(known, name);
}

const struct nccl_name *nccl_name_find(const char *name)
{
	for (size_t i = 0; i < NAMES; i++)
		if (matches(table[i].name, name))
			return &table[i];
	return NULL;
}

const char *nccl_name_nearest(const char *name)
{
	const char *names[NAMES];
	size_t n = 0;

	for (size_t i = 0; i < NAMES; i++)
		if (*table[i].name && !strchr(table[i].name, '*'))
			names[n++] = table[i].name;
	return nearest_name(name, names, n);
}

const struct nccl_name *nccl_name_at(size_t i)
{
	return i < NAMES ? &table[i] : NULL;
}
