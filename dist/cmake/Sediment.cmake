# SPDX-License-Identifier: MIT OR Apache-2.0
#
# sediment_order(TARGET PROFILE) links a program or shared library in the order of a profile:
#
#   include(Sediment)
#   add_executable(prog main.c)
#   sediment_order(prog ${CMAKE_CURRENT_SOURCE_DIR}/prog.gv)
#
# Each function is compiled to a separate section, and `sediment wrapper` runs the linker. If sediment or the profile is missing, the target is
# linked as usual. A changed profile causes a new link. Needs CMake 3.13, and GCC or clang.

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
  # With link-time optimisation, functions get their sections at the link, so the link needs the flag too.
  target_link_options(${target} PRIVATE "-B${folder}" -ffunction-sections)
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${profile}")
endfunction()
