#!/usr/bin/env bash
# needs.sh says on stderr what `make test` lacks on this machine, and fails when it
# cannot run without. Some tests need more than the others: where that is missing,
# their names are a regular expression on stdout, for `go test -skip`. With CI=true
# nothing may be left out.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=0
need() { # COMMAND WHAT
  command -v "$1" >/dev/null || { echo "make test needs $2: $1 is not on PATH" >&2; missing=1; }
}
need go "Go 1.26"
need node "Node.js 20"
need npm "npm"
for command in java mvn; do
  command -v "$command" >/dev/null || {
    echo "make test needs Java 17 with Maven for a real Kafka: $command is not on PATH, and a stand-in is used" >&2
    [ "${CI:-}" != true ] || missing=1
  }
done

left_out=()
leave_out() { # TESTS WHY
  echo "make test leaves out $1: $2" >&2
  left_out+=("$1")
  [ "${CI:-}" != true ] || { echo "with CI=true that is a failure" >&2; missing=1; }
}

if [ "$(id -u)" != 0 ] && ! sudo -n true 2>/dev/null; then
  leave_out "TestFaultDatabaseDiskFull|TestFaultKafkaDiskFull" "they mount a small disk, which needs root, or sudo without a password"
fi

# A commit whose newest migration is older than the one here.
newest() { sed -n 's|.*migrations/\([0-9]*\)_.*\.up\.sql$|\1|p' | sort | tail -n 1; }
older_release() {
  local now commit
  [ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$PWD" ] || return 1
  now=$(ls migrations/*.up.sql | newest)
  for commit in $(git log --format=%H -n 100 -- migrations go.mod); do
    [ "$(git ls-tree --name-only "$commit" migrations/ | newest)" = "$now" ] || return 0
  done
  return 1
}
if ! older_release; then
  leave_out "TestUpgradeUnderLoad" "it builds a commit with an older schema, and there is none here: use a git checkout with its history (git fetch --unshallow)"
fi

[ "$missing" = 0 ]
if ((${#left_out[@]} > 0)); then (IFS='|'; echo "^(${left_out[*]})\$"); fi
