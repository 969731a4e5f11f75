# SPDX-License-Identifier: Apache-2.0
# libtaut.so (and libtaut.a when asked for), and what `cmake --install` lays down.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

option(TAUT_STATIC "build and install libtaut.a too" OFF)

# jansson is not among these: a user of the library must not need it at run time.
set(map ${CMAKE_SOURCE_DIR}/src/libtaut.map)
add_library(taut_lib SHARED $<TARGET_OBJECTS:taut_objects>)
# expat lies inside where its archive is there: one library less to find at run time.
find_library(EXPAT_ARCHIVE libexpat.a)
if(EXPAT_ARCHIVE)
	set(expat ${EXPAT_ARCHIVE})
else()
	set(expat PkgConfig::EXPAT)
endif()
target_link_libraries(taut_lib PRIVATE taut_flags Threads::Threads PkgConfig::SODIUM PkgConfig::HWLOC ${expat} m
	${CMAKE_DL_LIBS})
target_link_options(taut_lib PRIVATE LINKER:--version-script=${map} LINKER:--as-needed)
if(NOT TAUT_SANITIZE)
	target_link_options(taut_lib PRIVATE LINKER:-z,defs) # the sanitizers' symbols come from the program
endif()
set_target_properties(taut_lib PROPERTIES OUTPUT_NAME taut EXPORT_NAME taut LINK_DEPENDS ${map}
	VERSION ${PROJECT_VERSION} SOVERSION 0)
target_include_directories(taut_lib INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>
	$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
add_library(taut::taut ALIAS taut_lib)

install(TARGETS taut_lib EXPORT tautTargets
	LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development)

# One object in which the library's own names are local: they cannot clash with a program's.
if(TAUT_STATIC)
	set(whole ${CMAKE_BINARY_DIR}/libtaut_whole.o)
	add_custom_command(OUTPUT ${whole}
		COMMAND ${CMAKE_C_COMPILER} -r -nostdlib -o ${whole} $<TARGET_OBJECTS:taut_objects>
		COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${whole}
		DEPENDS taut_objects $<TARGET_OBJECTS:taut_objects> COMMAND_EXPAND_LISTS VERBATIM)
	add_library(taut_static STATIC ${whole})
	set_target_properties(taut_static PROPERTIES OUTPUT_NAME taut LINKER_LANGUAGE C)
	install(TARGETS taut_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
endif()

install(DIRECTORY include/taut DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development FILES_MATCHING PATTERN *.h)
if(TARGET taut)
	install(TARGETS taut RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
endif()
foreach(section 1 3 7)
	file(GLOB pages CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/man/*.${section})
	install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} COMPONENT doc)
endforeach()

# The prefix is found from where taut.pc lies, so that `cmake --install --prefix` may choose it.
file(RELATIVE_PATH taut_pc_up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/taut.pc.in taut.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/taut.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/taut)
write_basic_package_version_file(tautConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT tautTargets NAMESPACE taut:: DESTINATION ${package_dir} COMPONENT development)
install(FILES cmake/tautConfig.cmake ${CMAKE_BINARY_DIR}/tautConfigVersion.cmake DESTINATION ${package_dir}
	COMPONENT development)
