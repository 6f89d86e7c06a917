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
need python3 "Python 3.10 with venv, for the clients of schema registries and DuckDB"
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
if ! command -v javac >/dev/null || ! command -v mvn >/dev/null; then
  leave_out "TestJavaFrameworks" "it compiles a consumer, which needs the JDK of Java 17, and Maven"
  leave_out "TestShareGroupWritesDeadLetters|TestShareGroupsAreCompleted|TestShareGroupsRecordIsGone|TestShareGroupsOutcome|TestShareGroupsForgeries|TestShareGroupsAreShown|TestFaultShareGroupsBrokerIsKilled|TestFaultShareGroupsTopicMayNotBeRead" \
    "they compile a share consumer, which needs the JDK of Java 17, and Maven"
fi

[ "$missing" = 0 ]
if ((${#left_out[@]} > 0)); then (IFS='|'; echo "^(${left_out[*]})\$"); fi
