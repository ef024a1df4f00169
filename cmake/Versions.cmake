# Refuses what is too old for the course, in one sentence with the line that mends it; without these
# checks the reader would see a wall of errors in templates.
#   dist_find(NAME MINIMUM)  find_package(NAME), MINIMUM or newer
set(_minimum_GNU 11)
set(_minimum_Clang 16)
if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS "${_minimum_${CMAKE_CXX_COMPILER_ID}}"
   AND NOT DIST_SANITIZE MATCHES fuzzer)  # older ones can build what is fuzzed
  message(FATAL_ERROR "${CMAKE_CXX_COMPILER} is ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, "
    "but C++20 needs GCC 11, Clang 16 or newer. Type this, with the name of such a compiler:\n"
    "  export CXX=g++-12")
endif()

macro(dist_find name minimum)
  find_package(${name} QUIET)
  if(NOT ${name}_FOUND)
    message(FATAL_ERROR "${name} is not installed. Type this, which shows the line that installs it:\n"
      "  ./learn doctor")
  elseif(${name}_VERSION VERSION_LESS ${minimum})
    string(TOLOWER ${name} _package)
    set(_folder "${${name}_DIR}")
    unset(${name}_DIR CACHE)  # so that the next attempt looks for it again
    message(FATAL_ERROR "${name} ${${name}_VERSION} (${_folder}) is older than ${minimum}. Type this:\n"
      "  conda create --prefix ~/libraries --channel conda-forge ${_package} && "
      "export CMAKE_PREFIX_PATH=~/libraries")
  endif()
endmacro()
