#!/usr/bin/env bash
# mutants.sh: plants the faults of test/mutants/*.patch, one at a time, and shows which test notices each.
#
#   scripts/mutants.sh                    all faults
#   scripts/mutants.sh fua-over-cache     only the named faults
#   scripts/mutants.sh --list             lists names and promises
#   scripts/mutants.sh --share K/N        only the K-th of N parts; with `auto` as K the number of commits chooses the
#                                         part, so that each commit tests another one
#   scripts/mutants.sh --seconds N        begins no fault after N seconds
#   scripts/mutants.sh --quick            only faults that a test of a small crate should notice
#
# The exit code is 1 when a fault is not noticed, or when its patch does not apply or does not build. The script works
# in target/mutants/tree, a copy, and never changes the checkout. Each command must pass on the unchanged copy before its
# result counts. CONTRIBUTING.md describes the form of a patch file.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
work=$root/target/mutants
tree=$work/tree
# The programs of the copy are tested, not those of the checkout, and with all their seeds.
unset TONEARM_BIN TONEARM_SHARE
# Each fault builds some of the project's crates again.
export CARGO_TARGET_DIR=$work/build CARGO_INCREMENTAL=1 CARGO_TERM_COLOR=never RUST_BACKTRACE=0

# A patch is quick when its first command tests one of these crates: little has to be built, and no test waits for a
# clock.
quick_crates='base|format|rt|world|device|trail|layout|engine|disk|fs|nbd'
quick=no list=no share= most= names=()
while [ $# -gt 0 ]; do
    case $1 in
    --list) list=yes ;;
    --quick) quick=yes ;;
    --share)
        share=${2:?--share K/N}
        shift
        ;;
    --seconds)
        most=${2:?--seconds N}
        shift
        ;;
    -*)
        sed -n '2,14s/^# \{0,1\}//p' "$0"
        exit 2
        ;;
    *) names+=("$1") ;;
    esac
    shift
done

patch_file() { printf '%s/test/mutants/%s.patch' "$root" "$1"; }
# The values of a header line, one a line.
header() { sed -n "/^diff --git/q; s/^$2: //p" "$(patch_file "$1")"; }

# The time limit for a command of a patch, in seconds.
limit_of() {
    local limit
    limit=$(header "$1" limit)
    echo "${limit:-300}"
}
# The commands of a patch, in the order of the file: the cheapest comes first.
commands() { sed -n '/^diff --git/q; /^\(test\|e2e\|guest\|crash\): /p' "$(patch_file "$1")"; }

if [ ${#names[@]} -eq 0 ]; then
    for file in test/mutants/*.patch; do
        name=${file##*/}
        names+=("${name%.patch}")
    done
fi
chosen=()
for name in "${names[@]}"; do
    [ -f "$(patch_file "$name")" ] || { echo "mutants: there is no test/mutants/$name.patch" >&2; exit 2; }
    if [ $quick = yes ]; then
        [[ $(commands "$name" | head -1) =~ ^test:\ -p\ tonearm-($quick_crates)(\ |$) ]] || continue
    fi
    chosen+=("$name")
done
if [ -n "$share" ]; then
    part=${share%/*} parts=${share#*/}
    if [ "$part" = auto ]; then
        commits=$(git rev-list --count HEAD 2>/dev/null || echo 0)
        part=$((commits % parts + 1))
    fi
    # The faults of a crate are neighbours, so that a share builds the tests of few crates.
    mapfile -t chosen < <(for name in "${chosen[@]}"; do printf '%s\t%s\n' "$(commands "$name" | head -1)" "$name"; done | sort | cut -f2)
    from=$(((part - 1) * ${#chosen[@]} / parts)) to=$((part * ${#chosen[@]} / parts))
    shared=("${chosen[@]:from:to-from}")
    echo "share $part/$parts: ${#shared[@]} of ${#chosen[@]} faults"
    chosen=("${shared[@]}")
fi
if [ $list = yes ]; then
    for name in "${chosen[@]}"; do printf '%-32s %s\n' "$name" "$(header "$name" promise)"; done
    echo "${#chosen[@]} faults"
    exit 0
fi

# Updates the copy to the checkout's state, with uncommitted changes and new files. A new copy keeps the modification
# times of the checkout's files and starts with the crates from elsewhere that the checkout has built, so that cargo
# builds only ours again. Later a file that differs gets a new modification time, so that cargo notices the change.
sync_tree() {
    local keep=
    if [ ! -d "$tree" ]; then
        keep=-p
        rm -rf "$CARGO_TARGET_DIR"
        if [ -d target/checked/deps ]; then
            mkdir -p "$CARGO_TARGET_DIR/checked/deps"
            cp -a target/checked/{build,.fingerprint} "$CARGO_TARGET_DIR/checked"
            # Only other people's crates are taken over, as hard links: Cargo replaces these files and never writes into
            # them. Ours and their test programs take gigabytes, and they are built again with other options anyway.
            find target/checked/deps -maxdepth 1 -type f \( -name '*.rlib' -o -name '*.rmeta' -o -name '*.so' -o -name '*.d' \) \
                ! -name '*tonearm*' -exec cp -alt "$CARGO_TARGET_DIR/checked/deps" {} +
        fi
        mkdir -p "$tree.new"
    fi
    local to=${keep:+$tree.new}
    to=${to:-$tree}
    git ls-files -z --cached --others --exclude-standard |
        while IFS= read -r -d '' file; do
            if [ -f "$file" ] && ! cmp -s "$file" "$to/$file"; then
                mkdir -p "$to/$(dirname "$file")"
                cp $keep "$file" "$to/$file"
            fi
        done
    # The rename is atomic. A copy that was interrupted is made again.
    [ -z "$keep" ] || mv "$tree.new" "$tree"
    (cd "$tree" && find . -type f -print0) |
        while IFS= read -r -d '' file; do
            [ -f "$root/$file" ] || rm -f "$tree/$file"
        done
}

# Restores the files that a patch changes, with a new modification time.
restore() {
    local file
    git apply --numstat "$(patch_file "$1")" | while IFS=$'\t' read -r _ _ file; do
        cp "$root/$file" "$tree/$file"
    done
}

# build_of LINE, run_of LINE: the shell commands for a header line. `-p tonearm` gives dependencies the features that
# they have in the whole workspace. Without it Cargo would build many of them again.
build_of() {
    case $1 in
    test:*) echo "cargo test --profile checked --locked --no-run -p tonearm ${1#test: }" ;;
    e2e:*) echo "cargo build --profile checked --locked -p tonearm -p tonearm-sqlite && cargo test --profile checked --locked --no-run -p tonearm -p tonearm-tests --test e2e" ;;
    # The image of guests has nothing of ours but what each run puts into it, so the copy uses that of the checkout.
    guest:*) echo "'$root'/scripts/guest.sh && mkdir -p target && ln -sfn '$root'/target/guest target/guest && cargo build --profile checked --locked -p tonearm -p tonearm-sqlite && cargo test --profile checked --locked --no-run -p tonearm -p tonearm-tests --test guest" ;;
    crash:*) echo "cargo build --profile checked --locked --workspace --bin crash" ;;
    esac
}
run_of() {
    case $1 in
    test:*) echo "cargo test --profile checked --locked -p tonearm ${1#test: }" ;;
    e2e:*) echo "cargo test --profile checked --locked -p tonearm -p tonearm-tests --test e2e ${1#e2e: }" ;;
    guest:*) echo "cargo test --profile checked --locked -p tonearm -p tonearm-tests --test guest ${1#guest: }" ;;
    crash:*) echo "$CARGO_TARGET_DIR/checked/crash ${1#crash: }" ;;
    esac
}

# Runs a command of a patch in the copy. Returns 0: passed, 1: failed, 2: does not build, 3: exceeded the time limit.
log=$work/log
attempt() {
    local line=$1 limit=$2 code=0
    (cd "$tree" && bash -c "$(build_of "$line")") >"$log" 2>&1 || return 2
    (cd "$tree" && timeout --kill-after=10 "$limit" bash -c "$(run_of "$line")") >"$log" 2>&1 || code=$?
    case $code in
    0) return 0 ;;
    124 | 137) return 3 ;;
    *) return 1 ;;
    esac
}

# The test that failed, from the log.
noticed_by() {
    local line=$1 failed
    failed=$(sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p; s/^    \([a-z_0-9:]*\)$/\1/p' "$log" | sort -u)
    case $line in
    crash:*) echo "crash ${line#crash: }" ;;
    *)
        if [ -z "$failed" ]; then
            echo "${line#*: } (the test program died)"
        else
            local count
            count=$(wc -l <<<"$failed")
            echo "$(head -1 <<<"$failed")$([ "$count" -eq 1 ] || echo " and $((count - 1)) more")"
        fi
        ;;
    esac
}

mkdir -p "$work"
exec 9>"$work/lock"
flock -n 9 || { echo "mutants: another run uses $work" >&2; exit 2; }
# A compiler that was killed can leave incremental state that does not link.
[ ! -e "$work/running" ] || rm -rf "$CARGO_TARGET_DIR/checked/incremental"
touch "$work/running"
sync_tree

# A command that fails without a fault proves nothing. A command that has passed on this tree is not run again.
sum=$(cd "$tree" && find . -type f ! -path './test/mutants/*' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum)
sum=${sum%% *}
passed=$work/passed-$sum
find "$work" -maxdepth 1 -name 'passed-*' ! -name "passed-$sum" -delete
touch "$passed"
passes_unchanged() {
    ! grep -qxF -- "$1" "$passed" || return 0
    attempt "$1" "$2" || return 1
    # A name that selects no test would notice nothing.
    [[ $1 == crash:* ]] || grep -q '^running [1-9]' "$log" || { echo "no test has this name" >>"$log"; return 1; }
    echo "$1" >>"$passed"
}

# Run the first command of every fault first, so that the unchanged tree is built only once. With a limit of time some of the
# faults may not have their turn.
if [ -z "$most" ]; then
    for name in "${chosen[@]}"; do
        passes_unchanged "$(commands "$name" | head -1)" "$(limit_of "$name")" || true
    done
fi

noticed=0 survived=0 broken=0 hung=0 left=0
began=$SECONDS
row() { printf '%-32s %5s s  %s\n%34s%s\n' "$1" "$2" "$3" '' "$(header "$1" promise)"; }
for name in "${chosen[@]}"; do
    if [ -n "$most" ] && [ $SECONDS -ge "$most" ]; then
        left=$((left + 1))
        continue
    fi
    start=$SECONDS
    limit=$(limit_of "$name")
    mapfile -t lines < <(commands "$name")
    outcome=survived by=
    if [ ${#lines[@]} -eq 0 ]; then
        outcome=broken by="BROKEN: the patch names no command"
    fi
    for line in "${lines[@]}"; do
        if ! passes_unchanged "$line" "$limit"; then
            cp "$log" "$work/$name.log"
            outcome=broken by="BROKEN: \"$line\" does not pass without the fault ($work/$name.log)"
            break
        fi
        if ! (cd "$tree" && GIT_CEILING_DIRECTORIES=$work git apply -C1 --unidiff-zero "$(patch_file "$name")") >"$log" 2>&1; then
            outcome=broken by="BROKEN: the patch does not apply: $(head -1 "$log")"
            break
        fi
        code=0
        attempt "$line" "$limit" || code=$?
        restore "$name"
        case $code in
        1) outcome=noticed by=$(noticed_by "$line") ;;
        2)
            cp "$log" "$work/$name.log"
            outcome=broken by="BROKEN: the patched tree does not build ($work/$name.log)"
            ;;
        3) outcome=hung by="a hang: ${line#*: }" ;;
        esac
        [ $outcome = survived ] || break
    done
    case $outcome in
    noticed) noticed=$((noticed + 1)) ;;
    hung) noticed=$((noticed + 1)) hung=$((hung + 1)) ;;
    survived) survived=$((survived + 1)) by="SURVIVED" ;;
    broken) broken=$((broken + 1)) ;;
    esac
    row "$name" $((SECONDS - start)) "$by"
done
printf '%d noticed (%d by a hang), %d survived, %d broken, %d not begun, in %d s\n' \
    $noticed $hung $survived $broken $left $((SECONDS - began))
rm "$work/running"
[ $((survived + broken)) -eq 0 ]
