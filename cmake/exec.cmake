# SPDX-License-Identifier: Apache-2.0
# The reduction loops are compiled once for each kind of processor; reduce.c picks one at run
# time. Always as vector code, and so that every kind gives the same bits: a product and a
# sum are not to become one rounding.
set(reduce_flags -O3 -ffp-contract=off -fno-trapping-math)
if(CMAKE_C_COMPILER_ID MATCHES "Clang")
	list(APPEND reduce_flags -Wno-pass-failed)
endif()
set(reduce_avx2_flags)
set(reduce_avx512_flags)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
	set(reduce_avx2_flags -mavx2 -mf16c)
	set(reduce_avx512_flags -mavx2 -mf16c -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512)
endif()
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/exec/reduce_generic.c PROPERTIES COMPILE_OPTIONS "${reduce_flags}")
foreach(kind avx2 avx512)
	set_source_files_properties(${CMAKE_SOURCE_DIR}/src/exec/reduce_${kind}.c PROPERTIES
		COMPILE_OPTIONS "${reduce_flags};${reduce_${kind}_flags}")
endforeach()
