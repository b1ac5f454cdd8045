#!/bin/sh
# crash.sh points|seconds NUMBER SEED: power cuts and faults in the simulator, in two processes whose seeds do not
# meet. Points are shared between them.
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
# Ctrl-C reaches both.
failed=0
wait "$first" || failed=1
wait "$second" || failed=1
exit "$failed"
