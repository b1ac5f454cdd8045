#!/bin/sh
# run.sh [SECONDS [TARGET...]]: fuzzes each target for SECONDS, as many targets at a time as there are cores, at most
# four. When a target crashes, run.sh keeps the input in artifacts/TARGET/ and exits with status 1.
set -eu
cd "$(dirname "$0")"
seconds=${1:-60}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- record superblock lists images trees nbd_handshake nbd_requests nbd_transmission vhost_ring files_wire archive traces profile
./build.sh
bin=$(cat target/dir)
jobs=$(nproc)
[ "$jobs" -le 4 ] || jobs=4

fuzz_one() {
    target=$1
    mkdir -p "corpus/$target" "artifacts/$target" target/logs
    log=target/logs/$target.log
    if timeout $((seconds + 120)) "$bin/$target" "corpus/$target" -artifact_prefix="artifacts/$target/" \
        -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len=20000 -print_final_stats=1 \
        >"$log" 2>&1
    then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        cover=$(grep -o 'cov: [0-9]*' "$log" | tail -1)
        echo "fuzz $target: $runs runs in $seconds s, $cover, nothing found"
    else
        tail -40 "$log"
        echo "fuzz $target: FAILED; again with test/fuzz/$bin/$target test/fuzz/artifacts/$target/<file>, log test/fuzz/$log"
        return 1
    fi
}

# Targets run in waves of $jobs.
failed=0
while [ $# -gt 0 ]; do
    pids=
    count=0
    while [ $# -gt 0 ] && [ "$count" -lt "$jobs" ]; do
        fuzz_one "$1" &
        pids="$pids $!"
        count=$((count + 1))
        shift
    done
    for pid in $pids; do
        wait "$pid" || failed=1
    done
done
exit "$failed"
