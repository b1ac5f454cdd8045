#!/bin/sh
# crash.sh points|seconds NUMBER SEED: runs the crash simulator (power cuts and drive faults) in two processes with
# different seeds. With `points` each process makes half of them. With `seconds` the last quarter of the time goes to long
# runs of hylog and segments, because the cleaner has no work in short ones.
set -eu
cd "$(dirname "$0")/.."
unit=$1
number=$2
seed=$3

# run LAYOUT SEED: one of the two processes.
run() {
    if [ "$unit" = points ]; then
        exec target/checked/crash --points "$(((number + 1) / 2))" --seed "$2"
    fi
    long=$((number / 4))
    target/checked/crash --seconds "$((number - long))" --seed "$2"
    [ "$long" = 0 ] || exec target/checked/crash --kind power-cuts --layout "$1" --operations 2500 --generations 1 \
        --seconds "$long" --seed "$2"
}

run hylog "$seed" &
first=$!
run segments "$((seed + 1000000))" &
second=$!
# Ctrl-C sends SIGINT to both processes.
failed=0
wait "$first" || failed=1
wait "$second" || failed=1
exit "$failed"
