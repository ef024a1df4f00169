# The watch (tools/watch/) in front of MPI: a program that calls MPI_Send finds the watch's, which
# calls PMPI_Send, MPI's own. That takes a place before MPI's library in the list of what a program
# needs, although often nothing but a static library calls it: a linker that is told --as-needed, as
# Debian's is, would drop it.
#
# Whatever links dist_common gets the watch, but for executables with the property
# DIST_WITHOUT_WATCH. -DDIST_WATCH=OFF builds without it.
option(DIST_WATCH "Link programs with the watch: hang report, counts of messages, trace" ON)
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
set(CMAKE_LINK_LIBRARY_USING_in_front_SUPPORTED TRUE)
set(CMAKE_LINK_LIBRARY_USING_in_front
  "LINKER:--push-state,--no-as-needed" "<LINK_ITEM>" "LINKER:--pop-state")
if(DIST_WATCH)
  add_subdirectory(${CMAKE_SOURCE_DIR}/tools/watch ${CMAKE_BINARY_DIR}/tools/watch)
endif()

# dist_add_watch(TARGET) gives the watch to whatever links TARGET, a library.
function(dist_add_watch target)
  if(DIST_WATCH)
    target_link_libraries(${target} INTERFACE
      $<$<NOT:$<BOOL:$<TARGET_PROPERTY:DIST_WITHOUT_WATCH>>>:$<LINK_LIBRARY:in_front,dist_watch>>)
  endif()
endfunction()
