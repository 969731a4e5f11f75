# SPDX-License-Identifier: Apache-2.0
"""The collectives of torch.distributed with numbers that are known beforehand: all_reduce with each operation and type,
all_to_all_single with equal and unequal parts, gathers, scatters, broadcasts, asynchronous ones."""
import torch
import torch.distributed as dist

from client_torch import begin, end, equal, value

OPS = [(dist.ReduceOp.SUM, "sum"), (dist.ReduceOp.MAX, "max"), (dist.ReduceOp.MIN, "min"),
       (dist.ReduceOp.PRODUCT, "product")]
TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8, torch.int8]


def all_reduces(rank, size, device):
    for dtype in TYPES:
        rows = torch.stack([(torch.arange(100) + r) % 2 + 1 for r in range(size)])
        for op, name in OPS:
            x = rows[rank].to(device, dtype)
            dist.all_reduce(x, op)
            wanted = {"sum": rows.sum(0), "max": rows.amax(0), "min": rows.amin(0), "product": rows.prod(0)}[name]
            equal(x.cpu(), wanted.to(dtype), "%s of %s" % (name, dtype))
    for dtype in TYPES[:4]:
        x = torch.full((33,), 2.0 * rank, device=device, dtype=dtype)
        dist.all_reduce(x, dist.ReduceOp.AVG)
        equal(x, torch.full_like(x, size - 1.0), "mean of %s" % dtype)


def large(rank, device):
    made = torch.Generator().manual_seed(300 + rank)
    x = torch.randn(5_000_001, generator=made).to(device)
    dist.all_reduce(x)
    value("collectives/large", torch.stack([x.sum(), x.abs().max(), x[12345], x[-1]]), 1e-5)
    work = [dist.all_reduce(part, async_op=True) for part in x.chunk(7)]
    for w in work:
        w.wait()
    value("collectives/async", torch.stack([x.sum(), x.abs().max()]), 1e-5)


def all_to_alls(rank, size, device):
    x = torch.arange(size * 6, device=device, dtype=torch.float32) + 1000 * rank
    out = torch.empty_like(x)
    dist.all_to_all_single(out, x)
    wanted = torch.cat([torch.arange(rank * 6, rank * 6 + 6) + 1000.0 * r for r in range(size)])
    equal(out.cpu(), wanted, "all_to_all_single")

    sends = [rank + peer for peer in range(size)]  # rank 0 sends nothing to itself
    takes = [peer + rank for peer in range(size)]
    x = torch.cat([torch.full((n,), 10 * rank + peer) for peer, n in enumerate(sends)]).to(device)
    out = torch.empty(sum(takes), device=device, dtype=x.dtype)
    dist.all_to_all_single(out, x, takes, sends)
    wanted = torch.cat([torch.full((n,), 10 * peer + rank) for peer, n in enumerate(takes)])
    equal(out.cpu(), wanted, "all_to_all_single of unequal parts")


def gathers(rank, size, device):
    x = torch.full((5,), float(rank), device=device, dtype=torch.bfloat16)
    out = torch.empty(5 * size, device=device, dtype=torch.bfloat16)
    dist.all_gather_into_tensor(out, x)
    equal(out.cpu().float(), torch.arange(size).repeat_interleave(5).float(), "all_gather_into_tensor")
    parts = [torch.empty(3 + r, device=device) for r in range(size)]
    dist.all_gather(parts, torch.full((3 + rank,), float(rank), device=device))  # of unequal lengths
    for r in range(size):
        equal(parts[r].cpu(), torch.full((3 + r,), float(r)), "all_gather")
    x = torch.arange(4 * size, device=device, dtype=torch.float32)
    out = torch.empty(4, device=device)
    dist.reduce_scatter_tensor(out, x)
    equal(out.cpu(), size * torch.arange(4 * rank, 4 * rank + 4).float(), "reduce_scatter_tensor")


def rooted(rank, size, device):
    for root in range(size):
        x = torch.full((9,), float(rank), device=device)
        dist.broadcast(x, root)
        equal(x.cpu(), torch.full((9,), float(root)), "broadcast")
        x = torch.full((9,), rank + 1.0, device=device)
        dist.reduce(x, root)
        if rank == root:
            equal(x.cpu(), torch.full((9,), size * (size + 1) / 2), "reduce")
        parts = [torch.empty(2, device=device) for _ in range(size)] if rank == root else None
        dist.gather(torch.full((2,), float(rank), device=device), parts, root)
        if rank == root:
            equal(torch.cat(parts).cpu(), torch.arange(size).repeat_interleave(2).float(), "gather")
        out = torch.empty(2, device=device)
        dist.scatter(out, parts, root)
        equal(out.cpu(), torch.full((2,), float(rank)), "scatter")


def main():
    rank, size, device = begin()
    all_reduces(rank, size, device)
    large(rank, device)
    all_to_alls(rank, size, device)
    gathers(rank, size, device)
    rooted(rank, size, device)
    end()


main()
