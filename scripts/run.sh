#!/usr/bin/env bash
# run.sh: from nothing to a disk that serves. Makes run/store.tn, serves it, copies a real ext4 image in
# and out through a real NBD client, compares, and goes on serving until Ctrl-C. A store that is there
# already is served as it is.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PATH:/usr/sbin:/sbin"
store=${STORE:-run/store.tn}
size=${SIZE:-10GiB}
# With room for files and databases beside the disk.
store_size=${STORE_SIZE:-12GiB}
tonearm=target/release/tonearm
image=run/image.ext4
back=run/back.ext4
mkdir -p run

fresh=no
if [ ! -e "$store" ]; then
    fresh=yes
    "$tonearm" create "$store" --size "$store_size" --no-volume >run/create.out
    "$tonearm" volume create "$store" main --size "$size" >>run/create.out
    echo "== created $store ($store_size, sparse) with the volume main ($size)"
fi

# A process group of its own: Ctrl-C comes to this script, which then asks the server once.
: >run/serve.out
setsid "$tonearm" serve "$store" >run/serve.out &
server=$!
# shellcheck disable=SC2317
stop() {
    trap '' INT TERM
    trap - EXIT
    kill -TERM "$server" 2>/dev/null || true
    local status=0
    wait "$server" || status=$?
    exit "$((status != 0 ? status : $1))"
}
trap 'echo; stop 0' INT TERM
trap 'stop 1' EXIT
until grep -q '^serving ' run/serve.out; do
    kill -0 "$server" 2>/dev/null || { echo "run: the server did not start" >&2; exit 1; }
    sleep 0.05
done
uri=$(sed -n 's/^serving //p' run/serve.out)
echo "== serving $uri"

if [ "$fresh" = no ]; then
    echo "== $store was there already: served as it is (remove run/ to start afresh)"
else
    # An ext4 file system that holds this project's sources.
    rm -rf run/files "$image" "$back"
    mkdir -p run/files
    cp -r crates docs Cargo.toml run/files/
    truncate -s 64M "$image"
    mkfs.ext4 -q -d run/files "$image"
    if command -v nbdcopy >/dev/null 2>&1; then
        echo "== nbdcopy: $image in, the disk out to $back"
        nbdcopy --flush "$image" "$uri"
        nbdcopy "$uri" "$back"
    elif command -v qemu-img >/dev/null 2>&1; then
        echo "== qemu-img convert: $image in, the disk out to $back"
        qemu-img convert -n -f raw -O raw "$image" "$uri"
        qemu-img convert -f raw -O raw "$uri" "$back"
    else
        echo "== no NBD client here: apt-get install libnbd-bin (or qemu-utils), then remove run/ and try again" >&2
    fi
    if [ -e "$back" ]; then
        cmp -n "$(stat -c %s "$image")" "$image" "$back"
        e2fsck -fn "$back" >/dev/null 2>&1 || { echo "run: the file system came back damaged" >&2; exit 1; }
        echo "== the same bytes came back, and the file system is sound"
    fi
fi

socket=$PWD/$store.sock
cat <<END

  The disk:  $uri

  Try, in another terminal:
    nbdinfo '$uri'
    $tonearm stats $store --watch
    fio --name=try --ioengine=nbd --uri='$uri' --rw=randwrite --bs=4k --fsync=1 --runtime=5 --time_based
    nbdfuse run/disk.img '$uri' &    then, as root: mount -o loop run/disk.img /mnt
    $tonearm sqlite shell $store try.db    (SQLite in the same store; needs sqlite3)
    kill -9 $server, then make run again: nothing that was flushed is lost
    qemu-system-x86_64 -drive file=nbd:unix:$socket:exportname=main,format=raw,if=virtio ...

  Ctrl-C closes it in order.
END
# A signal interrupts the first wait; the trap then ends the script.
status=0
wait "$server" || status=$?
trap - EXIT
echo "run: the server has ended" >&2
exit "$((status != 0 ? status : 1))"
