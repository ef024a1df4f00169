# ./learn mine: the trainer made of the reader's own exercises. Sourced by learn, whose functions it
# uses.
trainer_parts=("1 ring_shift" "2 tree_broadcast" "3 ring_all_reduce" "4 my_indices"
  "5 sync_gradients")

# count_parts: prints how many of the trainer's parts are done.
count_parts() {
  local lesson name count=0
  while read -r lesson name; do
    if is_done "$(lesson_number "$lesson")/$name"; then count=$((count + 1)); fi
  done < <(printf '%s\n' "${trainer_parts[@]}")
  echo "$count"
}

# Checks each written part first, on as many ranks as will train, because a wrong part could hang.
run_mine() {
  local ranks=4 part lesson name answer status
  if [ "${1:-}" = -n ]; then ranks=${2:-}; fi
  set_mpi_environment
  for part in "${trainer_parts[@]}"; do
    [[ $ranks =~ ^[1-9][0-9]?$ ]] || break  # run_program says what is wrong with it
    read -r lesson name <<<"$part"
    status=0
    answer=$(EXERCISE_RANKS=$ranks check_exercise "$lesson" "$name" base) || status=$?
    [ "$status" -ne 2 ] || exit 2
    if [ "$status" -eq 0 ] || [ "$answer" = "not started" ]; then continue; fi
    printf '%s: %s\n' "$name" "$answer" >&2
    exit 1
  done
  status=0
  (run_program 5 my_ddp_training my_ddp_training "$@") || status=$?
  # Any other status means that a part made the job end.
  case $status in
    0 | 1 | 2 | 130) exit "$status" ;;
    *) echo "WRONG: the trainer ended with status $status; the lines above name the part" >&2; exit 1 ;;
  esac
}
