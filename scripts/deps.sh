#!/bin/sh
# deps.sh run|test: the programs that `make run` and `make test` drive. Installs what is missing when it
# can (root, Debian); otherwise says what to install. Takes a few milliseconds when nothing is missing.
set -eu

# program:package, or /file:package
programs_run="mkfs.ext4:e2fsprogs e2fsck:e2fsprogs cc:gcc cmp:diffutils setsid:util-linux"
programs_test="$programs_run c++:g++ git:git nbdcopy:libnbd-bin nbdinfo:libnbd-bin nbdsh:python3-libnbd
    nbdfuse:libnbd-bin nbdkit:nbdkit qemu-img:qemu-utils qemu-io:qemu-utils qemu-nbd:qemu-utils fio:fio
    mkfs.xfs:xfsprogs xfs_repair:xfsprogs fusermount3:fuse3 losetup:mount openssl:openssl
    systemd-socket-activate:systemd kill:procps gzip:gzip sqlite3:sqlite3 python3:python3 nm:binutils
    pgrep:procps /usr/include/sqlite3.h:libsqlite3-dev"

# Debian keeps some of them where only root's PATH leads.
PATH="$PATH:/usr/sbin:/sbin"

missing_packages() {
    for pair in $1; do
        case $pair in
            /*) [ -e "${pair%%:*}" ] ;;
            *) command -v "${pair%%:*}" >/dev/null 2>&1 ;;
        esac || echo "${pair#*:}"
    done | sort -u | tr '\n' ' '
}

case ${1:-test} in
    run) programs=$programs_run ;;
    *) programs=$programs_test ;;
esac
command -v cargo >/dev/null 2>&1 || {
    echo "deps: cargo is missing; see https://rustup.rs" >&2
    exit 1
}
missing=$(missing_packages "$programs")
[ -n "$missing" ] || exit 0
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "deps: installing $missing"
    # Newer Debian has some programs in packages of their own.
    case " $missing " in
        *" libnbd-bin "*) missing="$missing $(apt-cache search --names-only '^nbdfuse$' 2>/dev/null | cut -d' ' -f1)" ;;
    esac
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq || true
    # shellcheck disable=SC2086
    apt-get install -y -qq --no-install-recommends $missing >/dev/null || true
    missing=$(missing_packages "$programs")
    [ -n "$missing" ] || exit 0
fi
echo "deps: missing packages: $missing" >&2
echo "deps: install them with: sudo apt-get install $missing" >&2
exit 1
