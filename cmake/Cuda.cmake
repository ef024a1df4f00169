# Finds the CUDA Toolkit and NCCL, before any target exists, and reports what was found.
#
# Sets DIST_WITH_CUDA and DIST_WITH_NCCL (0 or 1) and defines
#   dist_device_sources(FILE...)  the files that nvcc compiles in a CUDA build; call it in the
#                                 CMakeLists.txt that owns them: source properties are per folder
set(DIST_WITH_CUDA 0)
set(DIST_WITH_NCCL 0)
set(DIST_CUDA_STATUS "off")
set(DIST_NCCL_STATUS "off")

set(DIST_CUDA_EMULATED 0)
if(DIST_CUDA STREQUAL "EMULATED")
  # tests/emulation/ replaces the toolkit, so that the CUDA and NCCL code runs on the CPU.
  set(DIST_WITH_CUDA 1)
  set(DIST_WITH_NCCL 1)
  set(DIST_CUDA_EMULATED 1)
  set(DIST_CUDA_STATUS "emulated")
  set(DIST_NCCL_STATUS "emulated")
elseif(NOT DIST_CUDA STREQUAL "OFF")
  # The architectures are fixed, because "native" fails without a GPU. Newer cards run the PTX of
  # the newest architecture listed.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 75 80 90)
  endif()
  # To find nvcc, check_language would configure a separate project, which takes several seconds.
  find_program(DIST_NVCC nvcc HINTS ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
  if(CMAKE_CUDA_COMPILER OR DIST_NVCC OR DEFINED ENV{CUDACXX})
    if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
      set(CMAKE_CUDA_COMPILER ${DIST_NVCC})
    endif()
    enable_language(CUDA)
    # CMake 3.25.1 is unaware that nvcc supports C++20.
    if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    find_package(CUDAToolkit REQUIRED)
    find_package(NCCL 2.18 QUIET)
    set(DIST_WITH_CUDA 1)
    set(DIST_CUDA_STATUS "${CUDAToolkit_VERSION}")
    set(DIST_NCCL_STATUS "not found")
    if(NCCL_FOUND)
      set(DIST_WITH_NCCL 1)
      set(DIST_NCCL_STATUS "${NCCL_VERSION}")
    endif()
  elseif(DIST_CUDA STREQUAL "ON")
    message(FATAL_ERROR "DIST_CUDA=ON, but no CUDA compiler was found: put nvcc on PATH or set CUDACXX")
  else()
    set(DIST_CUDA_STATUS "not found")
  endif()
endif()

function(dist_device_sources)
  if(DIST_WITH_CUDA AND NOT DIST_CUDA_EMULATED)
    set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CUDA)
  endif()
endfunction()
