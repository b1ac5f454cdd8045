#!/usr/bin/env bash
# unit.sh CARGO_OPTIONS...: runs the test programs that `cargo test CARGO_OPTIONS` builds, two at a time, and the examples in
# documentation. Many programs wait for clocks or end with one long test, which leaves a core idle. Prints the output of a
# program that failed, and the time of the others.
set -euo pipefail
cd "$(dirname "$0")/.."
programs=$(mktemp)
trap 'rm -f "$programs"' EXIT
cargo test "$@" --no-run --message-format=json-render-diagnostics |
    python3 -c '
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable") and message["profile"]["test"]:
        print(os.path.dirname(message["manifest_path"]), message["executable"], sep="\t")
' >"$programs"
[ -s "$programs" ] || { echo "unit: there are no test programs" >&2; exit 1; }

run() {
    local folder=${1%%$'\t'*} program=${1#*$'\t'} output start=$SECONDS
    if output=$(cd "$folder" && CARGO_MANIFEST_DIR=$folder "$program" 2>&1); then
        printf '%4d s  %s: %s\n' $((SECONDS - start)) "${program##*/}" "$(grep '^test result' <<<"$output")"
    else
        printf '%s\nFAILED: %s, in %s\n' "$output" "$program" "$folder"
        return 1
    fi
}
export -f run
failed=0
xargs -d '\n' -P 2 -I{} bash -c 'run "$1"' _ {} <"$programs" || failed=1
cargo test "$@" --doc -q || failed=1
exit $failed
