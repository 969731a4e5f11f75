#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libnccl.so.2 as a Python program uses it: loaded by its path, prototypes declared by hand, the id sent to the other
processes, buffers by address; in the manner of the wrappers that inference servers bring along. On host memory.

Usage: ctypes_host.py LIBRARY [RANKS]. Needs Python's own library only."""
import ctypes
import multiprocessing
import os
import sys
import traceback

from client_nccl import (AVG, FLOAT32, FLOAT64, INT32, INT64, INVALID_ARGUMENT, INVALID_USAGE, Library, MAX, SUCCESS,
                         SUM, UINT8, UniqueId, VERSION, comm_t, result_t, window_t)


def address(array):
    return ctypes.addressof(array)


def doubles(*values):
    return (ctypes.c_double * len(values))(*values)


def equal(got, wanted):
    if list(got) != list(wanted):
        raise AssertionError("got %s, wanted %s" % (list(got), list(wanted)))


def collectives(nccl, comm, rank, size):
    mine, out = doubles(rank + 1, 2 * rank, -rank), doubles(0, 0, 0)
    total = size * (size - 1) // 2
    nccl.AllReduce(address(mine), address(out), 3, FLOAT64, SUM, comm, None)
    equal(out, [total + size, 2 * total, -total])
    nccl.AllReduce(address(mine), address(out), 3, FLOAT64, MAX, comm, None)
    equal(out, [size, 2 * (size - 1), 0])
    nccl.AllReduce(address(mine), address(mine), 1, FLOAT64, AVG, comm, None)
    equal(mine[:1], [(size + 1) / 2])

    mine, out = (ctypes.c_int32 * 2)(rank, 7 * rank), (ctypes.c_int32 * (2 * size))()
    nccl.AllGather(address(mine), address(out), 2, INT32, comm, None)
    equal(out, [v for r in range(size) for v in (r, 7 * r)])
    nccl.ReduceScatter(address(out), address(mine), 2, INT32, SUM, comm, None)
    equal(mine, [size * rank, 7 * size * rank])
    nccl.Reduce(address(mine), address(out), 2, INT32, SUM, 1, comm, None)
    if rank == 1:
        equal(out[:2], [size * total, 7 * size * total])

    text = ctypes.create_string_buffer(b"from the last rank" if rank == size - 1 else b"", 32)
    nccl.Broadcast(address(text), address(text), 32, UINT8, size - 1, comm, None)
    equal(text.value, b"from the last rank")


def ring(nccl, comm, rank, size):
    """The token comes back with the mark of each."""
    token = (ctypes.c_int64 * 2)(0, 0)
    before, after = (rank - 1) % size, (rank + 1) % size
    if rank > 0:
        nccl.Recv(address(token), 2, INT64, before, comm, None)
    token[0] += 1
    token[1] += rank
    nccl.Send(address(token), 2, INT64, after, comm, None)
    if rank == 0:
        nccl.Recv(address(token), 2, INT64, before, comm, None)
        equal(token, [size, size * (size - 1) // 2])


def exchange(nccl, comm, rank, size):
    """Every two ranks at once, in a group."""
    out = [(ctypes.c_float * 5)(*[100 * rank + r] * 5) for r in range(size)]
    got = [(ctypes.c_float * 5)() for _ in range(size)]
    nccl.GroupStart()
    for r in range(size):
        nccl.Send(address(out[r]), 5, FLOAT32, r, comm, None)
        nccl.Recv(address(got[r]), 5, FLOAT32, r, comm, None)
    nccl.GroupEnd()
    for r in range(size):
        equal(got[r], [100 * r + rank] * 5)


def windows(nccl, comm, rank, size):
    """Memory of the library's, registered, then used like any other."""
    place, window = ctypes.c_void_p(), window_t()
    nccl.MemAlloc(ctypes.byref(place), 1 << 16)
    nccl.CommWindowRegister(comm, place, 1 << 16, ctypes.byref(window), 1)
    memory = (ctypes.c_float * (1 << 14)).from_address(place.value)
    for i in range(0, 1 << 14, 1000):
        memory[i] = rank + i
    nccl.AllReduce(place, place, 1 << 14, FLOAT32, SUM, comm, None)
    for i in range(0, 1 << 14, 1000):
        equal([memory[i]], [size * (size - 1) / 2 + size * i])
    nccl.CommWindowDeregister(comm, window)
    nccl.MemFree(place)


def refusals(nccl, comm):
    x = doubles(1)
    result = nccl.lib.ncclAllReduce(address(x), address(x), 1, 99, SUM, comm, None)
    equal([result], [INVALID_ARGUMENT])
    if "99" not in nccl.text(result):
        raise AssertionError("the wrong datatype is not named: " + nccl.text(result))
    equal([nccl.lib.ncclGroupEnd()], [INVALID_USAGE])


def run(nccl, rank, size, unique_id):
    comm, got, state = comm_t(), ctypes.c_int(), result_t(-1)
    nccl.GetVersion(ctypes.byref(got))
    equal([got.value], [VERSION])
    nccl.CommInitRank(ctypes.byref(comm), size, unique_id, rank)
    nccl.CommCount(comm, ctypes.byref(got))
    equal([got.value], [size])
    nccl.CommUserRank(comm, ctypes.byref(got))
    equal([got.value], [rank])
    collectives(nccl, comm, rank, size)
    ring(nccl, comm, rank, size)
    exchange(nccl, comm, rank, size)
    windows(nccl, comm, rank, size)
    refusals(nccl, comm)
    nccl.CommGetAsyncError(comm, ctypes.byref(state))
    equal([state.value], [SUCCESS])
    nccl.CommDestroy(comm)


def rank_main(path, rank, size, ids):
    try:
        nccl = Library(path)
        unique_id = UniqueId()
        if rank == 0:
            nccl.GetUniqueId(ctypes.byref(unique_id))
            for _ in range(size - 1):
                ids.put(bytes(unique_id))
        else:
            ctypes.memmove(ctypes.addressof(unique_id), ids.get(timeout=60), 128)
        run(nccl, rank, size, unique_id)
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # not stopped by what the queue still holds


def main():
    path, size = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 4
    os.environ["TAUT_DEVICE"] = "host"
    os.environ.setdefault("TAUT_LOG", "none")  # a refusal is asked for here
    context = multiprocessing.get_context("spawn")
    ids = context.Queue()
    ranks = [context.Process(target=rank_main, args=(path, r, size, ids)) for r in range(size)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    failed = sum(process.exitcode != 0 for process in ranks)
    print("%d ranks, %d failed" % (size, failed))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
