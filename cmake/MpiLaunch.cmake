# How tests start ranks.
#
# DIST_MPI_ENVIRONMENT gives CTest the settings of tools/learn/mpi.env.
file(STRINGS ${CMAKE_SOURCE_DIR}/tools/learn/mpi.env DIST_MPI_ENVIRONMENT REGEX "^[A-Z]")
set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  tools/learn/mpi.env)
if(DIST_SANITIZE)
  list(APPEND DIST_MPI_ENVIRONMENT
    # Sanitizers are slow, so tests get more time. Sanitizers cannot see the barriers between
    # oneDNN's threads, so each rank computes with one thread.
    OMP_NUM_THREADS=1
    # Leaks are not checked, since Open MPI unloads its plug-ins too early and is not instrumented.
    ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1
    TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/support/tsan.supp)
endif()

# dist_mpi_test(NAME TARGET RANKS LABEL [ARG...]) runs TARGET on that many ranks.
function(dist_mpi_test name target ranks label)
  add_test(NAME ${name} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks}
    $<TARGET_FILE:${target}> ${ARGN})
  set_tests_properties(${name} PROPERTIES
    LABELS "${label}" ENVIRONMENT "${DIST_MPI_ENVIRONMENT}" TIMEOUT 1800 PROCESSORS 2)
endfunction()
