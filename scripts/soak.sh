#!/usr/bin/env bash
# soak.sh SECONDS: the long campaigns, each for about a quarter of the time: planted faults, power cuts, fuzzing, virtual machines.
# `make test` runs a share of each. The number of commits chooses where each begins, so that another commit covers other parts.
# The last lines say what was covered. The exit code is 1 when something has failed; all campaigns run nevertheless.
set -uo pipefail
cd "$(dirname "$0")/.."
quarter=$((${1:?soak.sh SECONDS} / 4))
commits=$(git rev-list --count HEAD 2>/dev/null || echo 0)
log=target/soak
mkdir -p "$log"
failed=0

campaign() {
    local name=$1
    shift
    printf '\n== %s\n' "$name"
    "$@" 2>&1 | tee "$log/$name.log"
    [ "${PIPESTATUS[0]}" -eq 0 ] || failed=1
}
# Two targets are fuzzed at a time on two cores, at most four.
jobs=$(($(nproc) < 4 ? $(nproc) : 4))
targets=13
make --no-print-directory build || exit 1
campaign planted-faults scripts/mutants.sh --share auto/48 --seconds "$quarter"
campaign power-cuts make --no-print-directory crash SECONDS="$quarter" SEED="$commits"
campaign fuzzing make --no-print-directory fuzz SECONDS="$((quarter * jobs / targets + 1))"
scripts/guest.sh && campaign guests scripts/guests.sh "${quarter}s"

printf '\nsoak at commit %s, %s s:\n' "$commits" "$SECONDS"
tail -n 1 "$log/planted-faults.log" "$log/guests.log"
grep -h 'power cuts\|cuts' "$log/power-cuts.log" | tail -n 4
grep -h '^fuzz ' "$log/fuzzing.log"
exit $failed
