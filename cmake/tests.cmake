# SPDX-License-Identifier: Apache-2.0
# Unit tests: tests/unit/test_*.c, cmocka, one program each. Process tests: tests/integ/*.c,
# programs that exit 0, 1, or 77 with the reason why they were skipped.
set(patience 1) # of the timeouts
if(TAUT_SANITIZE)
	set(patience 5)
endif()
math(EXPR unit_timeout "60 * ${patience}")
math(EXPR integ_timeout "120 * ${patience}")

pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
file(GLOB unit_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/unit/test_*.c)
foreach(file ${unit_tests})
	get_filename_component(name ${file} NAME_WE)
	add_executable(${name} ${file})
	target_link_libraries(${name} PRIVATE taut_all PkgConfig::CMOCKA)
	add_test(NAME unit/${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
	set_tests_properties(unit/${name} PROPERTIES LABELS unit TIMEOUT ${unit_timeout})
endforeach()
file(GLOB integ_tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/integ/*.c)
foreach(file ${integ_tests})
	get_filename_component(name ${file} NAME_WE)
	add_executable(integ_${name} ${file})
	target_link_libraries(integ_${name} PRIVATE taut_all)
	add_test(NAME integ/${name} COMMAND integ_${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
	set_tests_properties(integ/${name} PROPERTIES LABELS integ TIMEOUT ${integ_timeout} SKIP_RETURN_CODE 77)
	if(TARGET taut) # for tests that start the command
		add_dependencies(integ_${name} taut)
		set_tests_properties(integ/${name} PROPERTIES ENVIRONMENT "TAUT_TEST_COMMAND=$<TARGET_FILE:taut>")
	endif()
endforeach()
