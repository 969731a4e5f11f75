# SPDX-License-Identifier: Apache-2.0
# tests/clients: programs written for NCCL, on host memory (label clients). Those that need GPUs are run by
# tests/gpu/run.
function(client_test name)
	add_test(NAME clients/${name} COMMAND ${ARGN})
	set_tests_properties(clients/${name} PROPERTIES LABELS clients TIMEOUT ${integ_timeout} SKIP_RETURN_CODE 77
		ENVIRONMENT "${test_cache}")
endfunction()

set(clients ${CMAKE_SOURCE_DIR}/tests/clients)
add_executable(client_c_host ${clients}/c_host.c)
target_link_libraries(client_c_host PRIVATE taut_flags nccl m)
client_test(c_host ${clients}/c_host.sh $<TARGET_FILE:client_c_host> 4)
client_test(nccl_tests_counts ${clients}/nccl_tests_counts.sh)

find_program(PYTHON3 python3)
if(NOT PYTHON3)
	client_test(ctypes_host sh -c "echo 'skipped: no python3' && exit 77")
elseif(TAUT_SANITIZE)
	client_test(ctypes_host sh -c "echo 'skipped: the sanitizer would have to be in the interpreter' && exit 77")
else()
	client_test(ctypes_host ${PYTHON3} ${clients}/ctypes_host.py $<TARGET_FILE:nccl> 4)
endif()
