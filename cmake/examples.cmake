# SPDX-License-Identifier: Apache-2.0
# examples/*.c, built against libtaut.so as a user would, each run as a test with two ranks.
if(TARGET taut)
	file(GLOB examples CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/examples/*.c)
	foreach(file ${examples})
		get_filename_component(name ${file} NAME_WE)
		add_executable(example_${name} ${file})
		target_link_libraries(example_${name} PRIVATE taut_flags taut_lib)
		add_test(NAME example/${name} COMMAND taut run -n 2 $<TARGET_FILE:example_${name}>)
		set_tests_properties(example/${name} PROPERTIES LABELS example TIMEOUT ${unit_timeout}
			ENVIRONMENT "${test_cache}")
	endforeach()
endif()
