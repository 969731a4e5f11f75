#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Collectives of torch.distributed over Gloo, timed as bench/peer_mpi.c times MPI's.

Run by bench/peers, once per rank, with RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and
GLOO_SOCKET_IFNAME in the environment: peer_gloo.py COLLECTIVES SIZES SECONDS.
all_reduce, reduce and broadcast are in place (torch has no other form) and timed on zeros;
reduce_scatter and gather are left out where this Gloo has none. PIN=1 keeps the process, with the threads of Gloo, on
processor RANK."""
import json
import os
import sys
import time

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if os.environ.get("PIN"):
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank]})

import torch  # noqa: E402: after the binding, which its threads inherit
import torch.distributed as dist  # noqa: E402

COLLECTIVES = ["all_reduce", "all_gather", "broadcast", "reduce", "scatter", "gather", "all_to_all"]
ONE_BLOCK = ["all_reduce", "broadcast", "reduce"]


class Buffers:
    def __init__(self, most):
        self.a, self.b = torch.zeros(most), torch.zeros(most)

    def call(self, name, n, root):
        a, b, block = self.a, self.b, n // size
        if name == "all_reduce":
            dist.all_reduce(b[:n])
        elif name == "broadcast":
            dist.broadcast(b[:n], root)
        elif name == "reduce":
            dist.reduce(b[:n], root)
        elif name == "all_gather":
            dist.all_gather(list(b[:n].view(size, block).unbind(0)), a[:block])
        elif name == "gather":
            dist.gather(a[:block], list(b[:n].view(size, block).unbind(0)) if rank == root else None, root)
        elif name == "scatter":
            dist.scatter(b[:block], list(a[:n].view(size, block).unbind(0)) if rank == root else None, root)
        else:
            dist.all_to_all_single(b[:n], a[:n])

    def wrong(self, name, n):
        root, block = size - 1, n // size
        self.a[:n] = pattern(n, rank)
        self.b[:n] = pattern(n, rank) if name in ("all_reduce", "reduce") or (name, rank) == ("broadcast", root) else -1
        self.call(name, n, root)
        if name in ("all_reduce", "reduce"):
            want = sum(pattern(n, r) for r in range(size))
        elif name == "broadcast":
            want = pattern(n, root)
        elif name in ("all_gather", "gather"):
            want = torch.cat([pattern(block, r) for r in range(size)])
        elif name == "scatter":
            want = pattern(block, root, rank * block)
        else:
            want = torch.cat([pattern(block, r, rank * block) for r in range(size)])
        mine = name not in ("reduce", "gather") or rank == root
        return agree([float((self.b[:len(want)] != want).sum()) if mine else 0.0], dist.ReduceOp.SUM)[0]


def pattern(n, r, first=0):
    return (torch.arange(first, first + n) % 1021).float() + 3 * r + 1


def agree(values, op):
    v = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(v, op=op)
    return v.tolist()


def batch(buffers, name, n, calls):
    dist.barrier()
    dist.barrier()
    start = time.perf_counter()
    for i in range(calls):
        buffers.call(name, n, i % size)
    return time.perf_counter() - start


def warm_up(buffers, name, n):
    best, calls = 1e9, 3
    for turn in range(12):
        t = agree([batch(buffers, name, n, calls)], dist.ReduceOp.MAX)[0]
        best = min(best, t / calls)
        if t > 0.02 and turn:
            break
        if t <= 0.02:
            calls *= 4
    return best


def measure(buffers, name, size_bytes, seconds):
    n = size_bytes // 4
    buffers.b[:n] = 0
    est = warm_up(buffers, name, n)
    calls = min(4000, max(10 if size_bytes <= 32768 else 1, int(2e-3 / est)))
    reps = min(201, max(7, int(seconds / (est * calls))))
    times = sorted(agree([batch(buffers, name, n, calls) / calls for _ in range(reps)], dist.ReduceOp.MAX))
    row = {"collective": name, "bytes": size_bytes, "ranks": size, "time_us": times[reps // 2] * 1e6,
           "min_us": times[0] * 1e6, "max_us": times[-1] * 1e6, "wrong": int(buffers.wrong(name, n))}
    if rank == 0:
        print(json.dumps(row), flush=True)


def main():
    torch.set_num_threads(1)
    wanted, sizes, seconds = sys.argv[1].split(","), [int(s) for s in sys.argv[2].split(",")], float(sys.argv[3])
    dist.init_process_group("gloo")
    buffers = Buffers(max(sizes) // 4)
    for name in COLLECTIVES:
        for s in sizes:
            if name in wanted and s % (4 if name in ONE_BLOCK else 4 * size) == 0:
                measure(buffers, name, s, seconds)
    dist.barrier()
    dist.destroy_process_group()


main()
