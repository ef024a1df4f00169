#!/usr/bin/env bash
# The rule of the stairs: common/ includes only common/, and lesson NN only common/ and the lessons
# up to NN; what readers do also includes its own tools. Includes are written from the repository
# root, so an include line is a map.
set -uo pipefail
root=$1
failed=0

complain() { echo "$1"; failed=1; }

# check FILE LESSON: no include of a later lesson (0: of any lesson), none by a relative path.
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
          complain "$file: includes $included, which is further up the stairs"
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

# A test that looked at nothing proves nothing.
[ "$count" -ge 30 ] || complain "only $count files found under $root"
[ $failed -eq 0 ] && echo "$count files keep to the stairs"
exit $failed
