# SPDX-License-Identifier: Apache-2.0
"""Messages between ranks: a pipeline of model parts with send and recv, forward and backward, and rings by
batch_isend_irecv."""
import torch
import torch.distributed as dist
from torch import nn

from client_torch import begin, end, equal, must, value

WIDTH, MICROBATCHES = 64, 4


def microbatches(rank, size, stage, device, inputs):
    """One step: activations to the right, gradients to the left. The loss, on the last rank."""
    kept, total = [], 0.0
    for k in range(MICROBATCHES):
        x = torch.empty(8, WIDTH, device=device)
        if rank == 0:
            x.copy_(inputs[k])
        else:
            dist.recv(x, rank - 1)
            x.requires_grad_(True)
        y = stage(x)
        kept.append((x, y))
        if rank < size - 1:
            dist.send(y.detach(), rank + 1)
    for x, y in kept:
        if rank < size - 1:
            grad = torch.empty_like(y)
            dist.recv(grad, rank + 1)
            y.backward(grad)
        else:
            loss = (y - 1).square().mean()
            loss.backward()
            total += loss.item()
        if rank > 0:
            dist.send(x.grad, rank - 1)
    return total


def pipeline(rank, size, device):
    torch.manual_seed(20 + rank)
    stage = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH)).to(device)
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.05)
    inputs = torch.randn(MICROBATCHES, 8, WIDTH, generator=torch.Generator().manual_seed(21))
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        losses.append(microbatches(rank, size, stage, device, inputs))
        optimizer.step()
    if rank == size - 1:
        must(losses[-1] < losses[0], "the loss does not fall: %s" % losses)
    value("messages/pipeline", torch.tensor(losses), 1e-5)


def rings(rank, size, device):
    right, left = (rank + 1) % size, (rank - 1) % size
    for count in (1, 1000, 3_000_001):
        x = torch.arange(count, device=device, dtype=torch.float32) + rank
        for hop in range(size):
            got = torch.empty_like(x)
            for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, x, right), dist.P2POp(dist.irecv, got, left)]):
                work.wait()
            x = got
            wanted = torch.arange(count, dtype=torch.float32) + (rank - hop - 1) % size
            equal(x.cpu(), wanted, "hop %d of a ring of %d" % (hop, count))


def crossed(rank, size, device):
    """Several messages each way between two ranks, of several types, in one batch."""
    peer = rank ^ 1
    if peer >= size:
        return
    out = [torch.full((n,), 10 * rank + k, device=device, dtype=dtype)
           for k, (n, dtype) in enumerate([(3, torch.bfloat16), (70000, torch.int64), (1, torch.uint8)])]
    got = [torch.empty_like(x) for x in out]
    ops = [dist.P2POp(dist.isend, x, peer) for x in out] + [dist.P2POp(dist.irecv, x, peer) for x in got]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    for k, x in enumerate(got):
        equal(x, torch.full_like(x, 10 * peer + k), "message %d" % k)


def main():
    rank, size, device = begin()
    pipeline(rank, size, device)
    rings(rank, size, device)
    crossed(rank, size, device)
    end()


main()
