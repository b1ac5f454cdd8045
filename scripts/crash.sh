#!/bin/sh
# crash.sh points|seconds NUMBER SEED: runs the crash simulator (power cuts and drive faults) in two processes with
# different seeds. With `points` each process makes half of them.
set -eu
cd "$(dirname "$0")/.."
unit=$1
number=$2
seed=$3
[ "$unit" = seconds ] || number=$(((number + 1) / 2))

target/release/crash "--$unit" "$number" --seed "$seed" &
first=$!
target/release/crash "--$unit" "$number" --seed "$((seed + 1000000))" &
second=$!
# Ctrl-C sends SIGINT to both processes.
failed=0
wait "$first" || failed=1
wait "$second" || failed=1
exit "$failed"
