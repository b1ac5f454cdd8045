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
# test/fuzz/run.sh fuzzes as many targets at a time as there are cores, at most four.
jobs=$(($(nproc) < 4 ? $(nproc) : 4))
targets=$(grep -c '^\[\[bin' test/fuzz/Cargo.toml)
make --no-print-directory build || exit 1
# Unit tests with all seeds.
unset TONEARM_SHARE
campaign unit make --no-print-directory unit
campaign planted-faults scripts/mutants.sh --share auto/48 --seconds "$quarter"
campaign power-cuts make --no-print-directory crash SECONDS="$quarter" SEED="$commits"
campaign fuzzing make --no-print-directory fuzz SECONDS="$((quarter * jobs / targets + 1))"
scripts/guest.sh && campaign guests scripts/guests.sh "${quarter}s"

printf '\nsoak at commit %s, %s s:\n' "$commits" "$SECONDS"
tail -qn 1 "$log/planted-faults.log" "$log/guests.log"
grep -h ' power cuts ' "$log/power-cuts.log"
grep -h '^fuzz ' "$log/fuzzing.log"
exit $failed
