#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A C program written for NCCL, on host memory: tests/clients/c_host.sh PROGRAM RANKS
# PROGRAM is c_host.c of this folder, built with NCCL's header and library or taut's, for example:
#   cc -Iinclude tests/clients/c_host.c -o c_host -Lbuild -l:libnccl.so.2 -lm
# With LD_LIBRARY_PATH or LD_PRELOAD=build/libnccl.so.2 it runs on taut, whichever it was built with.
set -u
program=$1 ranks=$2
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
export TAUT_DEVICE=host

rank=0
started=
while [ $rank -lt "$ranks" ]; do
	"$program" $rank "$ranks" "$folder/id" &
	started="$started $!"
	rank=$((rank + 1))
done
failed=0
for process in $started; do
	wait "$process" || failed=$((failed + 1))
done
echo "$ranks ranks, $failed failed"
[ $failed -eq 0 ]
