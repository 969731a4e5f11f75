# SPDX-License-Identifier: Apache-2.0
"""A communicator beside PyTorch's own, by ctypes on the addresses of tensors, as inference servers (vLLM's wrapper)
have it: the id goes by torch.distributed, calls go to the current stream and into CUDA graphs."""
import ctypes

import torch
import torch.distributed as dist

from client_nccl import BFLOAT16, FLOAT32, INT64, SUM, Library, UniqueId
from client_torch import begin, end, equal, must, value

TYPES = {torch.float32: FLOAT32, torch.bfloat16: BFLOAT16, torch.int64: INT64}


def stream():
    return ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)


class Communicator:
    def __init__(self, rank, size, device):
        # The library of that name that is in this process already.
        self.nccl, self.rank, self.size, self.comm = Library("libnccl.so.2"), rank, size, ctypes.c_void_p()
        unique = UniqueId()
        if rank == 0:
            self.nccl.GetUniqueId(ctypes.byref(unique))
        bytes_ = torch.tensor(list(bytes(unique)), dtype=torch.uint8, device=device)
        dist.broadcast(bytes_, 0)
        ctypes.memmove(ctypes.byref(unique), bytes(bytes_.tolist()), ctypes.sizeof(unique))
        self.nccl.CommInitRank(ctypes.byref(self.comm), size, unique, rank)

    def all_reduce(self, x):
        out = torch.empty_like(x)
        self.nccl.AllReduce(x.data_ptr(), out.data_ptr(), x.numel(), TYPES[x.dtype], SUM, self.comm, stream())
        return out

    def all_gather(self, out, x):
        self.nccl.AllGather(x.data_ptr(), out.data_ptr(), x.numel(), TYPES[x.dtype], self.comm, stream())

    def reduce_scatter(self, out, x):
        self.nccl.ReduceScatter(x.data_ptr(), out.data_ptr(), out.numel(), TYPES[x.dtype], SUM, self.comm, stream())

    def broadcast(self, x, root):
        self.nccl.Broadcast(x.data_ptr(), x.data_ptr(), x.numel(), TYPES[x.dtype], root, self.comm, stream())

    def exchange(self, out, x, to, source):
        self.nccl.GroupStart()
        self.nccl.Send(x.data_ptr(), x.numel(), TYPES[x.dtype], to, self.comm, stream())
        self.nccl.Recv(out.data_ptr(), out.numel(), TYPES[out.dtype], source, self.comm, stream())
        self.nccl.GroupEnd()

    def destroy(self):
        torch.cuda.synchronize()
        self.nccl.CommDestroy(self.comm)


def known(c, device):
    """Whole numbers, so that results are exact."""
    rank, size = c.rank, c.size
    for dtype in TYPES:
        for count in (1, 1000, 70001):
            x = (torch.arange(count, device=device) % 7 + rank).to(dtype)
            total = (size * (torch.arange(count) % 7) + size * (size - 1) // 2).to(dtype)
            equal(c.all_reduce(x).cpu(), total, "all-reduce of %d %s" % (count, dtype))
    x = torch.full((300,), rank, dtype=torch.int64, device=device)
    everyone = torch.empty(300 * size, dtype=torch.int64, device=device)
    c.all_gather(everyone, x)
    equal(everyone.cpu(), torch.arange(size).repeat_interleave(300), "all-gather")
    c.reduce_scatter(x, everyone)
    equal(x.cpu(), torch.full((300,), size * rank), "reduce-scatter")
    c.broadcast(x, size - 1)
    equal(x.cpu(), torch.full((300,), size * (size - 1)), "broadcast")
    x, got = torch.full((5001,), float(rank), device=device), torch.empty(5001, device=device)
    c.exchange(got, x, (rank + 1) % size, (rank - 1) % size)
    equal(got.cpu(), torch.full((5001,), float((rank - 1) % size)), "a ring")


def captured(c, device):
    """Two all-reduces with a product between them, replayed with other inputs."""
    made = torch.Generator().manual_seed(17 + c.rank)
    weights = torch.randn(64, 64, generator=made).to(device)
    x = torch.zeros(8, 64, device=device)

    def layers():
        return c.all_reduce(torch.relu(c.all_reduce(x)) @ weights)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        layers()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = layers()
    for turn in range(10):
        x.copy_(torch.randn(8, 64, generator=made))
        graph.replay()
        torch.cuda.synchronize()
        again = layers()
        must(torch.equal(out, again), "replay %d differs by %g" % (turn, (out - again).abs().max().item()))
    value("ctypes/captured", out.sum(1), 1e-4)


def main():
    rank, size, device = begin()
    c = Communicator(rank, size, device)
    known(c, device)
    captured(c, device)
    c.destroy()
    end()


main()
