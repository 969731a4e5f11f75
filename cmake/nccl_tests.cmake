# SPDX-License-Identifier: Apache-2.0
# tests/nccl: libnccl.so.2 as a file, what it exports, needs and how it loads (label nccl).
function(nccl_test name)
	add_test(NAME nccl/${name} COMMAND ${ARGN} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
	set_tests_properties(nccl/${name} PROPERTIES LABELS nccl TIMEOUT ${integ_timeout} SKIP_RETURN_CODE 77
		ENVIRONMENT "${test_cache}")
endfunction()

function(nccl_program name)
	add_executable(nccl_${name} ${ARGN})
	target_include_directories(nccl_${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests ${CMAKE_SOURCE_DIR}/include)
	target_link_libraries(nccl_${name} PRIVATE taut_flags ${CMAKE_DL_LIBS})
endfunction()

set(nccl_tests ${CMAKE_SOURCE_DIR}/tests/nccl)

# Loading. In nccl/bare with no file but libc's in reach, which leaves no room for a sanitizer's.
nccl_program(load ${nccl_tests}/load.c)
add_dependencies(nccl_load nccl)
nccl_test(load nccl_load $<TARGET_FILE:nccl>)
if(NOT TAUT_SANITIZE)
	nccl_test(bare ${nccl_tests}/bare $<TARGET_FILE:nccl_load> $<TARGET_FILE:nccl>)
endif()

# In the place of another library: its run path would come before what the test says.
add_library(nccl_decoy SHARED ${nccl_tests}/decoy.c)
target_include_directories(nccl_decoy PRIVATE ${CMAKE_SOURCE_DIR}/include)
target_link_libraries(nccl_decoy PRIVATE taut_flags)
set_target_properties(nccl_decoy PROPERTIES OUTPUT_NAME nccl SOVERSION 2
	LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/decoy)
nccl_program(version ${nccl_tests}/version.c)
target_link_libraries(nccl_version PRIVATE nccl_decoy)
set_target_properties(nccl_version PROPERTIES SKIP_BUILD_RPATH ON)
nccl_test(instead ${nccl_tests}/instead $<TARGET_FILE:nccl_version> $<TARGET_FILE:nccl> $<TARGET_FILE:nccl_decoy>
	${TAUT_SANITIZE})

# NVIDIA's library and header, to compare with. Ours must not be taken for them: they lie where the toolkit is.
set(nvidia_places /usr/local/cuda)
if(NVCC)
	get_filename_component(cuda_bin ${NVCC} DIRECTORY)
	list(APPEND nvidia_places ${cuda_bin}/..)
endif()
find_library(NVIDIA_NCCL libnccl.so.2 PATHS ${nvidia_places} PATH_SUFFIXES lib64 lib NO_DEFAULT_PATH)
find_path(NVIDIA_NCCL_INCLUDE nccl.h PATHS ${nvidia_places} PATH_SUFFIXES include NO_DEFAULT_PATH)

# The prototypes of our header alone, for abi_nvidia.c.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS include/nccl.h)
file(READ include/nccl.h prototypes)
string(FIND "${prototypes}" "\nTAUT_NCCL(" from)
string(FIND "${prototypes}" "#ifdef __cplusplus" to REVERSE)
math(EXPR length "${to} - ${from}")
string(SUBSTRING "${prototypes}" ${from} ${length} prototypes)
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/prototypes/nccl_prototypes.inc.h CONTENT "${prototypes}")

add_library(nccl_abi_nvidia OBJECT ${nccl_tests}/abi_nvidia.c)
target_include_directories(nccl_abi_nvidia PRIVATE ${CMAKE_SOURCE_DIR}/tests ${CMAKE_BINARY_DIR}/prototypes)
if(NVIDIA_NCCL_INCLUDE)
	target_include_directories(nccl_abi_nvidia SYSTEM PRIVATE ${NVIDIA_NCCL_INCLUDE})
else()
	target_include_directories(nccl_abi_nvidia PRIVATE ${CMAKE_SOURCE_DIR}/include)
endif()
target_link_libraries(nccl_abi_nvidia PRIVATE taut_flags)
nccl_program(abi ${nccl_tests}/abi.c ${nccl_tests}/abi_taut.c $<TARGET_OBJECTS:nccl_abi_nvidia>)
nccl_test(abi nccl_abi)

# The same checks as CI's.
find_program(PYTHON3 python3)
if(PYTHON3)
	nccl_test(replaces ${PYTHON3} ${nccl_tests}/replaces $<TARGET_FILE:nccl> "${NVIDIA_NCCL}")
	nccl_test(symbols ${PYTHON3} ${CMAKE_SOURCE_DIR}/ci/check_symbols ${CMAKE_SOURCE_DIR} $<TARGET_FILE:taut_lib>
		$<TARGET_FILE:nccl>)
	if(NOT TAUT_SANITIZE)
		nccl_test(needs ${PYTHON3} ${CMAKE_SOURCE_DIR}/ci/check_deps $<TARGET_FILE:taut_lib> $<TARGET_FILE:nccl>)
	endif()
else()
	message(STATUS "nccl/replaces, symbols and needs are left out: no python3")
endif()

# The calls of nccl.h, as programs make them, on host memory: each file a program that knows nothing but the header.
file(GLOB api_tests CONFIGURE_DEPENDS ${nccl_tests}/api_*.c)
if(TAUT_SANITIZE STREQUAL "thread")
	set(api_collectives_arguments 3) # half a minute for 5 ranks, whose threads do what those of 3 do
endif()
foreach(file ${api_tests})
	get_filename_component(name ${file} NAME_WE)
	nccl_program(${name} ${file})
	target_link_libraries(nccl_${name} PRIVATE nccl Threads::Threads)
	nccl_test(${name} nccl_${name} ${${name}_arguments})
endforeach()
