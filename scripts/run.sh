#!/usr/bin/env bash
# run.sh: shows a store at work. Creates run/store.tn, serves it, copies an ext4 file system in, kills the server with
# SIGKILL, serves again, copies the file system out, compares the two, and goes on serving until Ctrl-C. It needs no NBD
# client, but repeats the copy with each client that is installed. A store that exists already is scrubbed and served.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v mkfs.ext4 >/dev/null 2>&1 || PATH="$PATH:/usr/sbin:/sbin"
store=${STORE:-run/store.tn}
size=${SIZE:-10GiB}
# Larger than the volume, which leaves space for files and databases.
store_size=${STORE_SIZE:-12GiB}
tonearm=target/release/tonearm
mkdir -p run

have() { command -v "$1" >/dev/null 2>&1; }
fail() { echo "run: $*" >&2; exit 1; }

server=
fresh=no
ready=no
# shellcheck disable=SC2317
stop() {
    trap '' INT TERM
    trap - EXIT
    local status=0
    if [ -n "$server" ]; then
        kill -TERM "$server" 2>/dev/null || true
        wait "$server" || status=$?
    fi
    if [ "$fresh$ready" = yesno ]; then
        # Without this the next run would take the store for a verified one.
        [ ! -e "$store" ] || mv -f "$store" "$store.failed"
        echo "run: ended before the copy was verified; the store, if it was created, is now $store.failed" >&2
        exit "$(($1 != 0 ? $1 : 130))"
    fi
    exit "$((status != 0 ? status : $1))"
}
trap 'echo; stop 0' INT TERM
trap 'stop 1' EXIT

# The server has a process group of its own, so that Ctrl-C reaches only this script, which then stops the server once.
serve() {
    : >run/serve.out
    setsid "$tonearm" serve "$store" >run/serve.out &
    server=$!
    until grep -q '^serving ' run/serve.out; do
        kill -0 "$server" 2>/dev/null || fail "the server did not start"
        sleep 0.05
    done
    uri=$(sed -n 's/^serving //p' run/serve.out)
}

kill_and_serve_again() {
    kill -9 "$server"
    { wait "$server" || true; } 2>/dev/null
    serve
    echo "== killed the server with -9, serving again: $uri"
}

# make_image FILE LABEL: an ext4 file system with the label, so that each image differs.
make_image() {
    truncate -s 64M "$1"
    mkfs.ext4 -q -L "$2" -d run/files "$1"
}

# same IMAGE COPY: checks that the copy begins with the image's bytes and is a valid file system.
same() {
    cmp -n "$(stat -c %s "$1")" "$1" "$2" || fail "other bytes came back than went in"
    e2fsck -fn "$2" >/dev/null 2>&1 || fail "the file system came back damaged"
    echo "== the same bytes came back, and the file system is sound"
    rm -f "$2"
}

if [ -e "$store" ]; then
    serve
    echo "== $store was there already: served as it is (remove run/ to start afresh)"
    "$tonearm" volume list "$store"
    "$tonearm" scrub "$store" || fail "the store has damaged blocks"
else
    fresh=yes
    "$tonearm" create "$store" --size "$store_size" --no-volume >run/create.out
    "$tonearm" volume create "$store" main --size "$size" >>run/create.out
    echo "== created $store ($store_size, sparse) with the volume main ($size)"
    serve
    echo "== serving $uri"

    # Ext4 file systems that hold this project's sources.
    rm -rf run/files run/*.ext4
    mkdir run/files
    cp -r disk docs Cargo.toml run/files/

    make_image run/image.ext4 tonearm
    echo "== tonearm volume put: run/image.ext4 in"
    "$tonearm" volume put "$store" main run/image.ext4
    kill_and_serve_again
    echo "== tonearm volume get: the disk out"
    "$tonearm" volume get "$store" main run/back.ext4
    same run/image.ext4 run/back.ext4

    if have nbdcopy; then
        make_image run/nbdcopy.ext4 nbdcopy
        echo "== nbdcopy: run/nbdcopy.ext4 in, the disk out"
        nbdcopy --flush run/nbdcopy.ext4 "$uri"
        kill_and_serve_again
        nbdcopy "$uri" run/back.ext4
        same run/nbdcopy.ext4 run/back.ext4
    fi
    if have qemu-img; then
        make_image run/qemu-img.ext4 qemu-img
        echo "== qemu-img convert: run/qemu-img.ext4 in, the disk out"
        qemu-img convert -n -f raw -O raw run/qemu-img.ext4 "$uri"
        kill_and_serve_again
        qemu-img convert -f raw -O raw "$uri" run/back.ext4
        same run/qemu-img.ext4 run/back.ext4
    fi
fi
ready=yes

# try PROGRAM PACKAGE COMMAND: prints the command when the program is installed, otherwise adds the package to $missing.
missing=
try() {
    if have "$1"; then
        echo "    $3"
    else
        case " $missing " in *" $2 "*) ;; *) missing="$missing${missing:+ }$2" ;; esac
    fi
}
socket=$(realpath "$store").sock
echo
echo "  The disk:  $uri"
echo
echo "  Try, in another terminal:"
echo "    $tonearm stats $store --watch"
echo "    $tonearm volume get $store main copy.raw"
try sqlite3 sqlite3 "$tonearm sqlite shell $store try.db    (SQLite in the same store)"
try nbdinfo libnbd-bin "nbdinfo '$uri'"
if ! have fio || fio --enghelp 2>/dev/null | grep -qw nbd; then
    try fio fio "fio --name=try --ioengine=nbd --uri='$uri' --rw=randwrite --bs=4k --fsync=1 --runtime=5 --time_based"
fi
try nbdfuse libnbd-bin "touch run/disk.img; nbdfuse run/disk.img '$uri' &    then, as root: mount -o loop run/disk.img /mnt"
try qemu-system-x86_64 qemu-system-x86 \
    "qemu-system-x86_64 -drive file=nbd:unix:$socket:exportname=main,format=raw,if=virtio ..."
echo "    kill -9 $server, then make run again: nothing that was flushed is lost"
[ -z "$missing" ] || echo "  And more, after: apt-get install $missing"
echo
echo "  Ctrl-C closes it in order."
# A signal interrupts the first wait, and the trap then ends the script.
status=0
wait "$server" || status=$?
trap - EXIT
echo "run: the server has ended" >&2
exit "$((status != 0 ? status : 1))"
