# SPDX-License-Identifier: Apache-2.0
# libnccl.so.2: NCCL's interface, for programs that were built for NCCL. In the containers where it takes the place of
# NVIDIA's library it finds libc and nothing more, so it needs nothing more.
set(nccl_map ${CMAKE_SOURCE_DIR}/src/nccl/libnccl.map)
file(GLOB nccl_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/nccl/*.c)

find_library(SODIUM_ARCHIVE libsodium.a HINTS ${SODIUM_LIBDIR})
if(SODIUM_ARCHIVE)
	set(nccl_sodium ${SODIUM_ARCHIVE})
else()
	set(nccl_sodium PkgConfig::SODIUM)
	message(STATUS "libnccl.so.2 will need libsodium.so at run time: libsodium.a was not found (set SODIUM_ARCHIVE)")
endif()
if(NOT EXPAT_ARCHIVE)
	message(STATUS "libnccl.so.2 will need libexpat.so at run time: libexpat.a was not found (set EXPAT_ARCHIVE)")
endif()

# From the archive, of which the linker takes what is reached. topo/machine.c and topo/bind.c, which serve the command
# `taut` and call hwloc, stay out. Were they reached, the link would fail: hwloc is not in the list.
add_library(nccl SHARED ${nccl_sources})
add_dependencies(nccl taut_all)
target_include_directories(nccl PRIVATE src PUBLIC include)
target_link_libraries(nccl PRIVATE taut_flags $<TARGET_FILE:taut_all> Threads::Threads ${nccl_sodium} ${expat} m
	${CMAKE_DL_LIBS})
# -Bsymbolic-functions: in a process that holds NVIDIA's library too, calls from here to here do not end up there.
# nodelete: a thread of ours may run when a program calls dlclose(), as the one that a unique id needs.
target_link_options(nccl PRIVATE LINKER:--version-script=${nccl_map} LINKER:--exclude-libs,ALL LINKER:--as-needed
	LINKER:-Bsymbolic-functions LINKER:-z,nodelete)
if(NOT TAUT_SANITIZE)
	target_link_options(nccl PRIVATE LINKER:-z,defs) # the sanitizers' symbols come from the program
endif()
set_target_properties(nccl PROPERTIES LINK_DEPENDS "${nccl_map};$<TARGET_FILE:taut_all>" VERSION 2.28.9 SOVERSION 2)

# In folders of their own: beside libtaut.so it would be every program's NCCL. Who wants taut's says so, with
# LD_LIBRARY_PATH or LD_PRELOAD, or with -I and -L where a program is built.
install(TARGETS nccl LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/taut COMPONENT runtime
	NAMELINK_COMPONENT development)
install(FILES include/nccl.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/taut COMPONENT development)
