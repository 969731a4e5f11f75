# SPDX-License-Identifier: Apache-2.0
"""Times of PyTorch's jobs on one library, for figures.py, which starts it; torchrun may too. Usage: figures_torch.py
[JOB...]. Rank 0 prints lines "FIGURE job ms...", one number for each repetition."""
import faulthandler
import os
import signal
import sys
import time

STARTED = time.monotonic()


def age_s():
    """Seconds since the interpreter was started."""
    with open("/proc/self/stat", encoding="ascii") as f:
        ticks = int(f.read().rsplit(")", 1)[1].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


PYTHON_S = age_s()
faulthandler.register(signal.SIGTERM, chain=True)  # where it hangs

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

IMPORTED = time.monotonic()
IMAGES = 320  # of 224 x 224, a rank
WIDTH, LAYERS, HEADS, WORDS = 2048, 19, 16, 32000  # of the model with 1.1 * 10^9 parameters
SEQUENCES, LENGTH = 10, 1024  # a rank
REDUCES, TOKENS, HIDDEN, PART = 64, 8, 4096, 512  # of the decode step


def figure(job, times_ms):
    if dist.get_rank() == 0:
        sys.stdout.write("FIGURE %s %s\n" % (job, " ".join("%.5f" % t for t in times_ms)))
        sys.stdout.flush()


def timed(step, warm, repeats):
    """GPU time in ms of each of @repeats steps; the host runs ahead."""
    for _ in range(warm):
        step()
    torch.cuda.synchronize()
    dist.barrier()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(repeats + 1)]
    marks[0].record()
    for mark in marks[1:]:
        step()
        mark.record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) for a, b in zip(marks, marks[1:])]


# --- start ---
def start():
    """Phases of a job's start in ms; the GPU's context is made before the group, as programs do with device_id."""
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    x = torch.ones(1024, device=device)
    torch.cuda.synchronize()
    times = [time.monotonic()]
    for phase in (lambda: dist.init_process_group("nccl", device_id=device), lambda: dist.all_reduce(x), dist.barrier):
        phase()
        torch.cuda.synchronize()
        times.append(time.monotonic())
    figure("start/import", [1e3 * (PYTHON_S + IMPORTED - STARTED)])
    figure("start/context", [1e3 * (times[0] - IMPORTED)])
    for name, a, b in zip(("init_process_group", "first_all_reduce", "barrier"), times, times[1:]):
        figure("start/" + name, [1e3 * (b - a)])
    figure("start/group", [1e3 * (times[-1] - times[0])])
    figure("start/all", [1e3 * (PYTHON_S + times[-1] - STARTED)])
    return device


def new_groups(device):
    """A communicator more, and its first call."""
    x, times = torch.ones(1024, device=device), []
    for _ in range(5):
        dist.barrier()
        torch.cuda.synchronize()
        before = time.monotonic()
        group = dist.new_group(list(range(dist.get_world_size())))
        dist.all_reduce(x, group=group)
        torch.cuda.synchronize()
        times.append(1e3 * (time.monotonic() - before))
    figure("new_group", times)


# --- decode ---
def captured(step):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph


def decode(device):
    """All-reduces of one token's step with 32 layers cut over the ranks, in one CUDA graph: with its products of
    matrices, and alone."""
    x = torch.randn(TOKENS, HIDDEN, device=device, dtype=torch.bfloat16)
    ups = torch.randn(REDUCES, HIDDEN, PART, device=device, dtype=torch.bfloat16) * HIDDEN**-0.5
    downs = torch.randn(REDUCES, PART, HIDDEN, device=device, dtype=torch.bfloat16) * PART**-0.5

    def whole():
        y = x
        for up, down in zip(ups, downs):
            y = y @ up @ down
            dist.all_reduce(y)

    parts = [torch.randn_like(x) for _ in range(REDUCES)]  # doubled by each replay

    def alone():
        for part in parts:
            dist.all_reduce(part)

    for name, step in ("decode/step", whole), ("decode/all_reduces", alone):
        graph = captured(step)
        figure(name, timed(graph.replay, 10, 50))


# --- ResNet-50 ---
class Bottleneck(nn.Module):
    def __init__(self, come, width, stride):
        super().__init__()
        go = 4 * width
        layers = [nn.Conv2d(come, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                  nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
                  nn.Conv2d(width, go, 1, bias=False), nn.BatchNorm2d(go)]
        self.way = nn.Sequential(*layers)
        self.past = nn.Identity()
        if come != go or stride > 1:
            self.past = nn.Sequential(nn.Conv2d(come, go, 1, stride, bias=False), nn.BatchNorm2d(go))
        self.last = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.last(self.way(x) + self.past(x))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    come = 64
    for width, blocks, stride in (64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2):
        for i in range(blocks):
            layers.append(Bottleneck(come, width, 1 if i else stride))
            come = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(come, 1000))


def ddp_resnet50(device):
    """Parameters and gradients in float32, the work in bfloat16."""
    with device:
        net = resnet50().to(memory_format=torch.channels_last)
    net = DistributedDataParallel(net, device_ids=[device.index], gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    x = torch.randn(IMAGES, 3, 224, 224, device=device).to(memory_format=torch.channels_last)
    y = torch.randint(0, 1000, (IMAGES,), device=device)

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    figure("ddp_resnet50", timed(step, 5, 15))


# --- GPT ---
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        n, length, _ = x.shape
        qkv = self.qkv(self.norms[0](x)).view(n, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(*qkv.unbind(0), is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, length, WIDTH))
        return x + self.mlp(self.norms[1](x))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, words):
        x = self.words(words)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def train_gpt(name, device, net):
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    words = torch.randint(0, WORDS, (SEQUENCES, LENGTH + 1), device=device)

    def step():
        out = net(words[:, :-1])
        loss = nn.functional.cross_entropy(out.flatten(0, 1), words[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    figure(name, timed(step, 2, 7))


def gpt(device):
    with device:
        return Gpt().to(torch.bfloat16)


def ddp_gpt(device):
    train_gpt("ddp_gpt", device,
              DistributedDataParallel(gpt(device), device_ids=[device.index], gradient_as_bucket_view=True))


def fsdp2_gpt(device):
    net = gpt(device)
    for block in net.blocks:
        fully_shard(block)
    train_gpt("fsdp2_gpt", device, fully_shard(net))


JOBS = {f.__name__: f for f in (new_groups, decode, ddp_resnet50, ddp_gpt, fsdp2_gpt)}


def main():
    device = start()
    torch.manual_seed(7)
    for name in sys.argv[1:] or JOBS:
        before = time.monotonic()
        JOBS[name](device)
        figure("whole/" + name, [1e3 * (time.monotonic() - before)])
    torch.cuda.synchronize()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
