#!/usr/bin/env bash
# Each lesson builds only on earlier ones: common/ includes only common/, and lesson NN includes
# only common/ and lessons up to NN. Experiments and exercises may also include their tools.
# Include paths start at the repository root, so an include line shows where a file is.
set -uo pipefail
root=$1
failed=0

complain() { echo "$1"; failed=1; }

# check FILE LESSON: checks that FILE includes no lesson after LESSON (0 allows no lesson at
# all) and uses no relative paths.
check() {
  local file=$1 lesson=$2 line included
  while IFS= read -r line; do
    included=${line#*\"}
    included=${included%%\"*}
    [ -f "$root/$included" ] || complain "$file: includes $included, which does not exist"
    case $file:$included in */break_it/*:tools/broken/* | */exercise/*:tools/exercises/*) continue ;; esac
    case $included in
      common/*) ;;
      0[1-5]_*/*)
        if [ "${included:1:1}" -gt "$lesson" ]; then
          complain "$file: includes $included, which is in a later lesson"
        fi ;;
      *) complain "$file: includes \"$included\", which is neither common/ nor a lesson" ;;
    esac
  done < <(grep -hE '^#include "' "$root/$file")
}

count=0
while IFS= read -r file; do
  case $file in
    common/*) check "$file" 0 ;;
    0[1-5]_*) check "$file" "${file:1:1}" ;;
  esac
  count=$((count + 1))
done < <(cd "$root" && find common 0[1-5]_* -name '*.cpp' -o -name '*.hpp' | sort)

# Fail if hardly any files were found, because then the test would prove nothing.
[ "$count" -ge 30 ] || complain "only $count files found under $root"
[ $failed -eq 0 ] && echo "$count files include only earlier lessons"
exit $failed
