# ./learn mine: the trainer made of the reader's own exercises. Sourced by learn, whose functions it
# uses.
# Checks each written part first, on as many ranks as will train, because a wrong part could hang.
run_mine() {
  local ranks=4 lesson name answer status
  if [ "${1:-}" = -n ]; then ranks=${2:-}; fi
  set_mpi_environment
  need_exercises 5
  while read -r lesson name; do
    [[ $ranks =~ ^[1-9][0-9]?$ ]] || break  # run_program says what is wrong with it
    status=0
    answer=$(EXERCISE_RANKS=$ranks check_exercise "$lesson" "$name" base) || status=$?
    [ "$status" -ne 2 ] || exit 2
    if [ "$status" -eq 0 ] || [ "$answer" = "not started" ]; then continue; fi
    printf '%s: %s\n' "$name" "$answer" >&2
    exit 1
  done < <(trainer_parts)
  status=0
  (run_program 5 my_ddp_training my_ddp_training "$@") || status=$?
  # Any other status means that a part made the job end.
  case $status in
    0 | 1 | 2 | 130) exit "$status" ;;
    *) echo "WRONG: the trainer ended with status $status; the lines above name the part" >&2; exit 1 ;;
  esac
}
