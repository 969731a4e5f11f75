# SPDX-License-Identifier: Apache-2.0
"""Training with parameters sharded over the ranks (FSDP2: fully_shard), in float32 and mixed with bfloat16."""
import torch
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from client_torch import begin, end, must, value


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def train(rank, device, policy, steps=15):
    torch.manual_seed(5)
    net = nn.Sequential(*[Block(96) for _ in range(3)]).to(device)
    for block in net:
        fully_shard(block, mp_policy=policy)
    fully_shard(net, mp_policy=policy)
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
    data = torch.Generator().manual_seed(200 + rank)
    x = torch.randn(16, 96, generator=data).to(device)
    losses = []
    for _ in range(steps):
        loss = (net(x).float() - x.flip(1)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    must(losses[-1] < losses[0], "the loss does not fall: %s" % losses)
    whole = [p.full_tensor().float().norm() for p in net.parameters()]  # an all-gather of each
    return torch.tensor(losses), torch.stack(whole)


def main():
    rank, _, device = begin()
    mixed = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    halves = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    for name, policy, tolerance in [("float32", MixedPrecisionPolicy(), 1e-4), ("mixed", mixed, 2e-2),
                                    ("bfloat16", halves, 2e-2)]:
        losses, norms = train(rank, device, policy)
        value("fsdp2/%s/losses" % name, losses, tolerance)
        value("fsdp2/%s/norms" % name, norms, tolerance)
    end()


main()
