#!/usr/bin/env bash
# test.sh [CRASH_SECONDS [FUZZ_SECONDS]]: runs every stage of `make test` in turn, and stops at the first that fails.
set -euo pipefail
cd "$(dirname "$0")/.."
crash_seconds=${1:-40}
seconds=${2:-3}
began=$SECONDS
summary=()

stage() {
    local name=$1 start=$SECONDS
    shift
    printf '\n== %s\n' "$name"
    if ! "$@"; then
        printf '\nmake test: FAILED in "%s" after %d s; again with: %s\n' "$name" $((SECONDS - began)) "${*/#run_make/make}" >&2
        df -h . >&2
        exit 1
    fi
    summary+=("$(printf '%-14s %4d s' "$name" $((SECONDS - start)))")
}

# A failure for lack of space is told apart by the free space at the start and at the end.
df -h .
run_make() { make --no-print-directory "$@"; }
# The longest tests take a part of their seeds, another one at each commit.
TONEARM_SHARE=${TONEARM_SHARE-$(git rev-list --count HEAD 2>/dev/null || echo 0)/4}
[ -z "$TONEARM_SHARE" ] || export TONEARM_SHARE
stage format run_make fmt
stage lints run_make lint
stage build run_make build
stage tidy run_make tidy
stage unit run_make unit
# A part of the planted faults. The number of commits chooses which, so that each commit tests another part.
stage "planted faults" scripts/mutants.sh --quick --share auto/80
stage "power cuts" run_make crash SECONDS="$crash_seconds"
stage fuzz run_make fuzz SECONDS="$seconds"
stage "end to end" run_make e2e
stage guests run_make guest-share

printf '\n'
printf '  %s\n' "${summary[@]}"
printf 'make test: all passed in %d s (%s s of power cuts and faults, %s s of fuzzing each target)\n' \
    $((SECONDS - began)) "$crash_seconds" "$seconds"
