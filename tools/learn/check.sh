# ./learn check, hint and solution, and the exercises in the map. learn sources this file, which uses
# its variables (root, build, folders) and functions (fail, build_targets).
#
# Progress is a plain text file with lines like "done 03/ring_all_gather" and
# "hint 03/ring_all_gather 2".
progress=$state/progress

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
  green=$'\e[32m' red=$'\e[31m' yellow=$'\e[33m' plain=$'\e[0m'
else
  green='' red='' yellow='' plain=''
fi
width=''  # at which answers are wrapped
if [ -t 1 ]; then width=$(tput cols 2>/dev/null || echo 80); fi

# What is known of the exercises (tools/exercises/exercises.py): read_exercises sets the list, a line
# each. Without python3, it is empty.
exercise_list=''
about_exercises() { python3 -B "$root/tools/exercises/exercises.py" "$@"; }
read_exercises() {
  ! command -v python3 >/dev/null 2>&1 || exercise_list=$(about_exercises list 2>/dev/null) || true
}

# need_exercises LESSON: reads the list, for which packages may have to be installed.
need_exercises() {
  local said
  command -v python3 >/dev/null 2>&1 || set_up "$1" >&2
  command -v python3 >/dev/null 2>&1 || fail "$command: needs python3; type this:  $(install_line python3)"
  read_exercises
  if [ -z "$exercise_list" ]; then
    set_up "$1" >&2  # tomli, with an old python3
    exercise_list=$(about_exercises list 2>&1) || { said=$(tail -n 1 <<<"$exercise_list"); fail "$command: ${said#error: }"; }
  fi
}

# exercises_of LESSON [NAME]: prints "NAME KIND WHAT", one exercise per line, or only that of NAME.
exercises_of() {
  local lesson name kind part what
  while read -r lesson name kind part what; do
    [ "$lesson" != "$1" ] || [ "${2:-$name}" != "$name" ] || echo "$name $kind $what"
  done <<<"$exercise_list"
}

# The parts of the trainer that ./learn mine makes of exercises: "LESSON NAME", one per line.
trainer_parts() {
  local lesson name kind part what
  while read -r lesson name kind part what; do
    [ "$part" != part ] || echo "$lesson $name"
  done <<<"$exercise_list"
}

# count_parts: prints, for example, "2 of 5 parts of the trainer are yours".
count_parts() {
  local lesson name mine=0 all=0
  while read -r lesson name; do
    all=$((all + 1))
    if is_done "$(lesson_number "$lesson")/$name"; then mine=$((mine + 1)); fi
  done < <(trainer_parts)
  echo "$mine of $all parts of the trainer are yours (./learn mine)"
}

lesson_number() { echo "${folders[$1]:0:2}"; }

# remember LINE: stores LINE in place of an earlier line about the same thing.
remember() {
  forget "${1% *}" && forget "$1"
  { builtin echo "$1" >>"$progress"; } 2>/dev/null || cannot_save
}
cannot_save() { require_free_disk "$state"; fail "$progress cannot be written"; }
forget() {
  [ -f "$progress" ] || return 0
  local status=0
  { grep -vxE -- "$1( [0-9]+)?" "$progress" >"$progress.$$"; } 2>/dev/null || status=$?
  if [ $status -gt 1 ]; then rm -f "$progress.$$"; cannot_save; fi  # 1: no line is left
  mv "$progress.$$" "$progress"
}
is_done() { grep -qxF "done $1" "$progress" 2>/dev/null; }

# count_exercises LESSON KIND: prints, for example, "2/3" if 2 of 3 are done. KIND is base, or
# empty for all others but small tasks. Prints "-" without the list.
count_exercises() {
  [ -n "$exercise_list" ] || { echo -; return; }
  local name kind rest done_ones=0 all=0
  while read -r name kind rest; do
    [ "$kind" != numbers ] || continue
    [ "$kind" = base ] || kind=''
    [ "$kind" = "$2" ] || continue
    all=$((all + 1))
    if is_done "$(lesson_number "$1")/$name"; then done_ones=$((done_ones + 1)); fi
  done < <(exercises_of "$1")
  echo "$done_ones/$all"
}

# Exercises of kind nccl are checked in the emulated build, where CUDA and NCCL run on the CPU.
emulated_build=${LEARN_EMULATED_BUILD_DIR:-$root/build-emulated}

file_of() {  # file_of LESSON NAME KIND: the file that the reader edits
  local end=hpp
  if [ "$3" = numbers ]; then end=txt; fi
  echo "$root/${folders[$1]}/exercise/$2.$end"
}

# check_exercise LESSON NAME KIND: prints the verdict and returns 0 (done), 1 (wrong) or 3 (not
# started).
check_exercise() {
  local number file target log answer status=0
  number=$(lesson_number "$1")
  file=$(file_of "$@")
  [ -f "$file" ] || fail "$file is missing"
  about_exercises state "$1" "$2" || status=$?
  [ "$status" -eq 4 ] || return "$status"
  status=0
  target=exercise_${number}_$2
  local build=$build preset=$preset
  if [ "$3" = nccl ]; then build=$emulated_build preset=emulated; fi
  log=$state/build.log
  if [ -t 2 ] || [ ! -x "$build/bin/$target" ]; then echo "building $target (the first time may take minutes)" >&2; fi
  lock_build "$target"
  answer=$( (LC_ALL=C build_targets "$1" "$target") 2>&1 ) || status=$?
  unlock_build
  if [ "$status" -ne 0 ]; then
    local said=''
    if [ "$status" -ne 2 ]; then said=$(about_exercises errors "$1" "$2" "$log"); fi
    if [ -z "$said" ]; then
      echo "$answer" >&2
      exit 2
    fi
    echo "$said"
    echo "(all of the compiler's words are in ${log#"$PWD"/})"
    return 1
  fi
  # The compiler's warnings are in the log only if the file was compiled this time.
  if grep -qa _adapter.cpp.o "$log" 2>/dev/null; then cp "$log" "$state/$target.log" 2>/dev/null || true; fi
  local page=''
  if ${draws:-false}; then page=$state/$target.html; rm -f "$page"; fi
  EXERCISE_DRAWING=$page EXERCISE_LOG=$state/check.log EXERCISE_SOURCE=$file EXERCISE_WARNINGS=$state/$target.log EXERCISE_WIDTH=$width EXERCISE_INDENT=33 \
    "$root/tools/exercises/judge.py" "$build/bin/$target" || status=$?
  if [ "$status" -eq 3 ]; then echo "it calls a function that you have not written yet"; fi
  return $status
}

# Fails while an editor replaces a file, which is then missing for a moment.
when_saved() { stat -c %y "${files[@]}" 2>/dev/null; }

# watch_check [LESSON [EXERCISE]]: judges again after every save, until Ctrl-C.
watch_check() {
  local saved folder=${1:+${folders[$1]}} files
  files=("$root"/${folder:-0?_*}/exercise/*.*)
  while true; do
    until saved=$(when_saved); do sleep 0.3; done
    (run_check "$@") || [ $? -ne 2 ] || [ "$saved" != "$(when_saved)" ] || exit 2
    echo "judged at $(date +%T); save a file in ${folder:-LESSON}/exercise to judge again, Ctrl-C to end"
    while [ "$saved" = "$(when_saved)" ]; do sleep 0.3; done
  done
}

# next_exercise: prints "LESSON NAME" of the first exercise that is not done: base exercises, and the
# small tasks before them, first.
next_exercise() {
  local kind lesson name its rest
  for kind in base advanced nccl; do
    for lesson in 1 2 3 4 5; do
      while read -r name its rest; do
        [ "${its/numbers/base}" != "$kind" ] || is_done "$(lesson_number "$lesson")/$name" || { echo "$lesson $name"; return; }
      done < <(exercises_of "$lesson")
    done
  done
}

# require_exercise [LESSON [EXERCISE]]: refuses what check, hint and solution do not know.
require_exercise() {
  at_most 2 "$@"
  [[ ${1:-} =~ ^[1-5]$ ]] || fail "$command: needs a lesson from 1 to 5"
  need_exercises "$1"
  [ -z "${2:-}" ] || [ -n "$(exercises_of "$@")" ] ||
    fail "$command: lesson $1 has no exercise '$2'; its exercises are: $(exercises_of "$1" | cut -d ' ' -f 1 | paste -sd ' ')"
  need_folder "$state"
}

run_check() {
  local word words=() watch=false draws=${draws:-false}  # --watch calls this again
  for word; do
    case $word in
      --watch) watch=true ;;
      --draw) draws=true ;;
      *) words+=("$word") ;;
    esac
  done
  set -- "${words[@]}"
  if [ $# -gt 0 ]; then require_exercise "$@"; else need_exercises 1; fi
  if $draws && [ $# -ne 2 ]; then fail "check: --draw needs the name of one exercise"; fi
  if $watch; then watch_check "$@"; fi
  local moves_on=false
  if [ $# -eq 0 ]; then
    read -ra words < <(next_exercise) || true
    [ ${#words[@]} -gt 0 ] || { echo "every exercise is done"; return 0; }
    set -- "${words[@]}"
    require_exercise "$@"
    echo "lesson $1:"
    moves_on=true
  fi
  local lesson=$1 number name kind what answer status worst=0 colour place
  number=$(lesson_number "$lesson")
  set_mpi_environment
  while read -r name kind what; do
    status=0
    answer=$(check_exercise "$lesson" "$name" "$kind") || status=$?
    case $status in
      0) colour=$green place='' ;;
      1) colour=$red place='' worst=1 ;;
      3) colour=$yellow place=$(file_of "$lesson" "$name" "$kind") place="  ${place#"$root/"}" worst=$((worst == 1 ? 1 : 3)) ;;
      *) exit "$status" ;;
    esac
    printf '%-22s %-9s %s%s%s%s\n' "$name" "$kind" "$colour" "${answer%%$'\n'*}" "$plain" "$place"
    tail -n +2 <<<"$answer" | sed 's/^/  /'
    if [ "$status" -ne 0 ]; then forget "done $number/$name"; continue; fi
    remember "done $number/$name"
    solution_of "$lesson" "$name"
    echo "  our solution: ./learn solution $lesson $name"
    echo "  $(count_parts)"
  done < <(exercises_of "$@")
  if $moves_on && [ "$worst" -eq 0 ]; then run_check; else return $worst; fi
}

# hints_of LESSON NAME: prints the hints, one per line.
hints_of() { about_exercises hints "$@"; }

# solution_of LESSON NAME: names the lesson's own solution to a finished exercise, if any.
solution_of() {
  local last
  last=$(hints_of "$1" "$2" | tail -n 1)
  if [[ $last == "The solution is"* ]]; then echo "  compare with the ${last#The solution is the }"; fi
}

hints_shown() {  # hints_shown NUMBER/NAME
  local shown
  shown=$(sed -n "s|^hint $1 ||p" "$progress" 2>/dev/null || true)
  echo "${shown:-0}"
}

run_hint() {
  require_exercise "$@"
  local lesson=$1 number name rest shown all
  number=$(lesson_number "$lesson")
  while read -r name rest; do
    if [ $# -eq 1 ] && is_done "$number/$name"; then continue; fi
    shown=$(hints_shown "$number/$name")
    mapfile -t all < <(hints_of "$lesson" "$name")
    [ ${#all[@]} -gt 0 ] || fail "hint: there are no hints for $name"
    shown=$((shown + 1))
    if [ "$shown" -gt ${#all[@]} ]; then
      echo "$name: you have seen all ${#all[@]} hints; starting again with the first"
      shown=1
    fi
    remember "hint $number/$name $shown"
    echo "$name, hint $shown of ${#all[@]}:"
    fold -s -w 96 <<<"${all[$((shown - 1))]}"
    return 0
  done < <(exercises_of "$@")
  echo "lesson $lesson: every exercise is done (./learn check $lesson); ./learn hint $lesson NAME shows hints again"
}

# run_solution LESSON [EXERCISE] [--yes] [--take]: shows our solutions to what is done, beside the
# reader's. --take puts ours into the reader's file, and keeps the reader's beside it.
run_solution() {
  local word words=() take=false
  for word; do
    case $word in
      --yes) assume_yes=true ;;
      --take) take=true ;;
      *) words+=("$word") ;;
    esac
  done
  set -- "${words[@]}"
  require_exercise "$@"
  if $take; then
    [ $# -eq 2 ] || fail "solution: --take needs the name of one exercise"
    about_exercises take "$@" || fail "solution: $(file_of "$1" "$2" "$(exercises_of "$@" | cut -d ' ' -f 2)") cannot be replaced"
    return
  fi
  local name rest number left
  number=$(lesson_number "$1")
  while read -r name rest; do
    if is_done "$number/$name" || $assume_yes; then
      echo "// $name"
      about_exercises solution "$1" "$name" "${width:-0}"
      solution_of "$1" "$name"
    else
      left=$(($(hints_of "$1" "$name" | wc -l) - $(hints_shown "$number/$name")))
      echo "$name is not done. You have not seen $left of its hints (./learn hint $1 $name)."
      echo "To see our solution now: ./learn solution $1 $name --yes"
    fi
  done < <(exercises_of "$@")
}
