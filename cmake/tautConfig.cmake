# SPDX-License-Identifier: Apache-2.0
# find_package(taut) gives the target taut::taut.
include(${CMAKE_CURRENT_LIST_DIR}/tautTargets.cmake)
