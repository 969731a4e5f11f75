# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training with DistributedDataParallel, in float32 and in bfloat16: the losses, step by step."""
import torch
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.nn.parallel import DistributedDataParallel

from client_torch import begin, end, must, value


def model(device, dtype):
    torch.manual_seed(3)
    layers = [nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 8)]
    return nn.Sequential(*layers).to(device=device, dtype=dtype)


def train(rank, device, dtype, hook=None, steps=20):
    net = DistributedDataParallel(model(device, dtype), device_ids=[device.index], bucket_cap_mb=1)
    if hook:
        net.register_comm_hook(None, hook)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    data = torch.Generator().manual_seed(100 + rank)  # each rank has data of its own
    x = torch.randn(32, 64, generator=data).to(device=device, dtype=dtype)
    y = x[:, :8] * 0.5
    losses = []
    for _ in range(steps):
        loss = nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    must(losses[-1] < losses[0], "the loss does not fall: %s" % losses)
    return torch.tensor(losses), torch.stack([p.detach().float().norm() for p in net.parameters()])


def main():
    rank, _, device = begin()
    for name, dtype, hook, tolerance in [("float32", torch.float32, None, 1e-5),
                                         ("bfloat16", torch.bfloat16, None, 2e-2),
                                         ("compressed", torch.float32, bf16_compress_hook, 2e-2)]:
        losses, norms = train(rank, device, dtype, hook)
        value("ddp/%s/losses" % name, losses, tolerance)
        value("ddp/%s/norms" % name, norms, tolerance)
    end()


main()
