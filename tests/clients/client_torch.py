# SPDX-License-Identifier: Apache-2.0
"""How the torch_*.py scripts begin and end. PyTorch: pip install torch (2.11 is what they were written for). Each
runs as one rank of: torchrun --standalone --nproc_per_node 2 SCRIPT"""
import os

import torch
import torch.distributed as dist

import client_values
from client_values import must

__all__ = ["begin", "end", "must", "value", "equal"]


def begin():
    """This rank, how many there are, its GPU; ranks beyond the number of GPUs share them."""
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    torch.manual_seed(7)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.use_deterministic_algorithms(True)
    return dist.get_rank(), dist.get_world_size(), device


def end():
    torch.cuda.synchronize()
    dist.barrier()
    dist.destroy_process_group()


def value(name, tensor, tolerance=1e-6):
    """@tensor's numbers on each rank."""
    numbers = torch.as_tensor(tensor).detach().double().cpu().flatten().tolist()
    client_values.value("%s/rank%d" % (name, dist.get_rank()), numbers, tolerance)


def equal(got, wanted, what):
    must(torch.equal(got, wanted), "%s on rank %d: got %s, wanted %s" % (what, dist.get_rank(), got, wanted))
