# Chooses a CUDA Toolkit in CMake's own order and tries it, because enable_language(CUDA) ends the
# configuration if the toolkit does not work. Cuda.cmake includes this file, and `./learn doctor`
# runs it as a script. Sets
#   DIST_NVCC         the toolkit's compiler; false if there is none
#   DIST_CUDA_FAULT   why it cannot be used, and the cure; empty if it can be
#   DIST_CUDA_STATUS  the version and the compiler, or the fault
cmake_minimum_required(VERSION 3.25)  # a script begins without policies
set(_host "${CMAKE_CUDA_HOST_COMPILER}")
if(NOT _host)
  set(_host "$ENV{CUDAHOSTCXX}")
endif()
if(CMAKE_CUDA_COMPILER)
  set(DIST_NVCC "${CMAKE_CUDA_COMPILER}")
elseif(NOT "$ENV{CUDACXX}" STREQUAL "")
  get_filename_component(DIST_NVCC "$ENV{CUDACXX}" PROGRAM PROGRAM_ARGS CMAKE_CUDA_COMPILER_ARG1)
  if(NOT DIST_NVCC)
    set(DIST_NVCC "$ENV{CUDACXX}")
  endif()
else()  # searches PATH before PATHS
  find_program(DIST_NVCC nvcc PATHS ENV CUDA_PATH ENV CUDA_HOME /usr/local/cuda PATH_SUFFIXES bin NO_CACHE)
endif()

# Runs a command, unless there is a fault. If it fails, the first line that names an error is the
# fault; if no line does, the first line.
function(_try)
  if(DIST_CUDA_FAULT)
    return()
  endif()
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${_folder}
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  set(_output "${output}" PARENT_SCOPE)
  if(NOT status STREQUAL "0")
    if(output MATCHES "[^\n]*(error:|fatal|undefined|cannot|not found)[^\n]*")
      set(status "${CMAKE_MATCH_0}")
    elseif(output MATCHES "[^\n]+")
      set(status "${CMAKE_MATCH_0}")
    elseif(status MATCHES "^[0-9]+$")
      set(status "exit status ${status}")
    endif()
    string(REGEX REPLACE "^.*(error|fatal) *: *(#error)?[ -]*|;.*" "" status "${status}")
    string(SUBSTRING "${status}" 0 160 status)
    set(DIST_CUDA_FAULT "${DIST_NVCC} cannot build a small program (${status}): for GPUs, set \
CUDACXX to a different nvcc or CUDAHOSTCXX to a C++ compiler that it accepts" PARENT_SCOPE)
  endif()
endfunction()

set(_tried "${DIST_NVCC} ${_host} ${CMAKE_CXX_COMPILER}")
if(DIST_NVCC AND NOT _tried STREQUAL "${DIST_CUDA_TRIED}")  # once per build folder and toolkit
  set(DIST_CUDA_FAULT "")
  set(_folder ${CMAKE_BINARY_DIR}/CMakeFiles/try_cuda)
  file(REMOVE_RECURSE ${_folder})
  # As in our targets, nvcc compiles the kernel, and the C++ compiler compiles the calls of cuBLAS
  # and links.
  file(WRITE ${_folder}/kernel.cu [[
#include <concepts>
#include <vector>
template <std::floating_point T> __global__ void twice(T* x) { x[threadIdx.x] *= 2; }
void launch(std::vector<float*> x) { twice<<<1, 4>>>(x.at(0)); }
]])
  file(WRITE ${_folder}/calls.cpp [[
#include <cublasLt.h>
#include <cublas_v2.h>
#include <vector>
void launch(std::vector<float*> x);
int main() {
  cublasHandle_t handle{};
  cublasLtHandle_t lt{};
  launch(std::vector<float*>(cublasCreate(&handle) + cublasLtCreate(&lt)));
}
]])
  _try(${DIST_NVCC} --version)
  string(REGEX MATCH "release [0-9.]+" _release "${_output}")
  string(REPLACE "release " "" _release "${_release}")
  if(_release AND _release VERSION_LESS 12.0)  # the first version with C++20
    set(DIST_CUDA_FAULT "CUDA ${_release} (${DIST_NVCC}) is older than 12.0: for GPUs, set CUDACXX to a newer nvcc")
  endif()
  separate_arguments(_nvcc UNIX_COMMAND "${CMAKE_CUDA_COMPILER_ARG1} $ENV{CUDAFLAGS}")
  list(PREPEND _nvcc ${DIST_NVCC})
  if(_host)
    list(APPEND _nvcc -ccbin ${_host})
  endif()
  _try(${_nvcc} --dryrun -c kernel.cu)
  string(REGEX MATCHALL "-[IL]/[^\" ]+" _folders "${_output}")
  _try(${_nvcc} -std=c++20 -c kernel.cu -o kernel.o)
  separate_arguments(_flags UNIX_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_EXE_LINKER_FLAGS}")
  _try(${CMAKE_CXX_COMPILER} ${CMAKE_CXX_COMPILER_ARG1} ${_flags} calls.cpp kernel.o -o try ${_folders}
    -lcublas -lcublasLt -lcudart)
  if(DIST_CUDA_FAULT)
    string(APPEND DIST_CUDA_FAULT " and remove the build folder")
  endif()
  set(DIST_CUDA_TRIED "${_tried}" CACHE INTERNAL "")
  set(DIST_CUDA_RELEASE "${_release}" CACHE INTERNAL "")
  set(DIST_CUDA_FAULT "${DIST_CUDA_FAULT}" CACHE INTERNAL "")
endif()

if(NOT DIST_NVCC)
  set(DIST_CUDA_STATUS "not found")
elseif(DIST_CUDA_FAULT)
  set(DIST_CUDA_STATUS "off (built for the CPU), because ${DIST_CUDA_FAULT}")
else()
  set(DIST_CUDA_STATUS "${DIST_CUDA_RELEASE} (${DIST_NVCC})")
endif()
if(CMAKE_SCRIPT_MODE_FILE)
  message("CUDA: ${DIST_CUDA_STATUS}")
endif()
