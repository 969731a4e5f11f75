# SPDX-License-Identifier: Apache-2.0
"""Groups of ranks within the group: new_group, split_group, a mesh of devices, and several of them at work at once on
streams of their own."""
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from client_torch import begin, end, equal, value


def reduced(group, ranks, rank, device, what):
    x = torch.full((1000,), rank + 1.0, device=device)
    dist.all_reduce(x, group=group)
    equal(x.cpu(), torch.full((1000,), float(sum(r + 1 for r in ranks))), what)


def made_new(rank, size, device):
    everyone = list(range(size))
    groups = [dist.new_group(everyone), dist.new_group(everyone)]
    alone = [dist.new_group([r]) for r in range(size)]
    half = [dist.new_group(everyone[:(size + 1) // 2]), dist.new_group(everyone[(size + 1) // 2:])]
    for group in groups:
        reduced(group, everyone, rank, device, "new_group of all")
    reduced(alone[rank], [rank], rank, device, "new_group of one")
    mine = int(rank >= (size + 1) // 2)
    reduced(half[mine], everyone[(size + 1) // 2:] if mine else everyone[:(size + 1) // 2], rank, device, "half")
    for group in groups:
        dist.destroy_process_group(group)


def split(rank, size, device):
    evens, odds = list(range(0, size, 2)), list(range(1, size, 2))
    group = dist.split_group(split_ranks=[evens, odds])
    reduced(group, odds if rank % 2 else evens, rank, device, "split_group")
    whole = dist.split_group(split_ranks=[list(range(size))])
    reduced(whole, range(size), rank, device, "split_group of all")
    dist.destroy_process_group(whole)


def mesh(rank, size, device):
    if size % 2:
        return
    axes = init_device_mesh("cuda", (size // 2, 2), mesh_dim_names=("data", "tensor"))
    pair = axes["tensor"].get_group()
    reduced(pair, [rank // 2 * 2, rank // 2 * 2 + 1], rank, device, "the pair of a mesh")
    across = axes["data"].get_group()
    reduced(across, range(rank % 2, size, 2), rank, device, "the other axis of a mesh")


def at_once(rank, size, device):
    """Two groups, each on a stream of its own, with much to do."""
    groups = [dist.new_group(list(range(size))) for _ in range(2)]
    streams = [torch.cuda.Stream() for _ in range(2)]
    x = [torch.full((1_000_000,), float(rank + k), device=device) for k in range(2)]
    torch.cuda.synchronize()
    for _ in range(10):
        for k in range(2):
            with torch.cuda.stream(streams[k]):
                dist.all_reduce(x[k], dist.ReduceOp.AVG, group=groups[k])
    torch.cuda.synchronize()
    for k in range(2):
        value("groups/at_once%d" % k, x[k][:3])
        equal(x[k].cpu(), torch.full((1_000_000,), (size - 1) / 2 + k), "two groups at once")


def main():
    rank, size, device = begin()
    made_new(rank, size, device)
    split(rank, size, device)
    mesh(rank, size, device)
    at_once(rank, size, device)
    value("groups/done", [1.0])
    end()


main()
