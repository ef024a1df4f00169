#!/usr/bin/env bash
# Tests the files with which the course meets its users: container, conda, release, workflow.
# publish_test.sh SOURCE_DIR
set -uo pipefail
root=$1
failed=0
expect() {  # expect WHAT CONDITION...
  local what=$1
  shift
  if "$@"; then echo "ok: $what"; else echo "FAILED: $what"; failed=1; fi
}
cd "$root" || exit 1

version=$(sed -n 's/^project(mpi_to_ddp VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
expect "the release notes are those of version $version" grep -qx "# Release $version" docs/release_notes.md

# Every place that lists the packages or MPI's variables has those of ./learn and of the tests.
running=$(tr '\n' ' ' <docs/running.md)
dockerfile=$(tr -s ' \\\n' ' ' <docker/Dockerfile)
for package in $(sed -n '/^packages=(/,/^)/p' learn | grep -oE '[0-9s]+:[a-z0-9+-]+:' | cut -d: -f2); do
  expect "docs/running.md lists $package" grep -qF " $package" <<<"${running//\`/ }"
  expect "the Dockerfile installs $package" grep -qF " $package " <<<"$dockerfile"
done
for variable in $(grep -oE '(OMPI_MCA|PRTE)_[A-Za-z_]+=[^ )]+' cmake/MpiLaunch.cmake); do
  expect "the Dockerfile sets $variable" grep -qF " $variable " <<<"$dockerfile"
done
for library in openmpi cli11 fmt nlohmann_json xxhash zlib openssl onednn catch2 ninja cxx-compiler; do
  expect "environment.yml lists $library" grep -qx "  - $library" environment.yml
done
expect "the Dockerfile ends as a user who is not root" \
  test "$(sed -n 's/^USER //p' docker/Dockerfile | tail -n 1)" = reader
expect "the devcontainer builds that Dockerfile" \
  grep -q '"dockerfile": "../docker/Dockerfile", "context": ".."' .devcontainer/devcontainer.json
expect "the workflow runs .ci/run" grep -q 'run: .ci/run' .github/workflows/ci.yml

if command -v python3 >/dev/null; then
  expect "devcontainer.json is JSON" python3 -m json.tool .devcontainer/devcontainer.json /dev/null
  if python3 -c 'import yaml' 2>/dev/null; then
    for file in environment.yml CITATION.cff .github/workflows/ci.yml .github/ISSUE_TEMPLATE/*.yml; do
      expect "$file is YAML" python3 -c 'import sys, yaml; yaml.safe_load(open(sys.argv[1]))' "$file"
    done
  fi
fi
if command -v shellcheck >/dev/null; then
  expect "shellcheck accepts the scripts" shellcheck -S warning -x learn .ci/run tests/*.sh
fi

# What ./learn says where nothing is installed and the user cannot become root.
stubs=$(mktemp -d)
trap 'rm -rf "$stubs"' EXIT
printf '#!/bin/sh\nexit 1\n' >"$stubs/dpkg-query"
printf '#!/bin/sh\necho 1000\n' >"$stubs/id"
cp "$stubs/dpkg-query" "$stubs/sudo"
chmod +x "$stubs"/*
# without_root EXPECTED [NAME=VALUE...]
without_root() {
  local want=$1 output status
  shift
  output=$(env -u CONDA_PREFIX "$@" CXX=false PATH="$stubs:/usr/bin:/bin" ./learn 1 </dev/null 2>&1)
  status=$?
  expect "without root: $want" test "$status" -eq 2
  expect "without root, ./learn prints the line" grep -qF "Type this:  $want" <<<"$output"
}
without_root "conda env create --file $root/environment.yml && conda activate mpi-to-ddp"
ln -s /bin/true "$stubs/micromamba"
without_root "micromamba env create --file $root/environment.yml && micromamba activate mpi-to-ddp"
mkdir -p "$stubs/conda/bin"
ln -s /bin/true "$stubs/conda/bin/mpicxx"
without_root "micromamba env update --prefix $stubs/conda --file $root/environment.yml" \
  CONDA_PREFIX="$stubs/conda"
exit $failed
