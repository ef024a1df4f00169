# The tests in Python. Each FOLDER/test_X.py is up to three entries of CTest, by the marks of its tests:
#
#   @pytest.mark.quick    quick.X      (pytestmark = pytest.mark.quick marks all tests of a file)
#   no such mark          X
#   @pytest.mark.long     long.X
#
# ./learn test runs as many entries at a time as there are cores.

# What mostly waits or is a single process counts as half an entry.
set(light kill stop_request output_files dead_ranks ranks_that_differ refusals wrong_messages
  out_of_memory break hang_report stopped_rank start_and_end_of_mpi small_shared_memory slurm
  site report forecast words build_folder check hint_and_progress solution doctor cuda_toolkit
  read_only_and_full_disks compile_errors judge small_tasks tables drawing
  order page_size passages quotes flags ci repository quizzes)
# What measures times runs alone.
set(alone no_hang slow_rank overlap pretended_link bench leftovers)
# What uses the build folder does so one at a time, and begins first. One that had to wait would say so.
set(building words mine readmes)

# The labels of a folder's entries, if they are not its name, and more labels of some.
foreach(n 01_send_recv 02_broadcast 03_all_reduce 04_distributed_sampler 05_ddp_training)
  string(SUBSTRING ${n} 0 2 number)
  set(labels_of_${n} lesson${number})
endforeach()
set(labels_of_learn learn course)  # what ./learn runs and the pages are the same in every build
set(labels_of_pages pages course)
set(gpu_too gpu cuda_graph gpu_features gpt_on_gpus stopped_rank)
set(readme_too readmes)
set(quiz_too quizzes)

# tiers_of(FILE RESULT): which of quick, others and long this file has, by its marks.
function(tiers_of file result)
  file(STRINGS ${file} marks REGEX "pytest\\.mark\\.(quick|long)")
  set(tiers others)
  foreach(tier quick long)
    if(marks MATCHES "pytestmark.*mark\\.${tier}")
      set(tiers ${tier})
    elseif(marks MATCHES "mark\\.${tier}")
      list(APPEND tiers ${tier})
    endif()
  endforeach()
  set(${result} ${tiers} PARENT_SCOPE)
endfunction()

# add_entry(NAME FILE PYTEST_FLAGS LABELS): one entry, which runs what the flags select.
find_program(PYTEST NAMES pytest-3 pytest py.test-3)
function(add_entry name file flags labels)
  set(command ${PYTEST} -q -rs -p no:cacheprovider ${CMAKE_CURRENT_SOURCE_DIR}/${file} ${flags})
  if(NOT PYTEST)
    set(command sh -c "echo 'pytest is not installed (Debian: python3-pytest)'; exit 1")
  endif()
  add_test(NAME ${name} COMMAND ${command})
  # An entry is skipped if all of its tests are, or if there are none (5), as in a file whose tests all
  # have a mark. A reader's compiler cache must not change what a test sees.
  set_tests_properties(${name} PROPERTIES
    LABELS "${labels}" TIMEOUT 1500 PROCESSORS 2
    SKIP_REGULAR_EXPRESSION "\n[0-9]+ skipped" SKIP_RETURN_CODE 5
    ENVIRONMENT "${DIST_MPI_ENVIRONMENT};DIST_BUILD=${CMAKE_BINARY_DIR};PYTHONDONTWRITEBYTECODE=1"
    ENVIRONMENT_MODIFICATION CMAKE_CXX_COMPILER_LAUNCHER=unset:)
  string(REGEX REPLACE ".*/test_(.*)\\.py" "\\1" its ${file})
  if(its IN_LIST light)
    set_tests_properties(${name} PROPERTIES PROCESSORS 1)
  endif()
  if(its IN_LIST alone)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
  if(its IN_LIST building)
    set_tests_properties(${name} PROPERTIES RESOURCE_LOCK build COST 1000)
  endif()
endfunction()

file(GLOB files RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS */test_*.py)
foreach(its IN LISTS light alone building)
  if(NOT "${files}" MATCHES "/test_${its}\\.py")
    message(FATAL_ERROR "there is no test_${its}.py, which is listed above")
  endif()
endforeach()
foreach(file IN LISTS files)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})  # for its marks
  string(REGEX MATCH "^(.*)/test_(.*)\\.py$" _ ${file})
  set(folder ${CMAKE_MATCH_1})
  set(its ${CMAKE_MATCH_2})
  set(labels ${folder})
  if(labels_of_${folder})
    set(labels ${labels_of_${folder}})
  endif()
  foreach(label gpu readme quiz)
    if(its IN_LIST ${label}_too)
      list(APPEND labels ${label})
    endif()
  endforeach()
  tiers_of(${file} tiers)
  foreach(tier IN LISTS tiers)
    if(tier STREQUAL others)
      add_entry(${its} ${file} "-m;not quick and not long" "${labels}")
    else()
      add_entry(${tier}.${its} ${file} "-m;${tier}" "${labels};${tier}")
    endif()
  endforeach()
endforeach()

if(DIST_CUDA_EMULATED)
  add_entry(hosts.gpu hosts/test_hosts_that_differ.py "-k;gpu" hosts)  # some hosts have GPUs
  add_entry(break.gpu learn/test_break.py "-k;gpu and not long" experiments)
endif()
