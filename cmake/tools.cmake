# SPDX-License-Identifier: Apache-2.0
file(GLOB tool_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/*.c)
if(tool_sources)
	add_executable(taut ${tool_sources})
	target_link_libraries(taut PRIVATE taut_all)
	target_include_directories(taut PRIVATE ${CMAKE_SOURCE_DIR}/tools)
endif()
