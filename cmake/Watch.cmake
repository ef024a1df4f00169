# Links the watch (tools/watch/) in front of MPI: a program that calls MPI_Send reaches the watch's
# function, which calls PMPI_Send, MPI's own function. For this to work, the watch must come before
# MPI in the list of libraries that the program needs. Often only a static library calls the watch,
# and a linker with --as-needed (Debian's default) would then drop it.
#
# Whatever links dist_common gets the watch, except executables with the property
# DIST_WITHOUT_WATCH. They also get the library that ends a rank which has run out of memory
# (tools/memory/), except those with DIST_WITHOUT_WATCH or DIST_RUNS_READERS_CODE. -DDIST_WATCH=OFF
# builds without both, and builds with sanitizers, which have an allocator of their own, lack the latter.
option(DIST_WATCH "Link programs with the watch: hang report, counts of messages, trace" ON)
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
set(CMAKE_LINK_LIBRARY_USING_in_front_SUPPORTED TRUE)
set(CMAKE_LINK_LIBRARY_USING_in_front
  "LINKER:--push-state,--no-as-needed" "<LINK_ITEM>" "LINKER:--pop-state")
if(DIST_WATCH)
  add_subdirectory(${CMAKE_SOURCE_DIR}/tools/watch ${CMAKE_BINARY_DIR}/tools/watch)
  if(NOT DIST_SANITIZE)  # sanitizers replace the allocator themselves
    add_subdirectory(${CMAKE_SOURCE_DIR}/tools/memory ${CMAKE_BINARY_DIR}/tools/memory)
  endif()
endif()

# dist_add_watch(TARGET) gives the watch to whatever links TARGET, a library.
function(dist_add_watch target)
  if(DIST_WATCH)
    target_link_libraries(${target} INTERFACE
      $<$<NOT:$<BOOL:$<TARGET_PROPERTY:DIST_WITHOUT_WATCH>>>:$<LINK_LIBRARY:in_front,dist_watch>>)
  endif()
  if(TARGET dist_memory)
    set(none $<OR:$<BOOL:$<TARGET_PROPERTY:DIST_WITHOUT_WATCH>>,$<BOOL:$<TARGET_PROPERTY:DIST_RUNS_READERS_CODE>>>)
    target_link_libraries(${target} INTERFACE
      $<$<NOT:${none}>:$<LINK_LIBRARY:in_front,dist_memory>>)
  endif()
endfunction()
