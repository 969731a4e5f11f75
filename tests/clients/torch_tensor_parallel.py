# SPDX-License-Identifier: Apache-2.0
"""Layers cut by columns and by rows over the ranks, as inference servers do, with one all-reduce each; run as it is
and as a CUDA graph that is replayed with other inputs."""
import torch
import torch.distributed as dist

from client_torch import begin, end, must, value

WIDTH, HIDDEN, LAYERS, BATCH = 128, 512, 4, 8


def weights(device, dtype):
    made = torch.Generator().manual_seed(11)
    return [(torch.randn(HIDDEN, WIDTH, generator=made).mul(WIDTH**-0.5).to(device, dtype),
             torch.randn(WIDTH, HIDDEN, generator=made).mul(HIDDEN**-0.5).to(device, dtype)) for _ in range(LAYERS)]


def forward(x, layers, reduce):
    for up, down in layers:
        y = torch.relu(x @ up.t()) @ down.t()
        if reduce:
            dist.all_reduce(y)
        x = x + y
    return x


def captured(x, layers):
    """A graph that reads @x, and the output that it writes."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # connections are made before
        for _ in range(3):
            forward(x, layers, True)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = forward(x, layers, True)
    return graph, out


def check(rank, size, device, dtype, tolerance):
    whole = weights(device, dtype)
    part = HIDDEN // size
    mine = [(up[rank * part:(rank + 1) * part], down[:, rank * part:(rank + 1) * part].contiguous())
            for up, down in whole]
    x = torch.zeros(BATCH, WIDTH, device=device, dtype=dtype)
    graph, out = captured(x, mine)
    inputs = torch.Generator().manual_seed(13)  # the same on all ranks
    for turn in range(20):
        x.copy_(torch.randn(BATCH, WIDTH, generator=inputs).to(dtype))
        graph.replay()
        torch.cuda.synchronize()
        for what, again in ("calls", forward(x, mine, True)), ("the whole", forward(x, whole, False)):
            off = ((out - again).abs().max() / out.abs().max()).item()
            must(off < tolerance, "%s, replay %d: differs from %s by %g" % (dtype, turn, what, off))
    value("tensor_parallel/%s" % str(dtype).split(".")[1], out.sum(1), tolerance)


def main():
    rank, size, device = begin()
    check(rank, size, device, torch.float32, 1e-5)
    check(rank, size, device, torch.bfloat16, 5e-2)
    check(rank, size, device, torch.float16, 1e-2)
    end()


main()
