#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# NVIDIA's nccl-tests on taut, on a machine with two GPUs or more: tests/clients/nccl_tests.sh FOLDER [LIBRARY [GPUS]]
# FOLDER has its built programs. To get them (CUDA's compiler, NCCL's header and library are needed):
#   git clone https://github.com/NVIDIA/nccl-tests && make -C nccl-tests CUDA_HOME=... NCCL_HOME=...
# and with MPI=1 MPI_HOME=... for one process per GPU, which is left out otherwise. LIBRARY is taut's
# libnccl.so.2 (default: build/libnccl.so.2). Every program runs once with every type, operation and root at a few sizes,
# and with one type from small to large blocking, several at a time in threads, in CUDA graphs, and in processes. Wrong
# values are those that the programs count. The last line is "N passed, N failed, N wrong values, N s"; the exit status
# is 0 when nothing failed, 77 without GPUs.
set -u
folder=${1:?usage: nccl_tests.sh FOLDER [LIBRARY [GPUS]]}
library=$(realpath "${2:-build/libnccl.so.2}")
gpus=${3:-2}
# NVLink multicast can take the GPUs of a host that others share out of service.
export NCCL_NVLS_ENABLE=0

if [ "$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')" -lt "$gpus" ]; then
	echo "fewer than $gpus GPUs here: skipped"
	exit 77
fi
if [ ! -e "$library" ]; then
	echo "$library is not there: build the target nccl"
	exit 1
fi
passed=0
wrong=0
failed=()
output=$(mktemp) || exit 1
trap 'rm -f "$output"' EXIT

# Sums the columns #wrong: "SUM VALUES". The header says where they are, from the right: on the left a row may lack one
# (hypercube_perf has no redop).
# shellcheck disable=SC2016 # awk's dollars
count_wrong='
/#wrong/ { n = 0; for (i = 1; i <= NF; i++) if ($i == "#wrong") right[n++] = NF - i }
$1 ~ /^[0-9]+$/ { for (i = 0; i < n; i++) { x = $(NF - right[i]); if (x ~ /^[0-9.e+]+$/) { sum += x; seen++ } } }
END { printf "%d %d\n", sum, seen }'

# try NAME COMMAND...: passed if it ends well, has checked values, and none was wrong.
try()
{
	local name=$1 rc=0 bad seen start=$SECONDS
	shift
	timeout --kill-after=10 120 "$@" >"$output" 2>&1 || rc=$?
	read -r bad seen < <(awk "$count_wrong" "$output")
	wrong=$((wrong + bad))
	if [ $rc -eq 0 ] && [ "$bad" -eq 0 ] && [ "$seen" -gt 0 ] && grep -q '^# Out of bounds values : 0 OK' "$output"; then
		passed=$((passed + 1))
		printf 'ok      %s: %d values, %d s\n' "$name" "$seen" $((SECONDS - start))
	else
		failed+=("$name")
		printf 'FAILED  %s: status %d, %d wrong of %d values\n' "$name" $rc "$bad" "$seen"
		tail -n 20 "$output"
	fi
}

preload=(env "LD_PRELOAD=$library")
# A size for each protocol; and from 8 bytes to 64 MiB.
few=(-b 4K -e 4M -f 32 -n 1 -w 0)
sizes=(-b 8 -e 64M -f 8 -n 2 -w 1)
shopt -s nullglob
programs=("$folder"/*_perf)
if [ ${#programs[@]} -eq 0 ]; then
	echo "$folder has no programs NAME_perf: build nccl-tests first"
	exit 1
fi
for program in "${programs[@]}"; do
	name=$(basename "$program")
	if ! ldd "$program" | grep -q 'libnccl\.so\.2'; then
		failed+=("$name (has NCCL inside, nothing can take its place: build without NCCL_STATIC)")
		continue
	fi
	every=(-d all -r -1) # -1: all roots
	case $name in
	*reduce*) every+=(-o all) ;; # other programs would do the same once for each
	esac
	try "$name, all types" "${preload[@]}" "$program" "${few[@]}" -g "$gpus" "${every[@]}"
	try "$name, blocking" "${preload[@]}" "$program" "${sizes[@]}" -g "$gpus" -z 1
	try "$name, threads, several at a time" "${preload[@]}" "$program" "${sizes[@]}" -t "$gpus" -g 1 -m 4
	try "$name, graphs" "${preload[@]}" "$program" "${sizes[@]}" -g "$gpus" -G 2
	if ldd "$program" | grep -q libmpi; then
		try "$name, processes" mpirun -np "$gpus" "${preload[@]}" "$program" "${sizes[@]}" -g 1
		try "$name, processes, graphs" mpirun -np "$gpus" "${preload[@]}" "$program" "${sizes[@]}" -g 1 -G 2
	fi
done

[ ${#failed[@]} -eq 0 ] || printf 'failed: %s\n' "${failed[@]}"
printf '%d passed, %d failed, %d wrong values, %d s\n' $passed ${#failed[@]} $wrong $SECONDS
[ ${#failed[@]} -eq 0 ]
