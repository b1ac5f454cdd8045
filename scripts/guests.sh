#!/usr/bin/env bash
# guests.sh COUNT|SECONDSs: runs kinds of tests in virtual machines, one round of each: COUNT kinds of those whose names do not end
# in `in_full`, or kinds of all until SECONDS have passed (600s). The number of commits chooses the first one, so that each commit
# tests others. `make guest` runs all of them.
set -euo pipefail
cd "$(dirname "$0")/.."
most=${1:?guests.sh COUNT or SECONDSs}
guest() { cargo test --profile checked --locked --workspace --test guest -- "$@"; }

longest=none
[[ $most == *s ]] || longest='_in_full$'
mapfile -t kinds < <(guest --list --format terse 2>/dev/null | sed -n 's/: test$//p' | grep -v "$longest")
[ ${#kinds[@]} -gt 0 ] || { echo "guests: there are no tests; run make build" >&2; exit 1; }
first=$(($(git rev-list --count HEAD 2>/dev/null || echo 0) * 2 % ${#kinds[@]}))
ran=0
while [ $ran -lt ${#kinds[@]} ]; do
    case $most in
    *s) [ $SECONDS -lt "${most%s}" ] || break ;;
    *) [ $ran -lt "$most" ] || break ;;
    esac
    kind=${kinds[(first + ran) % ${#kinds[@]}]}
    guest --exact "$kind"
    ran=$((ran + 1))
done
echo "guests: $ran of ${#kinds[@]} kinds passed, from ${kinds[first]} on"
