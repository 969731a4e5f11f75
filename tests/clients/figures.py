#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times of PyTorch's jobs on taut beside NCCL, by turns, on a machine with two GPUs or more.
Usage: figures.py LIBRARY [-n RANKS] [--rounds N] [--timeout SECONDS] [--json FILE] [--jobs JOB,...]

LIBRARY is taut's libnccl.so.2, which goes into LD_PRELOAD. In each round figures_torch.py runs all jobs once on each
library, in an order that changes. A figure is the median of all repetitions of all rounds. Exit status 1: a run
failed or took longer than --timeout; 77: no PyTorch. Figures decide nothing."""
import argparse
import importlib.util
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import both

SCRIPT = os.path.join(both.HERE, "figures_torch.py")
WANTED = {"ddp_resnet50": 1.0, "ddp_gpt": 1.0, "fsdp2_gpt": 1.0, "decode/step": 0.6, "decode/all_reduces": 0.6,
          "start/group": 1.0, "start/all": 1.0}


def environment(library, rank, ranks, port):
    env = both.environment(library)
    env.update(NCCL_DEBUG="VERSION", RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks),
               MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    del env["CUBLAS_WORKSPACE_CONFIG"]  # makes products of matrices slower
    return env


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(processes, timeout_s):
    """0 when all ended well; the others are ended after one that failed, or after @timeout_s (None)."""
    end = time.monotonic() + timeout_s
    while any(p.poll() is None for p in processes):
        failed = [p.returncode for p in processes if p.returncode]
        if failed or time.monotonic() > end:
            for p in processes:
                p.terminate()
            for p in processes:
                p.wait(30)
            return failed[0] if failed else None
        time.sleep(0.02)
    return max(abs(p.returncode) for p in processes)


def start(library, ranks, jobs, timeout_s):
    """Status of one start without a launcher, whose time would be in it, and what it printed."""
    port = free_port()
    with tempfile.TemporaryFile("w+") as out:
        processes = [subprocess.Popen([sys.executable, SCRIPT] + jobs, env=environment(library, rank, ranks, port),
                                      stdout=out, stderr=subprocess.STDOUT) for rank in range(ranks)]
        try:
            status = wait_for(processes, timeout_s)
        finally:
            for p in processes:
                p.kill()
        out.seek(0)
        return status, out.read()


def run(args, name):
    """{job: [ms...]} of one start, and whether it ended well."""
    before = time.monotonic()
    status, text = start(os.path.abspath(args.library) if name == "taut" else None, args.ranks, args.jobs, args.timeout)
    print("%s: status %s, %.1f s" % (name, status, time.monotonic() - before), file=sys.stderr)
    well = status == 0 and (name == "taut") == (both.OURS in text)
    if not well:
        print(text[-6000:], file=sys.stderr)
    lines = [line.split() for line in text.splitlines() if line.startswith("FIGURE ")]
    return {words[1]: [float(w) for w in words[2:]] for words in lines}, well


def measure(args, times):
    """Fills @times: {job: {"taut": [[ms...] of a round, ...], "nccl": ...}}. Whether all ended well."""
    well = True
    subprocess.run([sys.executable, "-c", "import figures_torch"], cwd=both.HERE, check=True)  # from the disk, once
    for i in range(args.rounds):
        for name in ("taut", "nccl") if i % 2 == 0 else ("nccl", "taut"):
            found, good = run(args, name)
            well = well and good
            for job, ms in found.items():
                times.setdefault(job, {"taut": [], "nccl": []})[name].append(ms)
    return well


def summary(rounds):
    """Median of all, those of the rounds, and the least."""
    every = sum(rounds, [])
    return {"ms": statistics.median(every), "rounds_ms": [statistics.median(r) for r in rounds],
            "least_ms": min(every), "repetitions": len(every)}


def report(times, path):
    figures = {}
    for job, of in times.items():
        if not of["taut"] or not of["nccl"]:
            continue
        f = {name: summary(rounds) for name, rounds in of.items()}
        figures[job] = dict(f, ratio=f["taut"]["ms"] / f["nccl"]["ms"], wanted=WANTED.get(job))
    print("%-28s %10s %10s %7s %7s" % ("job, ms", "taut", "NCCL", "ratio", "wanted"))
    for job, f in figures.items():
        wanted = f["wanted"]
        print("%-28s %10.3f %10.3f %7.3f %7s%s" % (job, f["taut"]["ms"], f["nccl"]["ms"], f["ratio"],
                                                  "" if wanted is None else "%.2f" % wanted,
                                                  " MISSES" if wanted and round(f["ratio"], 2) > wanted else ""))
    if path:
        with open(path, "w", encoding="ascii") as out:
            json.dump(figures, out, indent=1)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("library")
    parser.add_argument("-n", type=int, default=2, dest="ranks")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=120)
    parser.add_argument("--json")
    parser.add_argument("--jobs", type=lambda text: text.split(","), default=[])
    args = parser.parse_args()
    if not importlib.util.find_spec("torch"):
        print("no PyTorch here: skipped")
        sys.exit(77)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended before all rounds were done"))
    times, well = {}, False
    try:
        well = measure(args, times)
    finally:
        report(times, args.json)
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
