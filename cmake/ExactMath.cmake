# Refuses compilers that were told to break the rules of floating-point arithmetic, by -ffast-math in
# CXXFLAGS or LDFLAGS, for example. NaN would pass every check, and bits would not be those that
# the course promises. Which flags do so depends on the compiler and on their order, so a small
# program is tried with the whole command line that our files get, once for each such line.
separate_arguments(_shared UNIX_COMMAND "${CMAKE_SHARED_LINKER_FLAGS}")
string(TOUPPER "${CMAKE_BUILD_TYPE}" _config)
set(_program ${CMAKE_CURRENT_LIST_DIR}/exact_math.cpp)
set(_folder ${CMAKE_BINARY_DIR}/CMakeFiles/exact_math)
set(_wrong "")

set(_line "${CMAKE_CXX_COMPILER} ${CMAKE_CXX_COMPILER_ARG1} ${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${_config}} \
${_options} ${CMAKE_EXE_LINKER_FLAGS} ${_shared}")
if(NOT CMAKE_CROSSCOMPILING AND NOT DIST_EXACT_MATH STREQUAL _line)
  set(CMAKE_TRY_COMPILE_CONFIGURATION ${CMAKE_BUILD_TYPE})
  set(_tried ${_options})
  list(FILTER _tried EXCLUDE REGEX sanitize)  # these change no number, and need options to link
  try_run(_broken _compiled ${_folder} ${_program} COMPILE_DEFINITIONS ${_tried} LINK_OPTIONS ${_shared}
    COMPILE_OUTPUT_VARIABLE _said RUN_OUTPUT_VARIABLE _wrong)
  if(NOT _compiled)
    message(FATAL_ERROR "A small program cannot be compiled with the flags of this course's files:\n${_said}")
  endif()
  if(NOT _wrong AND NOT _broken EQUAL 0)
    message(FATAL_ERROR "A small program, compiled with the flags of this course's files, does not run here: ${_broken}")
  endif()
  unset(_compiled CACHE)
  unset(_broken CACHE)
  set(_flags "CXXFLAGS, LDFLAGS or CMAKE_CXX_FLAGS")
endif()

# nvcc keeps the rules unless flags say otherwise.
set(_cuda_flags "${CMAKE_CUDA_FLAGS} $ENV{NVCC_PREPEND_FLAGS} $ENV{NVCC_APPEND_FLAGS}")
if(NOT _wrong AND DIST_WITH_CUDA AND NOT DIST_CUDA_EMULATED AND _cuda_flags MATCHES "-")
  file(MAKE_DIRECTORY ${_folder})
  execute_process(COMMAND sh -ec "
      nvcc='${CMAKE_CUDA_COMPILER} ${CMAKE_CUDA_FLAGS} ${CMAKE_CUDA_FLAGS_${_config}} -std=c++20 -x cu ${_program}'
      $nvcc -ptx -o gpu.ptx
      if grep -qE 'approx|full|ftz' gpu.ptx; then printf 'rounds quotients, roots or small numbers wrongly on GPUs'; fi
      $nvcc -o host && ./host"
    WORKING_DIRECTORY ${_folder} RESULT_VARIABLE _broken OUTPUT_VARIABLE _wrong ERROR_VARIABLE _said)
  if(NOT _wrong AND NOT _broken EQUAL 0)
    message(FATAL_ERROR "A small program cannot be compiled by nvcc with your flags, or does not run:\n${_said}")
  endif()
  set(_flags "CUDAFLAGS, NVCC_APPEND_FLAGS or CMAKE_CUDA_FLAGS")
endif()

if(_wrong)
  message(FATAL_ERROR "Code that is compiled with these flags ${_wrong}: remove -ffast-math and the like from ${_flags} "
    "(or add -fno-fast-math behind them), remove the build folder ${CMAKE_BINARY_DIR}, and configure again")
endif()
set(DIST_EXACT_MATH "${_line}" CACHE INTERNAL "")
