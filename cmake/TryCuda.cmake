# Chooses a CUDA Toolkit in CMake's own order and tries it, because enable_language(CUDA) ends the
# configuration if the toolkit does not work. ./learn doctor runs this file as a script. It sets
#   DIST_NVCC         the toolkit's compiler
#   DIST_CUDA_FAULT   why it cannot be used, and the cure; empty if it can be
#   DIST_CUDA_STATUS  the version and the compiler, or the fault
cmake_minimum_required(VERSION 3.25)  # a script begins without policies
if(NOT CMAKE_CUDA_COMPILER AND "$ENV{CUDACXX}" STREQUAL "")  # searches PATH before PATHS
  find_program(CMAKE_CUDA_COMPILER nvcc PATHS ENV CUDA_PATH ENV CUDA_HOME /usr/local/cuda PATH_SUFFIXES bin NO_CACHE)
endif()
set(DIST_NVCC "${CMAKE_CUDA_COMPILER}")
if(NOT DIST_NVCC)
  set(DIST_NVCC "$ENV{CUDACXX}")
endif()
set(_host ${CMAKE_CUDA_HOST_COMPILER} $ENV{CUDAHOSTCXX})
list(TRANSFORM _host PREPEND -ccbin=)
list(JOIN _host " " _host)
set(_nvcc "${DIST_NVCC} ${CMAKE_CUDA_COMPILER_ARG1} $ENV{CUDAFLAGS} ${_host} -c try.cu")
set(_cxx "${CMAKE_CXX_COMPILER} ${CMAKE_CXX_COMPILER_ARG1} ${CMAKE_CXX_FLAGS} ${CMAKE_EXE_LINKER_FLAGS}")

if(NOT DIST_NVCC)
  set(DIST_CUDA_FAULT "no nvcc was found: put it on PATH or set CUDACXX")
elseif(NOT DIST_CUDA_TRIED STREQUAL "${_nvcc} ${_cxx}")  # once per build folder and toolkit
  set(_folder ${CMAKE_BINARY_DIR}/CMakeFiles/try_cuda)
  file(WRITE ${_folder}/try.cu [[
#include <concepts>
#include <cublas_v2.h>
template <std::floating_point T> __global__ void twice(T* x) { x[threadIdx.x] *= 2; }
int main() {
  twice<<<1, 4>>>(new float[4]);
  return cublasCreate(nullptr);
}
]])
  # As in our targets, nvcc compiles, and the C++ compiler links. --dryrun names nvcc's libraries.
  execute_process(COMMAND sh -ec "export LC_ALL=C
      ${DIST_NVCC} --version
      ${_nvcc} -std=c++20 -o try.o
      folders=$(${_nvcc} --dryrun 2>&1 | grep -o '[-]L/[^\" ]*' | grep -v stubs || true)
      ${_cxx} try.o -o try $folders -lcublas -lcublasLt -lcudart"
    WORKING_DIRECTORY ${_folder} RESULT_VARIABLE _result OUTPUT_VARIABLE _said ERROR_VARIABLE _said)
  string(REGEX MATCH "[^\n]*(error:|fatal|undefined|cannot|not found|denied|exit status)[^\n]*"
    _reason "${_said}\nexit status ${_result}")  # the first line that names an error
  string(REGEX REPLACE "^.*(error|fatal) *: *(#error)?[ -]*|;.*" "" _reason "${_reason}")
  string(SUBSTRING "${_reason}" 0 160 _reason)
  set(DIST_CUDA_FAULT "")
  if(_said MATCHES "release ([0-9.]+)" AND CMAKE_MATCH_1 VERSION_LESS 12.0)  # the first with C++20
    set(DIST_CUDA_FAULT "CUDA ${CMAKE_MATCH_1} (${DIST_NVCC}) is older than 12.0: for GPUs, set CUDACXX to a newer nvcc")
  elseif(NOT _result EQUAL 0)
    set(DIST_CUDA_FAULT "${DIST_NVCC} cannot build a small program (${_reason}): for GPUs, install what it \
lacks, or set CUDACXX to a different nvcc or CUDAHOSTCXX to a C++ compiler that it accepts")
  endif()
  set(DIST_CUDA_STATUS "${CMAKE_MATCH_1} (${DIST_NVCC})")
  set(DIST_CUDA_TRIED "${_nvcc} ${_cxx}" CACHE INTERNAL "")
  set(DIST_CUDA_FAULT "${DIST_CUDA_FAULT}" CACHE INTERNAL "")
endif()

if(NOT DIST_NVCC)
  set(DIST_CUDA_STATUS "not found")
elseif(DIST_CUDA_FAULT)
  set(DIST_CUDA_STATUS "off (built for the CPU), because ${DIST_CUDA_FAULT}, and remove the build folder")
endif()
if(CMAKE_SCRIPT_MODE_FILE)
  message("CUDA: ${DIST_CUDA_STATUS}")
endif()
