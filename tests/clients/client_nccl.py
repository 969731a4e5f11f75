# SPDX-License-Identifier: Apache-2.0
"""NCCL's functions by ctypes, for the scripts of this folder: prototypes declared by hand, as wrappers do that inference
servers bring along."""
import ctypes

SUCCESS, INVALID_ARGUMENT, INVALID_USAGE = 0, 4, 5
INT8, UINT8, INT32, UINT32, INT64, UINT64, FLOAT16, FLOAT32, FLOAT64, BFLOAT16 = range(10)
SUM, PROD, MAX, MIN, AVG = range(5)

comm_t, stream_t, window_t, result_t = (ctypes.c_void_p,) * 3 + (ctypes.c_int,)
buffer_t, count_t, type_t, op_t, rank_t = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int
VERSION = 22809


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


P = ctypes.POINTER
PROTOTYPES = {
    "ncclGetErrorString": (ctypes.c_char_p, [result_t]),
    "ncclGetLastError": (ctypes.c_char_p, [comm_t]),
    "ncclGetVersion": (result_t, [P(ctypes.c_int)]),
    "ncclGetUniqueId": (result_t, [P(UniqueId)]),
    "ncclCommInitRank": (result_t, [P(comm_t), ctypes.c_int, UniqueId, rank_t]),
    "ncclCommCount": (result_t, [comm_t, P(ctypes.c_int)]),
    "ncclCommUserRank": (result_t, [comm_t, P(ctypes.c_int)]),
    "ncclCommGetAsyncError": (result_t, [comm_t, P(result_t)]),
    "ncclAllReduce": (result_t, [buffer_t, buffer_t, count_t, type_t, op_t, comm_t, stream_t]),
    "ncclReduce": (result_t, [buffer_t, buffer_t, count_t, type_t, op_t, rank_t, comm_t, stream_t]),
    "ncclAllGather": (result_t, [buffer_t, buffer_t, count_t, type_t, comm_t, stream_t]),
    "ncclReduceScatter": (result_t, [buffer_t, buffer_t, count_t, type_t, op_t, comm_t, stream_t]),
    "ncclBroadcast": (result_t, [buffer_t, buffer_t, count_t, type_t, rank_t, comm_t, stream_t]),
    "ncclSend": (result_t, [buffer_t, count_t, type_t, rank_t, comm_t, stream_t]),
    "ncclRecv": (result_t, [buffer_t, count_t, type_t, rank_t, comm_t, stream_t]),
    "ncclGroupStart": (result_t, []),
    "ncclGroupEnd": (result_t, []),
    "ncclCommWindowRegister": (result_t, [comm_t, buffer_t, ctypes.c_size_t, P(window_t), ctypes.c_int]),
    "ncclCommWindowDeregister": (result_t, [comm_t, window_t]),
    "ncclMemAlloc": (result_t, [P(ctypes.c_void_p), ctypes.c_size_t]),
    "ncclMemFree": (result_t, [ctypes.c_void_p]),
    "ncclCommDestroy": (result_t, [comm_t]),
}


class Library:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        for name, (result, arguments) in PROTOTYPES.items():
            function = getattr(self.lib, name)
            function.restype, function.argtypes = result, arguments

    def text(self, result):
        return "%s: %s" % (self.lib.ncclGetErrorString(result).decode(), self.lib.ncclGetLastError(None).decode())

    def __getattr__(self, name):
        """Calls of ncclNAME that fail are exceptions."""
        function = getattr(self.lib, "nccl" + name)

        def call(*arguments):
            result = function(*arguments)
            if result != SUCCESS:
                raise RuntimeError("nccl%s: %s" % (name, self.text(result)))
        return call
