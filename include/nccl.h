/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's interface, as taut's libnccl.so.2 has it: the names, numbers and layouts of NCCL 2.28.9, so that programs
 * built against either header run with either library. What the calls do is documented by NVIDIA; below stands
 * what is particular here.
 *
 * Memory: GPU memory where the program uses a GPU, on the CUDA stream that is given. With no GPU, or with
 * TAUT_DEVICE=host, buffers are host memory, the stream is not looked at, and calls are complete on return (group
 * calls: on return of ncclGroupEnd()). Errors: ncclGetLastError() gives the sentence that names what failed, the value
 * seen and the cure.
 */
#ifndef NCCL_H_
#define NCCL_H_

#include <limits.h>
#include <stddef.h>

/* Programs expect CUDA's own types from this header, where they are to be had. */
#if defined(__has_include)
#if __has_include(<cuda_runtime.h>)
#define TAUT_HAS_CUDA_RUNTIME 1
#endif
#endif
#ifdef TAUT_HAS_CUDA_RUNTIME
#include <cuda_runtime.h>
#else
typedef struct CUstream_st *cudaStream_t;
#endif

#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 9
#define NCCL_SUFFIX ""
#define NCCL_VERSION(X, Y, Z) (((X) <= 2 && (Y) <= 8) ? (X)*1000 + (Y)*100 + (Z) : (X)*10000 + (Y)*100 + (Z))
#define NCCL_VERSION_CODE 22809

#ifdef __cplusplus
extern "C" {
#endif

#define NCCL_UNIQUE_ID_BYTES 128
#define NCCL_COMM_NULL NULL
#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT -1.0f
#define NCCL_SPLIT_NOCOLOR -1
#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096
#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02
#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01 /* end what runs on the parent first */
#define NCCL_REVOKE_DEFAULT 0x00

typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;
typedef struct {
	char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
	ncclSuccess = 0,
	ncclUnhandledCudaError = 1,
	ncclSystemError = 2,
	ncclInternalError = 3,
	ncclInvalidArgument = 4,
	ncclInvalidUsage = 5,
	ncclRemoteError = 6,
	ncclInProgress = 7,
	ncclNumResults = 8
} ncclResult_t;

/* Begin with NCCL_CONFIG_INITIALIZER, then set members. Members that a program built with an older header does not have
 * are taken as unset, by size. */
typedef struct ncclConfig_v22800 {
	size_t size;
	unsigned int magic;
	unsigned int version;
	int blocking; /* 0: calls that wait for other ranks return ncclInProgress; ask ncclCommGetAsyncError() */
	int cgaClusterSize;
	int minCTAs;
	int maxCTAs;
	const char *netName;
	int splitShare;
	int trafficClass;
	const char *commName; /* in log lines and errors */
	int collnetEnable;
	int CTAPolicy;
	int shrinkShare;
	int nvlsCTAs;
	int nChannelsPerNetPeer;
	int nvlinkCentricSched;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                                        \
	{                                                                                                              \
		sizeof(ncclConfig_t), 0xcafebeef, NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH),                    \
			NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,    \
			NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_PTR,    \
			NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,    \
			NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT                                                   \
	}

typedef struct ncclSimInfo_v22200 {
	size_t size;
	unsigned int magic;
	unsigned int version;
	float estimatedTime; /* us */
} ncclSimInfo_t;

#define NCCL_SIM_INFO_INITIALIZER                                                                                      \
	{                                                                                                              \
		sizeof(ncclSimInfo_t), 0x74685283, NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH), NCCL_UNDEF_FLOAT  \
	}

typedef enum { ncclNumOps_dummy = 5 } ncclRedOp_dummy_t;
typedef enum {
	ncclSum = 0,
	ncclProd = 1,
	ncclMax = 2,
	ncclMin = 3,
	ncclAvg = 4,
	ncclNumOps = 5, /* those that ncclRedOpCreatePreMulSum() makes are from here on */
	ncclMaxRedOp = 0x7fffffff >> (32 - 8 * sizeof(ncclRedOp_dummy_t))
} ncclRedOp_t;

typedef enum {
	ncclInt8 = 0,
	ncclChar = 0,
	ncclUint8 = 1,
	ncclInt32 = 2,
	ncclInt = 2,
	ncclUint32 = 3,
	ncclInt64 = 4,
	ncclUint64 = 5,
	ncclFloat16 = 6,
	ncclHalf = 6,
	ncclFloat32 = 7,
	ncclFloat = 7,
	ncclFloat64 = 8,
	ncclDouble = 8,
	ncclBfloat16 = 9,
	ncclFloat8e4m3 = 10,
	ncclFloat8e5m2 = 11,
	ncclNumTypes = 12
} ncclDataType_t;

typedef enum {
	ncclScalarDevice = 0, /* read by ncclRedOpCreatePreMulSum(), once the work queued on the device is done */
	ncclScalarHostImmediate = 1
} ncclScalarResidence_t;

#if defined(__GNUC__)
#define TAUT_NCCL_API __attribute__((visibility("default")))
#else
#define TAUT_NCCL_API
#endif
/* Declares NAME and pNAME, which do the same: a profiler may put itself in the place of the first. */
#define TAUT_NCCL(result, name, params)                                                                                \
	TAUT_NCCL_API result name params;                                                                              \
	TAUT_NCCL_API result p##name params;

TAUT_NCCL(ncclResult_t, ncclGetVersion, (int *version))
TAUT_NCCL(const char *, ncclGetErrorString, (ncclResult_t result))
/* The sentence of the last failure on @comm; with NULL, or where @comm has had none, of this thread; where this has had
 * none, of this process. Valid until this thread's next call of it. */
TAUT_NCCL(const char *, ncclGetLastError, (ncclComm_t comm))

/* The id's meeting point is this process: it must live until all ranks have joined. */
TAUT_NCCL(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * uniqueId))
TAUT_NCCL(ncclResult_t, ncclCommInitRank, (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank))
TAUT_NCCL(ncclResult_t, ncclCommInitRankConfig,
	  (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t *config))
/* Ranks meet through the first of @commIds. */
TAUT_NCCL(ncclResult_t, ncclCommInitRankScalable,
	  (ncclComm_t * newcomm, int nranks, int myrank, int nId, ncclUniqueId *commIds, ncclConfig_t *config))
TAUT_NCCL(ncclResult_t, ncclCommInitAll, (ncclComm_t * comm, int ndev, const int *devlist))
TAUT_NCCL(ncclResult_t, ncclCommSplit, (ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config))
TAUT_NCCL(ncclResult_t, ncclCommShrink,
	  (ncclComm_t comm, int *excludeRanksList, int excludeRanksCount, ncclComm_t *newcomm, ncclConfig_t *config,
	   int shrinkFlags))
TAUT_NCCL(ncclResult_t, ncclCommFinalize, (ncclComm_t comm))
TAUT_NCCL(ncclResult_t, ncclCommDestroy, (ncclComm_t comm))
TAUT_NCCL(ncclResult_t, ncclCommAbort, (ncclComm_t comm))
/* Ends the calls that run on @comm, on every rank; here later ones are ncclInvalidUsage. ncclCommShrink() and
 * ncclCommSplit() make new ones of it. */
TAUT_NCCL(ncclResult_t, ncclCommRevoke, (ncclComm_t comm, int revokeFlags))
TAUT_NCCL(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t *asyncError))
TAUT_NCCL(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int *count))
/* Where the ranks have no GPU: the number that ncclCommInitAll() gave, else 0. */
TAUT_NCCL(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int *device))
TAUT_NCCL(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int *rank))

TAUT_NCCL(ncclResult_t, ncclAllReduce,
	  (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
	   cudaStream_t stream))
TAUT_NCCL(ncclResult_t, ncclBroadcast,
	  (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
	   cudaStream_t stream))
TAUT_NCCL(ncclResult_t, ncclBcast,
	  (void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream))
TAUT_NCCL(ncclResult_t, ncclReduce,
	  (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root,
	   ncclComm_t comm, cudaStream_t stream))
TAUT_NCCL(ncclResult_t, ncclAllGather,
	  (const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm,
	   cudaStream_t stream))
TAUT_NCCL(ncclResult_t, ncclReduceScatter,
	  (const void *sendbuff, void *recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
	   ncclComm_t comm, cudaStream_t stream))
TAUT_NCCL(ncclResult_t, ncclAlltoAll,
	  (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
	   cudaStream_t stream))
TAUT_NCCL(ncclResult_t, ncclGather,
	  (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
	   cudaStream_t stream))
TAUT_NCCL(ncclResult_t, ncclScatter,
	  (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
	   cudaStream_t stream))
TAUT_NCCL(ncclResult_t, ncclSend,
	  (const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream))
TAUT_NCCL(ncclResult_t, ncclRecv,
	  (void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream))
TAUT_NCCL(ncclResult_t, ncclGroupStart, (void))
TAUT_NCCL(ncclResult_t, ncclGroupEnd, (void))
/* Ends the group without running it; estimates what it would take, for host memory. */
TAUT_NCCL(ncclResult_t, ncclGroupSimulateEnd, (ncclSimInfo_t * simInfo))

TAUT_NCCL(ncclResult_t, ncclRedOpCreatePreMulSum,
	  (ncclRedOp_t * op, void *scalar, ncclDataType_t datatype, ncclScalarResidence_t residence, ncclComm_t comm))
TAUT_NCCL(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm))

/* Memory is as fast without being registered: these note what they are given, and check it. */
TAUT_NCCL(ncclResult_t, ncclMemAlloc, (void **ptr, size_t size))
TAUT_NCCL(ncclResult_t, ncclMemFree, (void *ptr))
TAUT_NCCL(ncclResult_t, ncclCommRegister, (const ncclComm_t comm, void *buff, size_t size, void **handle))
TAUT_NCCL(ncclResult_t, ncclCommDeregister, (const ncclComm_t comm, void *handle))
TAUT_NCCL(ncclResult_t, ncclCommWindowRegister,
	  (ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win, int winFlags))
TAUT_NCCL(ncclResult_t, ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t win))

TAUT_NCCL(void, ncclResetDebugInit, (void))

#ifdef __cplusplus
}
#endif
#endif
