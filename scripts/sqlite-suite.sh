#!/usr/bin/env bash
# sqlite-suite.sh SOURCE_TREE [PATTERN...]: runs SQLite's own test scripts once with SQLite's own VFS and once with the
# VFS tonearm as the default, and compares the results. It runs the whole "veryquick" set, or the scripts whose names
# match a pattern. The source tree must be that of the installed SQLite (Debian: apt-get source sqlite3). It is not part
# of this repository, and a tree of another version is refused.
#
#   WORK=target/sqlite-suite   folder for builds and logs
#   STORES=/dev/shm            folder for the stores, one for each job
#   JOBS=2  LIMIT=120          scripts at a time, and the time limit for each in seconds
#   BATCH=1                    0: build SQLite without SQLITE_ENABLE_BATCH_ATOMIC_WRITE
#
# Fails when a script does worse than with SQLite's own VFS and test/sqlite-suite/known.txt gives no reason for it.
set -euo pipefail
[ $# -ge 1 ] && [ -e "$1/test/tester.tcl" ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | grep -v '^set' >&2; exit 2; }
source=$(realpath "$1")
system=$(sqlite3 --version | cut -d' ' -f1)
[ "$(cat "$source/VERSION")" = "$system" ] || {
    echo "sqlite-suite: $source is not the source of the system's SQLite $system; get it with: apt-get source sqlite3" >&2
    exit 2
}
shift
cd "$(dirname "$0")/.."
here=$PWD/test/sqlite-suite
work=$(realpath -m "${WORK:-target/sqlite-suite}")
stores=${STORES:-/dev/shm}
jobs=${JOBS:-2}
limit=${LIMIT:-120}
batch=${BATCH:-1}
tcl=$(dirname "$(find /usr/lib /usr/lib64 -name tclConfig.sh 2>/dev/null | sort | tail -n 1)")
[ -e "$tcl/tclConfig.sh" ] || { echo "sqlite-suite: needs Tcl's headers (Debian: tcl-dev)" >&2; exit 2; }
mkdir -p "$work"

options=()
for feature in FTS3 FTS3_PARENTHESIS FTS4 FTS5 RTREE GEOPOLY STAT4 SESSION PREUPDATE_HOOK COLUMN_METADATA DBSTAT_VTAB \
    UNLOCK_NOTIFY RBU; do
    options+=("-DSQLITE_ENABLE_$feature")
done

# fixture NAME LIBRARIES OPTION...
fixture() {
    local name=$1 libraries=$2
    shift 2
    mkdir -p "$work/$name"
    (
        cd "$work/$name"
        [ -e Makefile ] || "$source/configure" --with-tcl="$tcl" >configure.log 2>&1
        rm -f testfixture
        # SQLite before 3.48 has the variables OPTS and LIBS, later versions have the others.
        make testfixture CFLAGS="-O1 -w" OPTIONS="${options[*]} $*" OPTS="${options[*]} $*" \
            LDFLAGS.libsqlite3="$libraries -lm -lz -lpthread -ldl" LIBS="$libraries -lpthread -ldl" >make.log 2>&1
    ) || { echo "sqlite-suite: see $work/$name/make.log" >&2; exit 1; }
}

cargo build --release --locked -p tonearm-sqlite-suite
library=$PWD/target/release/libsqlite_suite.a
# shellcheck disable=SC1091
(. "$tcl/tclConfig.sh" && cc -O1 -Wall -fPIC $TCL_INCLUDE_SPEC -c "$here/fixture.c" -o "$work/fixture.o")
[ -x "$work/stock/testfixture" ] || fixture stock ""
own=(-DSQLITE_EXTRA_INIT=suite_init)
[ "$batch" = 0 ] || own+=(-DSQLITE_ENABLE_BATCH_ATOMIC_WRITE)
fixture tonearm "-Wl,--wrap=sqlite3TestInit,--wrap=rename $work/fixture.o $library" "${own[@]}"

# A Makefile that ignores the variables above builds a program without the store and without the options, and without an error.
has() {
    local name=$1 words=$2 directory
    directory=$(mktemp -d)
    echo "$words" >"$directory/has.tcl"
    (cd "$directory" && TONEARM_STORE=$directory SUITE_STORE=$directory/s.tn "$work/$name/testfixture" has.tcl) |
        grep -qx yes || { echo "sqlite-suite: $work/$name/testfixture lacks: $words; see make.log" >&2; exit 1; }
    rm -rf "$directory"
}
stat4='sqlite3 db :memory:; if {[db one {SELECT sqlite_compileoption_used("ENABLE_STAT4")}]} {puts yes}'
has stock "$stat4"
has tonearm "$stat4"
has tonearm 'sqlite3 db :memory:; if {[llength [info commands store]] && [store list] eq ""} {puts yes}'

mkdir -p "$work/list"
(cd "$work/list" && "$work/stock/testfixture" "$here/list.tcl" "$source" "$work/scripts.txt" >/dev/null)
if [ $# -gt 0 ]; then
    scripts=$(while read -r path; do
        for pattern; do
            # shellcheck disable=SC2254
            case $(basename "$path" .test) in $pattern) echo "$path"; break ;; esac
        done
    done <"$work/scripts.txt")
else
    scripts=$(cat "$work/scripts.txt")
fi

# Tests of permissions fail when root runs them.
user=()
if [ "$(id -u)" = 0 ]; then
    user=(setpriv --reuid=65534 --clear-groups)
    chmod -R a+rX "$work" "$source"
fi

# run NAME SCRIPT: appends a line to the results: script, exit code of the process, errors, tests.
run() {
    local name=$1 script=$2 short directory log status=0 wrap=()
    short=$(basename "$script" .test)
    directory=$work/$name/run/$short
    log=$work/$name/log/$short.log
    rm -rf "$directory"
    mkdir -p "$directory/testdir"
    [ "$name" = stock ] || wrap=("$here/wrap.tcl")
    [ ${#user[@]} = 0 ] || chown -R 65534 "$directory"
    (
        cd "$directory"
        export TONEARM_STORE=$directory/testdir SUITE_STORE=$stores/sqlite-suite.$SLOT.tn
        timeout -k 5 "$limit" "${user[@]}" "$work/$name/testfixture" "${wrap[@]}" "$script"
    ) >"$log" 2>&1 </dev/null || status=$?
    rm -rf "$directory"
    local counts
    counts=$(grep -aoE '[0-9]+ errors out of [0-9]+ tests' "$log" | tail -n 1 | awk '{ print $1 "\t" $5 }')
    printf '%s\t%d\t%s\n' "$short" "$status" "${counts:--	-}" >>"$work/$name/results.tsv"
}
export -f run
declare -p user >"$work/user.sh"
export work here stores limit
for name in stock tonearm; do
    [ "$name" = tonearm ] || [ $# -gt 0 ] || [ ! -s "$work/stock/results.all" ] || continue
    rm -rf "$work/$name/log" "$work/$name/results.tsv"
    mkdir -p "$work/$name/log"
    # shellcheck disable=SC2016
    xargs -P "$jobs" --process-slot-var=SLOT -I{} bash -c '. "$work/user.sh"; run "$1" "$2"' - "$name" {} <<<"$scripts"
done
rm -f "$stores"/sqlite-suite.*.tn

awk -F'\t' -v known="$here/known.txt" '
    BEGIN { while ((getline line < known) > 0) if (line !~ /^#/ && split(line, word, " ") > 1) why[word[1]] = word[2] }
    FNR == NR { stock[$1] = $2 "\t" $3 "\t" $4; next }
    {
        split(stock[$1], other, "\t")
        if (other[1] != 0 || other[2] != "0") { unfit++; next }
        scripts++
        tests += $4
        if ($2 == 0 && $3 == 0) { passed++; if ($4 != other[3]) fewer++; next }
        errors += $3
        reason = $1 in why ? why[$1] : "UNKNOWN"
        count[reason]++
        if (!($1 in why)) bad = 1
        printf "%-24s %6s errors of %7s tests, stock 0 of %7s  %s\n", $1, $3, $4, other[3], reason
    }
    END {
        printf "%d scripts pass with the own VFS of SQLite (%d do not); with tonearm %d of them pass, %d tests with %d errors\n",
            scripts, unfit, passed, tests, errors
        printf "%d of those that pass run another number of tests\n", fewer
        for (reason in count) printf "  %-10s %d scripts\n", reason, count[reason]
        exit bad
    }' "$work/stock/results.tsv" "$work/tonearm/results.tsv"
