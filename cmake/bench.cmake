# SPDX-License-Identifier: Apache-2.0
# bench/NAME_bench.c: programs that measure one room; built with the tests so that they stay
# alive, run by hand.
file(GLOB benches CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/bench/*_bench.c)
foreach(file ${benches})
	get_filename_component(name ${file} NAME_WE)
	add_executable(${name} ${file})
	target_link_libraries(${name} PRIVATE taut_all)
endforeach()
# Its yardstick is the obvious loop, compiled for this processor.
if(TARGET reduce_bench AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
	target_compile_options(reduce_bench PRIVATE -O3 -march=native -mprefer-vector-width=512)
endif()
