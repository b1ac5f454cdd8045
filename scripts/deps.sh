#!/bin/sh
# deps.sh run|test: checks for the programs that `make run` and `make test` need. As root on Debian it installs what is
# missing, otherwise it prints the command that does. `run` tries once to install NBD clients, and goes on without them.
# The check takes a few milliseconds when nothing is missing.
set -eu

# program:package, or /file:package
programs_run="mkfs.ext4:e2fsprogs e2fsck:e2fsprogs cc:gcc cmp:diffutils setsid:util-linux"
wanted_run="nbdcopy:libnbd-bin nbdinfo:libnbd-bin nbdfuse:libnbd-bin"
programs_test="$programs_run c++:g++ git:git nbdcopy:libnbd-bin nbdinfo:libnbd-bin nbdsh:python3-libnbd
    nbdfuse:libnbd-bin nbdkit:nbdkit qemu-img:qemu-utils qemu-io:qemu-utils qemu-nbd:qemu-utils fio:fio
    mkfs.xfs:xfsprogs xfs_repair:xfsprogs fusermount3:fuse3 losetup:mount openssl:openssl
    systemd-socket-activate:systemd kill:procps gzip:gzip sqlite3:sqlite3 python3:python3 nm:binutils
    pgrep:procps /usr/lib/postgresql:postgresql unshare:util-linux /usr/include/sqlite3.h:libsqlite3-dev go:golang-go
    stress-ng:stress-ng dbench:dbench tar:tar setfacl:acl mkfs.btrfs:btrfs-progs dmsetup:dmsetup strip:binutils
    qemu-system-x86_64:qemu-system-x86 /usr/share/seabios:seabios mmdebstrap:mmdebstrap
    virt-qemu-run:libvirt-daemon-driver-qemu"

# Debian installs some of the programs in directories that only root has in PATH.
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
can_install() { [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; }

install() {
    echo "deps: installing $*"
    # Newer Debian releases have some of these programs in separate packages.
    case " $* " in
        *" libnbd-bin "*) set -- "$@" $(apt-cache search --names-only '^nbdfuse$' 2>/dev/null | cut -d' ' -f1) ;;
    esac
    # The timeouts are short, so that a machine without a network fails fast.
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        -o Acquire::Retries=0 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 "$@" >/dev/null || true
}

update() { apt-get update -qq -o Acquire::Retries=0 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 || true; }

missing=$(missing_packages "$programs")
if [ -n "$missing" ] && can_install; then
    update
    # shellcheck disable=SC2086
    install $missing
    missing=$(missing_packages "$programs")
fi
if [ -n "$missing" ]; then
    echo "deps: missing packages: $missing" >&2
    echo "deps: install them with: sudo apt-get install $missing" >&2
    exit 1
fi
# The S3 server of the tests is no Debian package. Its puts on a condition are atomic from 1.8 on.
versitygw=github.com/versity/versitygw/cmd/versitygw@v1.8.0
# Built once for all checkouts, as the packages are installed once. Another version of a tool needs another number here and in
# test/e2e/src/tool.rs.
tools=${TONEARM_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/tonearm-tools-1}
if [ "${1:-test}" = test ] && ! PATH="$tools/bin:$PATH" command -v versitygw >/dev/null 2>&1; then
    echo "deps: building versitygw, which takes some minutes"
    GOBIN=$tools/bin GOFLAGS=-modcacherw CGO_ENABLED=0 go install "$versitygw" || {
        echo "deps: versitygw is missing, and it could not be built; install a newer Go, and try:" >&2
        echo "deps:   GOBIN=$tools/bin go install $versitygw" >&2
        exit 1
    }
fi
# Suites for the file system, as programs of crates.io. They need no speed, so they are built without optimisation.
for suite in pjdfstest@0.2.2 fsx@0.3.2; do
    if [ "${1:-test}" = test ] && ! PATH="$tools/bin:$PATH" command -v "${suite%@*}" >/dev/null 2>&1; then
        echo "deps: building $suite, which takes a minute"
        cargo install --quiet --debug --locked --root "$tools" "$suite" || {
            echo "deps: ${suite%@*} is missing, and it could not be built; try:" >&2
            echo "deps:   cargo install --debug --locked --root $tools $suite" >&2
            exit 1
        }
    fi
done
tried=run/deps.tried
if [ "${1:-test}" = run ] && [ ! -e "$tried" ] && can_install; then
    missing=$(missing_packages "$wanted_run")
    [ -n "$missing" ] || exit 0
    mkdir -p run
    : >"$tried"
    update
    # shellcheck disable=SC2086
    install $missing
    missing=$(missing_packages "$wanted_run")
    [ -z "$missing" ] || echo "deps: going on without $missing"
fi
