# Flags of every target of ours, as the interface target dist_flags.
#   dist_exact_float_sources(FILE...)  files whose bits are promised: no fused multiply-add but the
#                                      ones that the source writes as std::fma
#   dist_few_units(TARGET...)          compiles the files of a library ten at a time
#   dist_text_sources(FILE...)         files that read flags or write text, full of templates and run
#                                      once: quick to compile rather than quick
set(DIST_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor
  -Wold-style-cast -Woverloaded-virtual)
# nvcc writes C++ of its own around ours; these three fire on that.
set(DIST_CUDA_WARNINGS ${DIST_WARNINGS})
list(REMOVE_ITEM DIST_CUDA_WARNINGS -Wpedantic -Wconversion -Wold-style-cast)

# Every result keeps its bits. But sqrt need not set errno, and nobody traps what an operation raised:
# so the compiler may compute both sides of a choice, several numbers at a time.
set(_options -fno-math-errno -fno-trapping-math)
if(DIST_NATIVE)
  list(APPEND _options -march=native)
endif()
if(DIST_WERROR)
  list(APPEND _options -Werror)
endif()
if(DIST_SANITIZE)
  list(APPEND _options -fsanitize=${DIST_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # which takes variants for uninitialised then
    list(APPEND _options -Wno-maybe-uninitialized)
  endif()
endif()

add_library(dist_flags INTERFACE)
target_include_directories(dist_flags INTERFACE ${CMAKE_SOURCE_DIR})
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
target_compile_definitions(dist_flags INTERFACE
  DIST_WITH_CUDA=${DIST_WITH_CUDA}
  DIST_WITH_NCCL=${DIST_WITH_NCCL}
  DIST_CUDA_EMULATED=${DIST_CUDA_EMULATED}
  DIST_VERSION="${PROJECT_VERSION}"
  OMPI_SKIP_MPICXX)  # the long-dead C++ bindings, which do not compile without warnings

# Most of a file's compile time is its headers. Files with options of their own stay alone.
function(dist_few_units)
  set_target_properties(${ARGN} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 10)
endfunction()

function(dist_text_sources)
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-O0>)
endfunction()

function(dist_exact_float_sources)
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS
    -ffp-contract=off $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false>)
endfunction()
