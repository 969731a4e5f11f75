# SPDX-License-Identifier: Apache-2.0
# Unit tests: tests/unit/test_*.c, cmocka, one program each. Process tests: tests/integ/*.c,
# programs that exit 0, 1, or 77 with the reason why they were skipped.
set(patience 1) # of the timeouts
if(TAUT_SANITIZE)
	set(patience 5)
endif()
math(EXPR unit_timeout "60 * ${patience}")
math(EXPR integ_timeout "120 * ${patience}")
# What tests measure, under sanitizers and beside others, is not for the user's programs.
set(test_cache "XDG_CACHE_HOME=${CMAKE_BINARY_DIR}/cache")

pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
file(GLOB unit_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/unit/test_*.c)
if(NOT TARGET taut_emulated)
	message(STATUS "unit/test_cuda_kernels, test_cuda_messages, test_cuda_schedule and test_cuda_tunnel are left out: no C++ "
		"compiler, which compiles the kernels for them")
	list(FILTER unit_tests EXCLUDE REGEX "test_cuda_(kernels|messages|schedule|tunnel)")
endif()
foreach(file ${unit_tests})
	get_filename_component(name ${file} NAME_WE)
	add_executable(${name} ${file})
	target_link_libraries(${name} PRIVATE taut_all PkgConfig::CMOCKA)
	add_test(NAME unit/${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
	set_tests_properties(unit/${name} PROPERTIES LABELS unit TIMEOUT ${unit_timeout}
		ENVIRONMENT "${test_cache}")
endforeach()

# Libraries that stand for NVIDIA's driver; opened by path. nvml.h, where it is, to compare with.
foreach(fake fake_nvml fake_nvml_old)
	add_library(${fake} MODULE ${CMAKE_SOURCE_DIR}/tests/unit/fake_nvml.c)
	target_include_directories(${fake} PRIVATE ${CMAKE_SOURCE_DIR}/src)
	target_link_libraries(${fake} PRIVATE taut_flags)
	add_dependencies(test_topo_nvml ${fake})
endforeach()
target_compile_definitions(fake_nvml_old PRIVATE FAKE_OLD)
target_compile_definitions(test_topo_nvml PRIVATE FAKE_NVML="$<TARGET_FILE:fake_nvml>"
	FAKE_NVML_OLD="$<TARGET_FILE:fake_nvml_old>")
find_path(NVML_INCLUDE nvml.h PATHS /usr/local/cuda/include)
if(NVML_INCLUDE)
	target_include_directories(test_topo_nvml_abi SYSTEM PRIVATE ${NVML_INCLUDE})
endif()

if(TARGET taut_emulated)
	foreach(name test_cuda_kernels test_cuda_messages test_cuda_schedule test_cuda_tunnel)
		target_link_libraries(${name} PRIVATE taut_emulated)
		set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
	endforeach()
endif()
file(GLOB integ_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/integ/*.c)
foreach(file ${integ_tests})
	get_filename_component(name ${file} NAME_WE)
	add_executable(integ_${name} ${file})
	target_link_libraries(integ_${name} PRIVATE taut_all)
	set(arguments)
	# Minutes for 6 to 9 ranks, whose threads do what those of 5 do.
	if(name STREQUAL collectives AND TAUT_SANITIZE STREQUAL "thread")
		set(arguments auto 1 5)
	endif()
	add_test(NAME integ/${name} COMMAND integ_${name} ${arguments} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
	set_tests_properties(integ/${name} PROPERTIES LABELS integ TIMEOUT ${integ_timeout} SKIP_RETURN_CODE 77
		ENVIRONMENT "${test_cache}")
	if(TARGET taut) # for tests that start the command
		add_dependencies(integ_${name} taut)
		set_tests_properties(integ/${name} PROPERTIES ENVIRONMENT
			"${test_cache};TAUT_TEST_COMMAND=$<TARGET_FILE:taut>")
	endif()
endforeach()

# The driver's interface, as taut knows it, against the toolkit's header.
if(TARGET test_cuda_driver AND NVCC)
	get_filename_component(cuda_bin ${NVCC} DIRECTORY)
	find_path(CUDA_HEADER cuda.h HINTS ${cuda_bin}/../include)
	if(CUDA_HEADER)
		target_include_directories(test_cuda_driver SYSTEM PRIVATE ${CUDA_HEADER})
	endif()
endif()

# The same programs with other arguments and settings: variant(PROGRAM NAME "ARGUMENTS" SETTINGS...).
# TEST_HOSTS=3,1 makes the ranks take themselves to be on machines of three and one; tests/integ/ranks.h.
function(variant program name arguments)
	separate_arguments(words UNIX_COMMAND "${arguments}")
	add_test(NAME integ/${program}_${name} COMMAND integ_${program} ${words} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
	set_tests_properties(integ/${program}_${name} PROPERTIES LABELS "integ;variant" TIMEOUT ${long_timeout}
		SKIP_RETURN_CODE 77 ENVIRONMENT "${test_cache};${ARGN}")
endfunction()
math(EXPR long_timeout "300 * ${patience}")
set_tests_properties(integ/collectives integ/hosts integ/random_calls integ/scale PROPERTIES TIMEOUT ${long_timeout})
variant(collectives tcp "tcp 2 9")
variant(collectives hosts_3_1 "auto 4 5" TEST_HOSTS=3,1 TAUT_SPIN_US=0)
variant(collectives hosts_1_2_2 "auto 5 6" TEST_HOSTS=1,2,2 TAUT_SPIN_US=0)
variant(collectives hosts_dealt "auto 5 6" TEST_HOSTS=%2 TAUT_SPIN_US=0)
variant(collectives hosts_dealt_ring "auto 5 6" TEST_HOSTS=%2 TAUT_SPIN_US=0 TAUT_ALGO=ring,chain)
variant(collectives hosts_each "auto 3 4" TEST_HOSTS=1 TAUT_SPIN_US=0)
variant(collectives two_level "auto 4 5" TEST_HOSTS=2,2 TAUT_SPIN_US=0 TAUT_ALGO=two_level)
variant(collectives small_slots "auto 3 5" TAUT_SLOT_BYTES=4K TAUT_SLOTS=1)
variant(collectives channels "auto 3 4" TAUT_CHANNELS=3 TAUT_PROTO=bulk)
variant(collectives sockets "tcp 3 3" TAUT_SOCKETS=3)
variant(hosts ipv6 "" TAUT_SOCKET_FAMILY=AF_INET6)
variant(hosts interface "" TAUT_SOCKET_IFNAME=cable)
variant(hosts two_level "" TAUT_ALGO=two_level)
variant(calls tcp "tcp")
variant(calls hosts_1_2_2 "auto" TEST_HOSTS=1,2,2 TAUT_SPIN_US=0)
variant(random_calls other_seed "3000 77 12")

# tests/gpu/NAME.c: for machines with GPUs, run by tests/gpu/run; built everywhere so that they stay alive.
file(GLOB gpu_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/gpu/*.c)
foreach(file ${gpu_tests} ${CMAKE_SOURCE_DIR}/bench/gpu_peers.c)
	get_filename_component(name ${file} NAME_WE)
	add_executable(${name} ${file})
	target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
	target_link_libraries(${name} PRIVATE taut_all)
endforeach()

# The same here, with a driver that has no GPUs: kernels as threads. With FAKE_PEERS=2 pairs of GPUs address each other; else what
# they exchange goes by way of host memory, or over sockets: with TAUT_SHM_DISABLE, and between machines, which two ranks
# each take to be one. fake(PROGRAM NAME RANKS "ARGUMENTS" SETTINGS...).
function(fake program name ranks arguments)
	separate_arguments(words UNIX_COMMAND "${arguments}")
	if(name MATCHES "machines")
		set(machines sh -c "TAUT_HOSTID=$((TAUT_RANK / 2)) exec \"$@\"" sh)
	endif()
	add_test(NAME gpu/${program}_${name} COMMAND taut run -n ${ranks} ${machines} $<TARGET_FILE:${program}> ${words})
	set_tests_properties(gpu/${program}_${name} PROPERTIES LABELS gpu TIMEOUT ${long_timeout} ENVIRONMENT
		"${test_cache};LD_LIBRARY_PATH=$<TARGET_FILE_DIR:fake_cuda>;${ARGN}")
endfunction()
if(TARGET taut_emulated AND TARGET taut AND TAUT_CUDA AND NVCC)
	add_library(fake_cuda SHARED ${CMAKE_SOURCE_DIR}/tests/gpu/fake/libcuda.c)
	target_link_libraries(fake_cuda PRIVATE taut_flags taut_emulated Threads::Threads)
	set_target_properties(taut_emulated PROPERTIES POSITION_INDEPENDENT_CODE ON)
	set_target_properties(fake_cuda PROPERTIES OUTPUT_NAME cuda SOVERSION 1 LINKER_LANGUAGE CXX
		LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fake_cuda)
	fake(gpu_collectives host 2 "300 5")
	fake(gpu_collectives host_more 5 "60 7")
	fake(gpu_messages host 3 "24 3")
	fake(gpu_messages alone 1 "24 3")
	fake(gpu_collectives sockets 2 "300 5" TAUT_SHM_DISABLE=1)
	fake(gpu_collectives machines 5 "60 7")
	fake(gpu_messages sockets 2 "24 3" TAUT_SHM_DISABLE=1)
	fake(gpu_messages machines 3 "24 3")
	fake(gpu_collectives peers 4 "60 7" FAKE_PEERS=2)
	fake(gpu_messages peers 3 "24 3" FAKE_PEERS=2)
	fake(gpu_collectives near_machines 5 "60 7 exact" FAKE_PEERS=2)
	fake(gpu_messages near_machines 5 "24 3" FAKE_PEERS=2)
	fake(gpu_collectives islands 4 "60 7 exact" FAKE_GPUS=4 FAKE_PEERS=2)
	fake(gpu_messages islands 4 "24 3" FAKE_GPUS=4 FAKE_PEERS=2)
	foreach(algo ring tree recursive_doubling recursive_halving chain)
		fake(gpu_collectives ${algo} 4 "60 7 exact" TAUT_ALGO=${algo})
	endforeach()
	fake(gpu_collectives peers_ring 5 "60 3 exact" FAKE_PEERS=2 TAUT_ALGO=ring)
	fake(gpu_collectives peers_tree 4 "60 3 exact" FAKE_PEERS=2 TAUT_ALGO=tree)
	add_test(NAME gpu/gpu_failures_host COMMAND gpu_failures 10)
	set_tests_properties(gpu/gpu_failures_host PROPERTIES LABELS gpu TIMEOUT ${long_timeout} ENVIRONMENT
		"${test_cache};LD_LIBRARY_PATH=$<TARGET_FILE_DIR:fake_cuda>;FAKE_GPUS=2")
	add_dependencies(gpu_failures fake_cuda)
endif()
