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
  include(TryCuda)        # defines: DIST_CUDA_FAULT, DIST_CUDA_STATUS
  if(DIST_CUDA_FAULT AND DIST_CUDA STREQUAL "ON")
    message(FATAL_ERROR "DIST_CUDA=ON, but ${DIST_CUDA_FAULT}")
  elseif(NOT DIST_CUDA_FAULT)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT "$ENV{CUDAARCHS}" STREQUAL "")
      # CMake's own variable, which later configurations need not see.
      set(CMAKE_CUDA_ARCHITECTURES "$ENV{CUDAARCHS}" CACHE STRING "GPUs to compile for")
    elseif(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      # Newer cards run the PTX of the newest architecture listed.
      set(CMAKE_CUDA_ARCHITECTURES 75 80 90)
      # Code for the cards of this machine alone compiles in less time. ("native" would fail without
      # a card.) The PTX is for other cards, on which the same build may run.
      execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                      OUTPUT_VARIABLE cards ERROR_QUIET)
      execute_process(COMMAND ${DIST_NVCC} --list-gpu-code
                      OUTPUT_VARIABLE known ERROR_QUIET)
      string(REGEX MATCHALL "[0-9]+\\.[0-9]" cards "${cards}")
      list(TRANSFORM cards REPLACE "\\." "")
      list(REMOVE_DUPLICATES cards)
      string(REGEX MATCHALL "[0-9]+" known "${known}")
      set(unknown ${cards})
      list(REMOVE_ITEM unknown ${known} "")
      if(cards AND NOT unknown)
        list(TRANSFORM cards APPEND "-real" OUTPUT_VARIABLE CMAKE_CUDA_ARCHITECTURES)
        list(APPEND CMAKE_CUDA_ARCHITECTURES 75-virtual)
      endif()
    endif()
    # The trial has shown that the compiler works. CMake's own test would compile once more, and
    # note the folders of nvcc's host compiler, which may be older than the C++ compiler, to put
    # them in front of the C++ compiler's own libraries. The C++ compiler links everything.
    set(CMAKE_CUDA_COMPILER_FORCED TRUE)
    enable_language(CUDA)
    set(CMAKE_CUDA_IMPLICIT_INCLUDE_DIRECTORIES ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES})
    set(CMAKE_CUDA_RUNTIME_LIBRARY None)  # CUDA::cudart is linked like any library
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
    set(DIST_CUDA_STATUS "${CUDAToolkit_VERSION} (${CMAKE_CUDA_COMPILER})")
    set(DIST_NCCL_STATUS "not found")
    if(NCCL_FOUND)
      set(DIST_WITH_NCCL 1)
      set(DIST_NCCL_STATUS "${NCCL_VERSION}")
    endif()
  endif()
endif()
set(DIST_CUDA_STATUS "${DIST_CUDA_STATUS}" CACHE INTERNAL "")  # for ./learn doctor

function(dist_device_sources)
  if(DIST_WITH_CUDA AND NOT DIST_CUDA_EMULATED)
    set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CUDA)
  endif()
endfunction()
