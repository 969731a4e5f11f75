#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does nccl_tests.sh read the tables of nccl-tests as they are meant? In place of GPUs and programs: scripts that print
# tables such as nccl-tests 2.19 prints; in place of the library any file: what cannot be preloaded is left out.
set -u
here=$(dirname "$0")
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failed=0

mkdir "$folder/bin" "$folder/tests"
printf '#!/bin/sh\necho GPU 0\necho GPU 1\n' >"$folder/bin/nvidia-smi"
printf '#!/bin/sh\necho libnccl.so.2\n' >"$folder/bin/ldd"
chmod +x "$folder"/bin/*

# table ROW...: of a program of the name all_perf.
table()
{
	cat >"$folder/tests/all_perf" <<END
#!/bin/sh
cat <<TABLE
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
$(printf '%s\n' "$@")
# Out of bounds values : 0 OK
TABLE
END
	chmod +x "$folder/tests/all_perf"
}

# expect "N passed, N failed, N wrong values" VALUES: a run over the table says that, and has read so many values.
expect()
{
	local output
	output=$(PATH=$folder/bin:$PATH "$here/nccl_tests.sh" "$folder/tests" "$0" 2)
	case $output in
	*": $2 values, "*"$1, "* | *" of $2 values"*"$1, "*) ;;
	*)
		printf 'not "%s" of %d values each:\n%s\n' "$1" "$2" "$output"
		failed=1
		;;
	esac
}

# Four runs of a program.
table "     1048576        262144     float     sum      -1    16.03   65.42   65.42       0    15.84   66.19   66.19       0" \
	"     8388608       2097152     float     sum      -1    40.03  209.56  209.56       0    40.14  208.99  208.99       0"
expect "4 passed, 0 failed, 0 wrong values" 4
table "     1048576        262144     float              -1    16.03   65.42   32.71       0    15.84   66.19   33.09     N/A"
expect "4 passed, 0 failed, 0 wrong values" 1
table "     1048576        262144     float     sum      -1    16.03   65.42   65.42       2    15.84   66.19   66.19       3"
expect "0 passed, 4 failed, 20 wrong values" 2
table "     1048576        262144     float              -1    16.03   65.42   65.42       2    15.84   66.19   66.19   1e+03"
expect "0 passed, 4 failed, 4008 wrong values" 2
table "     1048576        262144     float     sum      -1    16.03   65.42   65.42     N/A    15.84   66.19   66.19     N/A"
expect "0 passed, 4 failed, 0 wrong values" 0
exit $failed
