#!/usr/bin/env bash
# needs.sh prints to stderr what `make test` lacks on this machine, and fails when the
# tests cannot run. Some tests need more than the others: those that cannot run are
# printed to stdout as a regular expression for `go test -skip`. With CI=true skipping
# any test is an error.
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
    echo "make test needs Java 17 with Maven for a real Kafka: $command is not on PATH, so a stand-in is used" >&2
    [ "${CI:-}" != true ] || missing=1
  }
done

left_out=()
leave_out() { # TESTS WHY
  echo "make test skips $1: $2" >&2
  left_out+=("$1")
  [ "${CI:-}" != true ] || { echo "with CI=true this is an error" >&2; missing=1; }
}

if [ "$(id -u)" != 0 ] && ! sudo -n true 2>/dev/null; then
  leave_out "TestFaultDatabaseDiskFull|TestFaultKafkaDiskFull" "they mount a small disk, which needs root, or sudo without a password"
fi

# Succeeds if the history has a commit with an older newest migration than the checkout.
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
  leave_out "TestUpgradeUnderLoad" "it builds a commit with an older schema, which this checkout lacks: use a git checkout with its history (git fetch --unshallow)"
fi

[ "$missing" = 0 ]
if ((${#left_out[@]} > 0)); then (IFS='|'; echo "^(${left_out[*]})\$"); fi
