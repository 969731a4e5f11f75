# SPDX-License-Identifier: Apache-2.0
"""CuPy's two ways to NCCL: cupy.cuda.nccl, by processes and by one process that has all GPUs, and cupyx.distributed.
CuPy: pip install cupy-cuda13x (or cupy-cuda12x). Usage: cupy_nccl.py [RANKS]"""
import os
import pickle
import socket
import subprocess
import sys
import tempfile
import time

import cupy
from cupy.cuda import nccl
from cupyx import distributed

from client_values import must, value


def equal(got, wanted, what):
    must((cupy.asnumpy(got) == wanted).all(), "%s: got %s, wanted %s" % (what, got, wanted))


def raw(comm, rank, size):
    """Addresses, counts and numbers of types, as NCCL has them."""
    stream = cupy.cuda.Stream.null
    x, y = cupy.full(1000, rank + 1, dtype=cupy.float32), cupy.zeros(1000 * size, dtype=cupy.float32)
    args = (nccl.NCCL_FLOAT32, nccl.NCCL_SUM, stream.ptr)
    total = size * (size + 1) / 2
    comm.allReduce(x.data.ptr, y.data.ptr, 1000, *args)
    stream.synchronize()
    equal(y[:1000], total, "allReduce")
    comm.allGather(x.data.ptr, y.data.ptr, 1000, nccl.NCCL_FLOAT32, stream.ptr)
    stream.synchronize()
    for r in range(size):
        equal(y[1000 * r:1000 * (r + 1)], r + 1, "allGather")
    comm.reduceScatter(y.data.ptr, x.data.ptr, 1000, *args)
    stream.synchronize()
    equal(x, size * (rank + 1), "reduceScatter")
    comm.bcast(x.data.ptr, 1000, nccl.NCCL_FLOAT32, size - 1, stream.ptr)
    stream.synchronize()
    equal(x, size * size, "bcast")
    half = cupy.full(33, rank + 1, dtype=cupy.float16)
    comm.reduce(half.data.ptr, half.data.ptr, 33, nccl.NCCL_FLOAT16, nccl.NCCL_MAX, 0, stream.ptr)
    stream.synchronize()
    if rank == 0:
        equal(half, size, "reduce")


def ring(comm, rank, size):
    stream = cupy.cuda.Stream(non_blocking=True)
    x, y = cupy.full(70001, rank, dtype=cupy.int64), cupy.zeros(70001, dtype=cupy.int64)
    cupy.cuda.Device().synchronize()
    nccl.groupStart()
    comm.send(x.data.ptr, x.size, nccl.NCCL_INT64, (rank + 1) % size, stream.ptr)
    comm.recv(y.data.ptr, y.size, nccl.NCCL_INT64, (rank - 1) % size, stream.ptr)
    nccl.groupEnd()
    stream.synchronize()
    equal(y, (rank - 1) % size, "a ring")


def high(rank, size, port):
    """cupyx.distributed: rank 0 also keeps the store where the ranks meet."""
    comm = distributed.init_process_group(size, rank, backend="nccl", host="127.0.0.1", port=port)
    x, y = cupy.arange(50, dtype=cupy.float64) + rank, cupy.zeros(50)
    comm.all_reduce(x, y)
    equal(y, size * cupy.asnumpy(cupy.arange(50)) + size * (size - 1) / 2, "all_reduce")
    comm.broadcast(x, 0)
    equal(x, cupy.asnumpy(cupy.arange(50.0)), "broadcast")
    blocks = cupy.zeros((size, 50))
    comm.all_gather(y, blocks, 50)
    equal(blocks, cupy.asnumpy(y), "all_gather")
    if rank == 0:
        comm.send(x, size - 1)
    if rank == size - 1 and size > 1:
        comm.recv(y, 0)
        equal(y, cupy.asnumpy(x), "send and recv")
    comm.barrier()
    comm.stop()


def shared_id(rank, path):
    """Rank 0's, by a file that is whole when it is there."""
    if rank == 0:
        unique = nccl.get_unique_id()
        with open(path + ".part", "wb") as f:
            pickle.dump(unique, f)
        os.rename(path + ".part", path)
        return unique
    while not os.path.exists(path):
        time.sleep(0.01)
    with open(path, "rb") as f:
        return pickle.load(f)


def rank_main(rank, size, path, port):
    cupy.cuda.Device(rank).use()
    comm = nccl.NcclCommunicator(size, shared_id(rank, path), rank)
    must(comm.rank_id() == rank and comm.size() == size, "who am I")
    raw(comm, rank, size)
    ring(comm, rank, size)
    comm.destroy()
    high(rank, size, port)
    value("cupy/processes/rank%d" % rank, [1.0])


def one_process(size):
    comms = nccl.NcclCommunicator.initAll(size)
    made = cupy.random.RandomState(5).standard_normal(100000).get().astype("float32")
    x = []
    for r in range(size):
        with cupy.cuda.Device(r):
            x.append(cupy.asarray(made * (r + 1)))
            cupy.cuda.Device(r).synchronize()
    nccl.groupStart()
    for r in range(size):
        with cupy.cuda.Device(r):
            comms[r].allReduce(x[r].data.ptr, x[r].data.ptr, x[r].size, nccl.NCCL_FLOAT32, nccl.NCCL_SUM,
                               cupy.cuda.Stream.null.ptr)
    nccl.groupEnd()
    for r in range(size):
        with cupy.cuda.Device(r):
            cupy.cuda.Device(r).synchronize()
            value("cupy/one_process/%d" % r, [float(x[r].sum()), float(x[r].max()), float(x[r][777])], 1e-5)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def processes(size):
    with tempfile.TemporaryDirectory() as folder:
        place = [os.path.join(folder, "id"), str(free_port())]
        ranks = [subprocess.Popen([sys.executable, __file__, "rank", str(r), str(size)] + place) for r in range(size)]
        must(not any([process.wait() for process in ranks]), "a rank failed")


def main():
    if sys.argv[1:2] == ["rank"]:
        rank_main(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5]))
        return
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    processes(size)
    one_process(size)


if __name__ == "__main__":
    main()
