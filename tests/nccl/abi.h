/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes, offsets and numbers of nccl.h, of whichever nccl.h the including file finds first. */
#ifndef NCCL_ABI_H
#define NCCL_ABI_H

#include <nccl.h>
#include <stddef.h>
#include <string.h>

struct abi_entry {
	const char *what;
	long long value;
};
enum { ABI_MAX = 256 };

/* Both fill @out, room for ABI_MAX entries, and return how many these are. */
int abi_of_taut(struct abi_entry *out);
/* With the reason in @why and 0 where NVIDIA's header, or this release of it, is not there. */
int abi_of_nvidia(struct abi_entry *out, const char **why);

#define ABI_ENTRY(expression) { #expression, (long long)(expression) },

/* A struct's member: where it lies, how long it is. */
#define ABI_MEMBER(X, type, member) X(offsetof(type, member)) X(sizeof(((type *)0)->member))

#define ABI_STRUCTS(X)                                                                                                 \
	X(sizeof(ncclUniqueId))                                                                                        \
	X(sizeof(ncclConfig_t))                                                                                        \
	X(_Alignof(ncclConfig_t))                                                                                      \
	X(sizeof(ncclSimInfo_t))                                                                                       \
	X(sizeof(ncclComm_t))                                                                                          \
	X(sizeof(ncclWindow_t))                                                                                        \
	X(sizeof(ncclResult_t))                                                                                        \
	X(sizeof(ncclRedOp_t))                                                                                         \
	X(sizeof(ncclRedOp_dummy_t))                                                                                   \
	X(sizeof(ncclDataType_t))                                                                                      \
	X(sizeof(ncclScalarResidence_t))                                                                               \
	ABI_MEMBER(X, ncclUniqueId, internal)                                                                          \
	ABI_MEMBER(X, ncclConfig_t, size)                                                                              \
	ABI_MEMBER(X, ncclConfig_t, magic)                                                                             \
	ABI_MEMBER(X, ncclConfig_t, version)                                                                           \
	ABI_MEMBER(X, ncclConfig_t, blocking)                                                                          \
	ABI_MEMBER(X, ncclConfig_t, cgaClusterSize)                                                                    \
	ABI_MEMBER(X, ncclConfig_t, minCTAs)                                                                           \
	ABI_MEMBER(X, ncclConfig_t, maxCTAs)                                                                           \
	ABI_MEMBER(X, ncclConfig_t, netName)                                                                           \
	ABI_MEMBER(X, ncclConfig_t, splitShare)                                                                        \
	ABI_MEMBER(X, ncclConfig_t, trafficClass)                                                                      \
	ABI_MEMBER(X, ncclConfig_t, commName)                                                                          \
	ABI_MEMBER(X, ncclConfig_t, collnetEnable)                                                                     \
	ABI_MEMBER(X, ncclConfig_t, CTAPolicy)                                                                         \
	ABI_MEMBER(X, ncclConfig_t, shrinkShare)                                                                       \
	ABI_MEMBER(X, ncclConfig_t, nvlsCTAs)                                                                          \
	ABI_MEMBER(X, ncclConfig_t, nChannelsPerNetPeer)                                                               \
	ABI_MEMBER(X, ncclConfig_t, nvlinkCentricSched)                                                                \
	ABI_MEMBER(X, ncclSimInfo_t, size)                                                                             \
	ABI_MEMBER(X, ncclSimInfo_t, magic)                                                                            \
	ABI_MEMBER(X, ncclSimInfo_t, version)                                                                          \
	ABI_MEMBER(X, ncclSimInfo_t, estimatedTime)

#define ABI_ENUMS(X)                                                                                                   \
	X(ncclSuccess)                                                                                                 \
	X(ncclUnhandledCudaError)                                                                                      \
	X(ncclSystemError)                                                                                             \
	X(ncclInternalError)                                                                                           \
	X(ncclInvalidArgument)                                                                                         \
	X(ncclInvalidUsage)                                                                                            \
	X(ncclRemoteError)                                                                                             \
	X(ncclInProgress)                                                                                              \
	X(ncclNumResults)                                                                                              \
	X(ncclNumOps_dummy)                                                                                            \
	X(ncclSum)                                                                                                     \
	X(ncclProd)                                                                                                    \
	X(ncclMax)                                                                                                     \
	X(ncclMin)                                                                                                     \
	X(ncclAvg)                                                                                                     \
	X(ncclNumOps)                                                                                                  \
	X(ncclMaxRedOp)                                                                                                \
	X(ncclInt8)                                                                                                    \
	X(ncclChar)                                                                                                    \
	X(ncclUint8)                                                                                                   \
	X(ncclInt32)                                                                                                   \
	X(ncclInt)                                                                                                     \
	X(ncclUint32)                                                                                                  \
	X(ncclInt64)                                                                                                   \
	X(ncclUint64)                                                                                                  \
	X(ncclFloat16)                                                                                                 \
	X(ncclHalf)                                                                                                    \
	X(ncclFloat32)                                                                                                 \
	X(ncclFloat)                                                                                                   \
	X(ncclFloat64)                                                                                                 \
	X(ncclDouble)                                                                                                  \
	X(ncclBfloat16)                                                                                                \
	X(ncclFloat8e4m3)                                                                                              \
	X(ncclFloat8e5m2)                                                                                              \
	X(ncclNumTypes)                                                                                                \
	X(ncclScalarDevice)                                                                                            \
	X(ncclScalarHostImmediate)

#define ABI_MACROS(X)                                                                                                  \
	X(NCCL_MAJOR)                                                                                                  \
	X(NCCL_MINOR)                                                                                                  \
	X(NCCL_PATCH)                                                                                                  \
	X(sizeof(NCCL_SUFFIX))                                                                                         \
	X(NCCL_VERSION_CODE)                                                                                           \
	X(NCCL_VERSION(2, 8, 4))                                                                                       \
	X(NCCL_VERSION(2, 9, 6))                                                                                       \
	X(NCCL_UNIQUE_ID_BYTES)                                                                                        \
	X(NCCL_COMM_NULL == NULL)                                                                                      \
	X(NCCL_CONFIG_UNDEF_INT)                                                                                       \
	X(NCCL_CONFIG_UNDEF_PTR == NULL)                                                                               \
	X(NCCL_UNDEF_FLOAT)                                                                                            \
	X(NCCL_SPLIT_NOCOLOR)                                                                                          \
	X(NCCL_WIN_DEFAULT)                                                                                            \
	X(NCCL_WIN_COLL_SYMMETRIC)                                                                                     \
	X(NCCL_WIN_REQUIRED_ALIGNMENT)                                                                                 \
	X(NCCL_CTA_POLICY_DEFAULT)                                                                                     \
	X(NCCL_CTA_POLICY_EFFICIENCY)                                                                                  \
	X(NCCL_CTA_POLICY_ZERO)                                                                                        \
	X(NCCL_SHRINK_DEFAULT)                                                                                         \
	X(NCCL_SHRINK_ABORT)                                                                                           \
	X(NCCL_REVOKE_DEFAULT)

/* Of @config and @sim, made by the header's initializers. */
#define ABI_INITIALIZED(X)                                                                                             \
	X(config.size)                                                                                                 \
	X(config.magic)                                                                                                \
	X(config.version)                                                                                              \
	X(config.blocking)                                                                                             \
	X(config.cgaClusterSize)                                                                                       \
	X(config.minCTAs)                                                                                              \
	X(config.maxCTAs)                                                                                              \
	X(config.netName == NULL)                                                                                      \
	X(config.splitShare)                                                                                           \
	X(config.trafficClass)                                                                                         \
	X(config.commName == NULL)                                                                                     \
	X(config.collnetEnable)                                                                                        \
	X(config.CTAPolicy)                                                                                            \
	X(config.shrinkShare)                                                                                          \
	X(config.nvlsCTAs)                                                                                             \
	X(config.nChannelsPerNetPeer)                                                                                  \
	X(config.nvlinkCentricSched)                                                                                   \
	X(sim.size)                                                                                                    \
	X(sim.magic)                                                                                                   \
	X(sim.version)                                                                                                 \
	X(sim.estimatedTime)

/* Of another release the names above may not be there. */
#if NCCL_VERSION_CODE == 22809
static inline int abi_fill(struct abi_entry *out)
{
	const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	const ncclSimInfo_t sim = NCCL_SIM_INFO_INITIALIZER;
	const struct abi_entry all[] = { ABI_STRUCTS(ABI_ENTRY) ABI_ENUMS(ABI_ENTRY) ABI_MACROS(ABI_ENTRY)
						 ABI_INITIALIZED(ABI_ENTRY) };

	_Static_assert(sizeof(all) / sizeof(all[0]) <= ABI_MAX, "ABI_MAX");
	memcpy(out, all, sizeof(all));
	return (int)(sizeof(all) / sizeof(all[0]));
}
#endif

#endif
