# SPDX-License-Identifier: Apache-2.0
# The kernels: each src/cuda/kernels/NAME.cu becomes a fat binary (machine code for the GPUs of data
# centres, PTX for later ones) that lies inside the library and is given to the driver at run time. No
# part of the CUDA toolkit is needed then. Without nvcc the library is built without kernels and says so.
find_program(NVCC nvcc HINTS /usr/local/cuda/bin DOC "NVIDIA's compiler")
set(TAUT_CUDA ON CACHE STRING
	"compile the kernels for GPU memory: ON (needs nvcc), OFF, or EMULATED: for the tests' driver without GPUs alone")
set(TAUT_CUDA_ARCHS "80;90;100" CACHE STRING "GPUs to compile kernels for; the last one as PTX too")

set(kernel_names direct_ll direct_bulk host messages schedule)
set(kernel_folder ${CMAKE_SOURCE_DIR}/src/cuda/kernels)
file(GLOB kernel_headers CONFIGURE_DEPENDS ${kernel_folder}/*.h ${kernel_folder}/*.cuh)
set(kernels_list ${CMAKE_BINARY_DIR}/kernels_list.S)
set(images)
set(text "/* Made by cmake/cuda.cmake. */\n\t.section .rodata\n")
set(table "")
if(TAUT_CUDA STREQUAL "EMULATED")
	string(APPEND text "emulated:\n\t.byte 0\n")
	set(table "\t.quad emulated\n")
	message(STATUS "GPU memory: for the driver without GPUs alone")
elseif(TAUT_CUDA AND NVCC)
	set(codes)
	foreach(arch ${TAUT_CUDA_ARCHS})
		list(APPEND codes -gencode arch=compute_${arch},code=sm_${arch})
		set(last ${arch})
	endforeach()
	list(APPEND codes -gencode arch=compute_${last},code=compute_${last})
	foreach(name ${kernel_names})
		set(image ${CMAKE_BINARY_DIR}/${name}.fatbin)
		add_custom_command(OUTPUT ${image}
			COMMAND ${NVCC} -fatbin -O3 -std=c++17 --threads 3 ${codes} -I${CMAKE_SOURCE_DIR}/src
				-o ${image} ${kernel_folder}/${name}.cu
			DEPENDS ${kernel_folder}/${name}.cu ${kernel_headers} ${CMAKE_SOURCE_DIR}/src/base/half.h
			COMMENT "Compiling kernels ${name}" VERBATIM)
		list(APPEND images ${image})
		string(APPEND text "\t.balign 64\n${name}:\n\t.incbin \"${image}\"\n")
		string(APPEND table "\t.quad ${name}\n")
	endforeach()
	message(STATUS "GPU memory: kernels for sm ${TAUT_CUDA_ARCHS}, by ${NVCC}")
elseif(TAUT_CUDA)
	message(STATUS "GPU memory is left out: no nvcc found (set NVCC, or put it in PATH)")
else()
	message(STATUS "GPU memory is left out: TAUT_CUDA is off")
endif()
file(GENERATE OUTPUT ${kernels_list} CONTENT
"${text}\t.section .data.rel.ro,\"aw\"
\t.balign 8
\t.globl taut_kernels
\t.hidden taut_kernels
taut_kernels:
${table}\t.quad 0
\t.section .note.GNU-stack,\"\",%progbits
")
enable_language(ASM)
set_source_files_properties(${kernels_list} PROPERTIES GENERATED ON OBJECT_DEPENDS "${images}" LANGUAGE ASM)
list(APPEND sources ${kernels_list})

# The same kernels for the processor, a thread for each block: what unit/test_cuda_*.c run.
include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER)
	enable_language(CXX)
	set(emulated ${kernel_folder}/emulate.cc)
	foreach(name ${kernel_names})
		list(APPEND emulated ${kernel_folder}/${name}.cu)
		set_source_files_properties(${kernel_folder}/${name}.cu PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-x;c++")
	endforeach()
	add_library(taut_emulated STATIC EXCLUDE_FROM_ALL ${emulated})
	target_compile_features(taut_emulated PRIVATE cxx_std_17)
	target_compile_definitions(taut_emulated PRIVATE GPU_EMULATE)
	target_compile_options(taut_emulated PRIVATE -Wall -Wextra -Wno-unknown-pragmas)
	target_include_directories(taut_emulated PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
	if(TAUT_SANITIZE)
		target_compile_options(taut_emulated PRIVATE
			$<$<STREQUAL:${TAUT_SANITIZE},address>:-fsanitize=address,undefined>
			$<$<STREQUAL:${TAUT_SANITIZE},thread>:-fsanitize=thread>)
	endif()
endif()
