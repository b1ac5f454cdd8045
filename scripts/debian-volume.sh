#!/bin/sh
# debian-volume.sh [--nbd] STORE [VOLUME [PACKAGE...]]: makes a Debian system with these packages on a volume (main), and prints the
# commands that serve and boot it. STORE is made when there is none. The kernel is written beside it, because QEMU loads the kernel from
# files: STORE.VOLUME.vmlinuz and STORE.VOLUME.initrd. With --nbd QEMU reaches the volume by NBD, otherwise by vhost-user.
#
# What is on the volume is lost. The packages are those of this machine's Debian, from where its apt has them.
#
#   SIZE=4GiB       size of a store that is made
#   CACHE=DIR       keep the packed system in DIR, and take it from there the next time
#   TONEARM=PATH    the program; target/release/tonearm when it was built, otherwise that in PATH
set -eu
PATH="$PATH:/usr/sbin:/sbin"

fail() {
    echo "debian-volume: $*" >&2
    exit 1
}
say() { echo "debian-volume: $*" >&2; }

way=vhost-user
if [ "${1:-}" = --nbd ]; then
    way=nbd
    shift
fi
case ${1:-} in
    "" | -*)
        sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
esac
[ "$(id -u)" -eq 0 ] || fail "run it as root, because the files of the system have their owners"
store=$(realpath "$1")
volume=${2:-main}
[ $# -lt 2 ] || shift
shift
base=$store.$volume
[ "$(printf %s "$base.sock" | wc -c)" -le 107 ] || fail "the path of the socket, $base.sock, has more than 107 bytes"
built=$(dirname "$0")/../target/release/tonearm
tonearm=${TONEARM:-$(if [ -x "$built" ]; then realpath "$built"; else command -v tonearm || echo tonearm; fi)}
command -v "$tonearm" >/dev/null || fail "there is no $tonearm; cargo build --release -p tonearm makes target/release/tonearm"

missing=
need() { command -v "$1" >/dev/null 2>&1 || missing="$missing $2"; }
need mmdebstrap mmdebstrap
need mke2fs e2fsprogs
need qemu-system-x86_64 qemu-system-x86
[ -z "$missing" ] || fail "missing packages; install them with: sudo apt-get install$missing"

[ -e "$store" ] || "$tonearm" create "$store" --size "${SIZE:-4GiB}" >&2
bytes=$("$tonearm" volume list "$store" --json | tr -d ' \n' | tr '{' '\n' |
    sed -n "s/.*\"name\":\"$volume\".*\"size_bytes\":\([0-9]*\).*/\1/p")
[ -n "$bytes" ] || fail "$store has no volume $volume; tonearm volume create $store $volume --size 4GiB makes it"

work=$(mktemp -d "$base.XXXXXX")
# shellcheck disable=SC2064
trap "rm -rf '$work'" EXIT
trap 'exit 1' INT TERM

# Packs a Debian system into the file $1. Its root has no password. It needs no network to start.
pack() {
    packed=$1
    shift
    apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Identifier: Packages' 'Origin: Debian' |
        awk '!seen[$0]++' >"$work/sources"
    suite=$(awk 'NR == 1 { print $3 }' "$work/sources")
    [ -n "$suite" ] || fail "apt has no lists of Debian's packages; run: sudo apt-get update"
    packages=linux-image-cloud-amd64,systemd-sysv,udev
    for package in "$@"; do packages=$packages,$package; done
    say "packing Debian $suite with $packages, which takes a minute or two"
    mmdebstrap --quiet --format=tar --variant=minbase --include="$packages" \
        --customize-hook='chroot "$1" passwd --quiet --delete root' \
        --customize-hook='echo debian >"$1/etc/hostname"' \
        --customize-hook='echo "/dev/vda / ext4 defaults 0 1" >"$1/etc/fstab"' \
        "$suite" "$packed.new" - <"$work/sources" >&2 || fail "mmdebstrap failed; its messages are above"
    mv "$packed.new" "$packed"
}
tar=$work/root.tar
if [ -n "${CACHE:-}" ]; then
    mkdir -p "$CACHE"
    name=debian$([ $# -eq 0 ] || printf -- '-%s' "$@")
    tar=$(realpath "$CACHE")/$name.$(cksum <"$0" | cut -d' ' -f1).tar
    # Another version of this script made the other ones.
    [ -e "$tar" ] || rm -f "$CACHE/$name".*.tar
fi
[ -e "$tar" ] || pack "$tar" "$@"

say "writing it to volume $volume of $store"
# mke2fs copies a directory, so nothing has to be mounted.
mkdir "$work/tree"
truncate -s "$bytes" "$work/image"
sh -euc '
    tar -xpf "$2" -C "$1/tree"
    mke2fs -q -F -t ext4 -L root -d "$1/tree" "$1/image"
    # The newest kernel, when the packages have several.
    kernel=$(ls "$1/tree/boot" | sed -n "s/^vmlinuz-//p" | sort -V | tail -n 1)
    cat "$1/tree/boot/vmlinuz-$kernel" >"$3.vmlinuz"
    cat "$1/tree/boot/initrd.img-$kernel" >"$3.initrd"
    rm -rf "$1/tree"
' sh "$work" "$tar" "$base" || fail "the system does not fit into the $bytes bytes of volume $volume, or $base cannot be written"
"$tonearm" volume put "$store" "$volume" "$work/image" >&2

if [ $way = nbd ]; then
    options="--ack write --socket $base.sock"
    disk="-m 1G -drive driver=nbd,server.type=unix,server.path=$base.sock,export=$volume,reconnect-delay=60,discard=unmap,werror=stop,rerror=stop,if=virtio"
else
    options="--vhost-user $base.sock:$volume"
    disk="-m 1G -object memory-backend-memfd,id=mem,size=1G,share=on -numa node,memdev=mem -chardev socket,id=disk,path=$base.sock,reconnect=1 -device vhost-user-blk-pci,chardev=disk"
fi
cat <<END
Serve the volume in one terminal, and again after each crash or kill -9 of the server:

    $tonearm serve $store $options

Boot it in another one. Log in as root, without a password. poweroff ends it. -accel kvm is faster where there is /dev/kvm.

    qemu-system-x86_64 -M q35 -accel tcg -nographic -no-reboot $disk -kernel $base.vmlinuz -initrd $base.initrd -append "root=/dev/vda rw console=ttyS0"
END
