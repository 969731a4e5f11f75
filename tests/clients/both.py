#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of PyTorch, CuPy and JAX, each once on NCCL and once on taut in its place, on a machine with GPUs; what they
compute must agree. Usage: both.py LIBRARY [-n RANKS] [--alone] [--at-once N] [SCRIPT...]

LIBRARY is taut's libnccl.so.2, which goes into LD_PRELOAD. Scripts: torch_*.py, cupy_nccl.py, jax_collectives.py of
this folder (default: all whose package is installed). They print lines "VALUE name tolerance number...", which
are compared here, and end with status 1 where something is wrong in itself. --alone: on taut only, for what NCCL
refuses, such as more ranks than GPUs. --at-once: that many scripts beside each other (4), on the same GPUs.

The last line is "N passed, N failed, N skipped"; exit status 0 when none failed, 77 when none ran."""
import argparse
import concurrent.futures
import glob
import importlib.util
import math
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TIMEOUT_S = 600
OURS = "+taut"  # in the line that tells the version


def torchrun(script, ranks):
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(ranks), script]


def command(script, ranks):
    if os.path.basename(script).startswith("torch_"):
        return torchrun(script, ranks)
    return [sys.executable, script, str(ranks)]


def environment(library):
    env = dict(os.environ)
    env.update(
        NCCL_DEBUG="INFO",  # for the line with the version
        NCCL_NVLS_ENABLE="0",  # multicast can take the GPUs of a host that others share out of service
        TORCH_SYMM_MEM_DISABLE_MULTICAST="1",
        CUBLAS_WORKSPACE_CONFIG=":4096:8",  # the same sums each time
        XLA_PYTHON_CLIENT_PREALLOCATE="false",
        PYTHONUNBUFFERED="1",
        PYTHONDONTWRITEBYTECODE="1",
    )
    if library:
        env["LD_PRELOAD"] = library
    return env


def values_of(text):
    """{name: (tolerance, [number...])} of the lines VALUE."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if words and words[0] == "VALUE":
            found[words[1]] = (float(words[2]), [float.fromhex(w) for w in words[3:]])
    return found


def run(script, ranks, library):
    """The values, and what was wrong with the run; None if nothing."""
    try:
        done = subprocess.run(command(script, ranks), env=environment(library), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as e:
        return {}, "hangs after %d s: %s" % (TIMEOUT_S, str(e.stdout)[-2000:])
    found = values_of(done.stdout)
    if done.returncode:
        return found, "status %d:\n%s" % (done.returncode, done.stdout[-4000:])
    if not found:
        return found, "printed no values:\n%s" % done.stdout[-2000:]
    if bool(library) != (OURS in done.stdout):
        return found, "ran on the wrong library (%s)" % ("not taut" if library else "taut")
    return found, None


def close(a, b, tolerance):
    return a == b or abs(a - b) <= tolerance * max(abs(a), abs(b)) or (math.isnan(a) and math.isnan(b))


def compare(theirs, ours):
    """What differs, and in how many of all numbers the bits do."""
    wrong, bits, numbers = [], 0, 0
    for name in sorted(set(theirs) | set(ours)):
        tolerance, a = theirs.get(name, (0, []))
        b = ours.get(name, (0, []))[1]
        if len(a) != len(b):
            wrong.append("%s: %d numbers on NCCL, %d on taut" % (name, len(a), len(b)))
            continue
        numbers += len(a)
        bits += sum(x != y for x, y in zip(a, b))
        wrong += ["%s[%d]: %.9g on NCCL, %.9g on taut" % (name, i, x, y)
                  for i, (x, y) in enumerate(zip(a, b)) if not close(x, y, tolerance)][:3]
    return wrong, bits, numbers


def judge_alone(script, ranks, library):
    """Whether it passed, and what there is to say."""
    name = os.path.basename(script)
    found, wrong = run(script, ranks, library)
    if wrong:
        return False, "FAILED  %s on taut: %s" % (name, wrong)
    return True, "ok      %s: %d ranks, %d values" % (name, ranks, len(found))


def judge(script, ranks, library):
    """Whether it passed, and what there is to say."""
    name = os.path.basename(script)
    theirs, wrong = run(script, ranks, None)
    if wrong:
        return False, "FAILED  %s on NCCL: %s" % (name, wrong)
    ours, wrong = run(script, ranks, library)
    if wrong:
        return False, "FAILED  %s on taut: %s" % (name, wrong)
    differ, bits, numbers = compare(theirs, ours)
    line = "%s  %s: %d numbers, %d of them not the same to the bit" % ("FAILED" if differ else "ok    ", name, numbers, bits)
    return not differ, "\n        ".join([line] + differ)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("library")
    parser.add_argument("-n", type=int, default=2, dest="ranks")
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("scripts", nargs="*")
    args = parser.parse_intermixed_args()
    scripts = args.scripts or sorted(glob.glob(os.path.join(HERE, "torch_*.py"))) + [
        os.path.join(HERE, "cupy_nccl.py"), os.path.join(HERE, "jax_collectives.py")]
    here = [s for s in scripts if importlib.util.find_spec(os.path.basename(s).split("_")[0])]
    for script in sorted(set(scripts) - set(here)):
        print("skipped %s: its package is not here" % os.path.basename(script))
    library, verdict = os.path.abspath(args.library), judge_alone if args.alone else judge
    passed, skipped = 0, len(scripts) - len(here)
    with concurrent.futures.ThreadPoolExecutor(args.at_once) as pool:
        for good, text in pool.map(lambda script: verdict(script, args.ranks, library), here):
            print(text, flush=True)
            passed += good
    failed = len(here) - passed
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    sys.exit(1 if failed else 0 if passed else 77)


if __name__ == "__main__":
    main()
