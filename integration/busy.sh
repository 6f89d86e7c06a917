#!/usr/bin/env bash
# busy.sh COMMAND [ARGUMENT...] runs a command while four processes keep the machine
# busy, and exits with the command's code. These processes end with this script, however
# it ends.
set -uo pipefail
(($# > 0)) || { echo "usage: $0 COMMAND [ARGUMENT...]" >&2; exit 2; }

busy=()
trap 'kill "${busy[@]}" 2>/dev/null' EXIT
for _ in 1 2 3 4; do
  bash -c 'while kill -0 "$1" 2>/dev/null; do for ((i = 0; i < 200000; i++)); do :; done; done' busy $$ &
  busy+=($!)
done
"$@"
