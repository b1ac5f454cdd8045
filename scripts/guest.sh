#!/bin/sh
# guest.sh: makes target/guest, from which the tests boot virtual machines: a kernel of Debian, its modules, busybox, the tools of
# three file systems, and the libraries that these and our programs need. Nothing is installed: the packages of the kernel
# and of busybox are downloaded and unpacked. The name of the kernel's package is in target/guest/package. Does nothing when that is there.
set -eu
cd "$(dirname "$0")/.."
guest=$PWD/target/guest
[ ! -e "$guest/package" ] || exit 0
# Debian installs tools of file systems in directories that only root has in PATH.
PATH="$PATH:/usr/sbin:/sbin"

fail() {
    echo "guest: $*" >&2
    exit 1
}
work=$guest.new
root=$work/root
rm -rf "$work"
mkdir -p "$work/packages" "$root/bin" "$root/dev" "$root/proc" "$root/sys" "$root/mnt" "$root/run"
cd "$work/packages"

# The newest cloud kernel of 6.12, the first series of Debian's with all modules that the tests use.
download() {
    kernel=$(apt-cache search --names-only '^linux-image-6\.12\.[0-9]+.*-cloud-amd64(-unsigned)?$' | cut -d' ' -f1 |
        sed 's/-unsigned$//' | sort -uV | tail -n 1)
    [ -n "$kernel" ] && apt-get download -qq -o Acquire::Retries=0 "$kernel" busybox-static 2>"$work/apt.log"
}
# The lists of packages may be missing or too old.
if ! download; then
    [ "$(id -u)" -ne 0 ] || apt-get update -qq || true
    download || fail "cannot download ${kernel:-linux-image-6.12.*-cloud-amd64} and busybox-static; run apt-get update, and look at \
/etc/apt/sources.list: $(cat "$work/apt.log" 2>/dev/null)"
fi
echo "guest: unpacking $kernel"
for package in *.deb; do dpkg-deb -x "$package" .; done
busybox=$(find . -path '*bin/busybox')
cp "$busybox" "$root/bin/busybox"
cp boot/vmlinuz-* "$work/vmlinuz"

version=$(ls lib/modules 2>/dev/null || ls usr/lib/modules)
found=$(find . -path "*lib/modules/$version" -type d)
modules=$root/lib/modules/$version
mkdir -p "$modules"
cp "$found/modules.builtin" "$found/modules.order" "$modules"
# Only what the guests load, and what that depends on; depmod finds the order.
for path in drivers/block/virtio_blk drivers/block/nbd drivers/block/ublk_drv drivers/md/dm-mod drivers/md/dm-flakey \
    drivers/md/dm-log-writes drivers/dax/dax fs/xfs/xfs fs/btrfs/btrfs lib/libcrc32c lib/lz4/lz4_compress crypto/xor \
    lib/raid6/raid6_pq crypto/xxhash_generic crypto/blake2b_generic crypto/crc32c_generic arch/x86/crypto/crc32c-intel; do
    file=$found/kernel/$path.ko
    [ -e "$file.xz" ] || [ -e "$file" ] || continue
    mkdir -p "$modules/kernel/$(dirname "$path")"
    if [ -e "$file.xz" ]; then
        "$root/bin/busybox" unxz -c "$file.xz" >"$modules/kernel/$path.ko"
    else
        cp "$file" "$modules/kernel/$path.ko"
    fi
done
"$root/bin/busybox" depmod -b "$root" "$version"

# Copies a program and its libraries to the places that they have here.
add() {
    program=$(command -v "$1") || fail "$1 is missing"
    cp "$program" "$root/bin/$1"
    for library in $(ldd "$program" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p; s/^[[:space:]]*\(\/[^ ]*\) (.*/\1/p'); do
        mkdir -p "$root$(dirname "$library")"
        [ -e "$root$library" ] || cp -L "$library" "$root$library"
    done
}
for program in mke2fs e2fsck mkfs.xfs xfs_repair mkfs.btrfs btrfs dmsetup; do add "$program"; done
# Our programs need these, too.
for library in libgcc_s.so.1 libm.so.6; do
    path=$(ldconfig -p | sed -n "s/.*$library (libc6,x86-64) => //p" | head -n 1)
    [ -n "$path" ] || path=$(PATH="$PATH:/sbin" ldconfig -p | sed -n "s/.*$library.*=> //p" | head -n 1)
    mkdir -p "$root$(dirname "$path")"
    cp -L "$path" "$root$path"
done
(cd "$root" && find . | ./bin/busybox cpio -o -H newc 2>/dev/null) >"$work/base.cpio"
cp "$root/bin/busybox" "$work/busybox"
rm -rf "$work/packages" "$root" "$work/apt.log"
echo "$kernel" >"$work/package"
# Complete systems that scripts/debian-volume.sh has packed.
mv "$guest"/debian-*.tar "$work" 2>/dev/null || true
rm -rf "$guest"
mv "$work" "$guest"
