# How tests start ranks.
#
# DIST_MPI_ENVIRONMENT gives CTest the settings of the box "Before you type mpirun" in
# docs/running.md: they allow root in a container and more ranks than cores, make waiting ranks
# yield their core, and silence Open MPI 5's complaints about network interfaces that a single host
# does not need.
set(DIST_MPI_ENVIRONMENT
  OMPI_ALLOW_RUN_AS_ROOT=1
  OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  OMPI_MCA_rmaps_base_oversubscribe=1
  OMPI_MCA_mpi_yield_when_idle=1
  OMPI_MCA_hwloc_base_binding_policy=none
  OMPI_MCA_reachable=weighted
  PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
  PRTE_MCA_hwloc_default_binding_policy=none)
if(DIST_SANITIZE)
  list(APPEND DIST_MPI_ENVIRONMENT
    # Sanitizers are slow, so tests get more time. Sanitizers cannot see the barriers between
    # oneDNN's threads, so each rank computes with one thread.
    TEST_CASE_SECONDS=600 OMP_NUM_THREADS=1
    # Leaks are not checked, since Open MPI unloads its plug-ins too early and is not instrumented.
    ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1
    TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/support/tsan.supp)
endif()

# dist_mpi_test(NAME TARGET RANKS LABEL [ARG...]) runs TARGET on that many ranks.
function(dist_mpi_test name target ranks label)
  add_test(NAME ${name} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks}
    $<TARGET_FILE:${target}> ${ARGN})
  set_tests_properties(${name} PROPERTIES
    LABELS "${label}" ENVIRONMENT "${DIST_MPI_ENVIRONMENT}" TIMEOUT 900 PROCESSORS 2)
endfunction()
