#!/usr/bin/env bash
# What the scripts of learn_calls.txt use. Each is a circumstance in which a reader may be.

# A build folder for the lessons up to $1 (6: with tests), in which the programs $2... are built.
built() {
  local level=$1 tests=OFF
  shift
  if [ "$level" = 6 ]; then level=5 tests=ON; fi
  "$SCENE/path/cmake" -S "$PWD" -B "$PWD/build" -DDIST_LESSON="$level" -DDIST_TESTS="$tests" >/dev/null
  [ $# -eq 0 ] || "$SCENE/path/cmake" --build "$PWD/build" --target "$@"
  : >"$SCENE/log"
}

# says TOOL STATUS TEXT: what a tool of the scene answers from now on. judge.exercise_01_x is a tool.
says() { printf '%s\n' "$3" >"$SCENE/$1$([[ $1 == judge.* ]] || echo .says)"; echo "$2" >"$SCENE/$1.status"; }

# Packages that are missing: rows of the list of packages, in place of the real ones.
missing() {
  local package
  for package; do
    echo "$package" >>"$SCENE/missing"
    echo "1 $package $package.h $package" >>tools/learn/packages.txt
  done
}

# Without these commands. Everything else stays.
without() {
  mkdir -p "$SCENE/few"
  local folder command
  for folder in /bin /usr/bin "$SCENE/path"; do cp -sf "$folder"/* "$SCENE/few" 2>/dev/null; done
  for command; do rm -f "$SCENE/few/$command" "$SCENE/few/$command"-[0-9]*; done
  export PATH=$SCENE/few
}

# Writes something in place of the reader's exercise file, as who has begun does.
solved() {
  local exercise
  for exercise; do echo "// my own solution" >"$exercise.hpp"; done
}

progress() { mkdir -p .learn; printf '%s\n' "$@" >.learn/progress; }

# as_user COMMAND...: another user than root, who owns the scene.
as_user() { chown -R 65534:65534 "$SCENE" && setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }

# tty COMMAND: on a terminal, whose keys come from standard input.
tty() { script -qec "$1" /dev/null; }

# Waits until the tool of the scene that has a file TOOL.waits has started.
hold() { mkfifo "$SCENE/started" "$SCENE/go"; touch "$SCENE/$1.waits"; }
until_held() { cat "$SCENE/started" >/dev/null; }
