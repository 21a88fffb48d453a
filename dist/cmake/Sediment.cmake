# SPDX-License-Identifier: MIT OR Apache-2.0
#
# sediment_order(TARGET PROFILE) links a program or shared library in the order of a profile:
#
#   include(Sediment)
#   add_executable(prog main.c)
#   sediment_order(prog ${CMAKE_CURRENT_SOURCE_DIR}/prog.gv)
#
# Functions get sections of their own, and the link goes through `sediment wrapper`. Without sediment, or without the profile, the target
# is linked as usual. After a change of the profile it is linked again. Needs CMake 3.13, and GCC or clang.

include_guard()

find_program(SEDIMENT_PROGRAM sediment DOC "sediment, which orders functions")

function(sediment_order target profile)
  get_filename_component(profile "${profile}" ABSOLUTE)
  target_compile_options(${target} PRIVATE -ffunction-sections)
  if(NOT SEDIMENT_PROGRAM)
    message(STATUS "sediment is not installed: ${target} is not ordered")
    return()
  endif()
  if(NOT EXISTS "${profile}")
    message(STATUS "no profile ${profile}: ${target} is not ordered")
    return()
  endif()
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${target}.sediment")
  execute_process(
    COMMAND "${SEDIMENT_PROGRAM}" wrapper "${folder}" --profiles "${profile}"
    RESULT_VARIABLE failed ERROR_VARIABLE said)
  if(failed)
    message(WARNING "${target} is not ordered:\n${said}")
    return()
  endif()
  # With link-time optimisation functions get their sections at the link.
  target_link_options(${target} PRIVATE "-B${folder}" -ffunction-sections)
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${profile}")
endfunction()
