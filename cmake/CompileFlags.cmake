# The flags of all our targets, as the interface target dist_flags.
#   dist_exact_float_sources(FILE...)  files whose results are promised to the bit: no fused
#                                      multiply-add except std::fma in the source
#   dist_few_units(TARGET...)          compiles the files of a target fifteen at a time
#   dist_quick_build(LIBRARY)          a library without hot loops, compiled in one go at -O1: fast to
#                                      build rather than fast code
set(DIST_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor
  -Wold-style-cast -Woverloaded-virtual -Wundef -Werror=switch)
# The C++ code that nvcc generates around ours triggers these four warnings.
set(DIST_CUDA_WARNINGS ${DIST_WARNINGS})
list(REMOVE_ITEM DIST_CUDA_WARNINGS -Wpedantic -Wconversion -Wold-style-cast -Wundef)

# These flags change no result. They tell the compiler that sqrt need not set errno and that
# floating-point exceptions are not trapped, so it may compute both sides of a branch and thus
# vectorise it.
set(_options -fno-math-errno -fno-trapping-math)
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-march=native DIST_HAS_NATIVE)  # not in cross compilers
if(DIST_NATIVE AND DIST_HAS_NATIVE)
  list(APPEND _options -march=native)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")  # which reports a loop under omp simd that it leaves scalar
  list(APPEND _options -Wno-pass-failed)
endif()
if(DIST_WERROR)
  list(APPEND _options -Werror)
endif()
# Where somebody looks, a file that forgets to include common/build_config.hpp must not be compiled as
# if its macros were 0.
if(DIST_WERROR OR DIST_SANITIZE OR DIST_CUDA_EMULATED)
  list(APPEND DIST_WARNINGS -Werror=undef)
endif()
if(DIST_SANITIZE)
  list(APPEND _options -fsanitize=${DIST_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # which then reports std::variant as uninitialised
    list(APPEND _options -Wno-maybe-uninitialized)
  endif()
endif()

include(ExactMath)

add_library(dist_flags INTERFACE)
configure_file(${CMAKE_SOURCE_DIR}/common/build_config.hpp.in
  ${CMAKE_BINARY_DIR}/generated/common/build_config.hpp @ONLY)
target_include_directories(dist_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
target_compile_options(dist_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:${DIST_WARNINGS};${_options}>)
if(DIST_WITH_CUDA AND NOT DIST_CUDA_EMULATED)
  list(JOIN DIST_CUDA_WARNINGS "," _host_warnings)
  list(JOIN _options "," _host_options)
  target_compile_options(dist_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-Xcompiler=${_host_warnings},${_host_options},-fopenmp>)
endif()
if(DIST_SANITIZE)
  target_link_options(dist_flags INTERFACE -fsanitize=${DIST_SANITIZE})
endif()
# MPI's C++ bindings were removed long ago, and cause warnings.
target_compile_definitions(dist_flags INTERFACE OMPI_SKIP_MPICXX)

# Headers take most of a file's compile time, so fifteen files are compiled together and share
# them. Files with their own options are compiled separately.
function(dist_few_units)
  set_target_properties(${ARGN} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 15)
endfunction()

function(dist_quick_build library)
  set_target_properties(${library} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  target_compile_options(${library} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

function(dist_exact_float_sources)
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS
    -ffp-contract=off $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false>)
endfunction()
