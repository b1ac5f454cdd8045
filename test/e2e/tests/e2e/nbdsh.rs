//! Details of the NBD protocol, tested with libnbd.

use tonearm_tests::{Bench, contains};

/// Functions that the Python programs share: `extents` of a range, and `fails` for calls that must fail with an errno.
const PRELUDE: &str = "
import errno, nbd
def extents(offset, length, flags=0):
    found = []
    def extent(context, at, entries, error):
        assert context == nbd.CONTEXT_BASE_ALLOCATION and at == offset, (context, at)
        found.extend(zip(entries[0::2], entries[1::2]))
    h.block_status(length, offset, extent, flags)
    return found
def fails(code, call, *arguments):
    try:
        call(*arguments)
    except nbd.Error as error:
        assert error.errnum == code, (error, code)
    else:
        raise AssertionError('succeeded: %r' % (arguments,))
HOLE = nbd.STATE_HOLE | nbd.STATE_ZERO
M = 1 << 20
";

fn run(bench: &Bench, uri: &str, program: &str) {
    let connect = format!("h.connect_uri({uri:?})\n");
    let negotiate = "h.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)\n";
    let program = format!("{PRELUDE}{negotiate}{connect}{program}");
    bench.tool(
        "nbdsh",
        &[
            "-n",
            "-c",
            "import nbd; h = nbd.NBD(); h.set_strict_mode(0)",
            "-c",
            &program,
        ],
    );
}

#[test]
fn block_status_distinguishes_data_from_holes() {
    let bench = Bench::with_store("256MiB");
    let server = bench.serve_store();
    run(
        &bench,
        &server.uri,
        "
assert extents(0, 64*M) == [(64*M, HOLE)], extents(0, 64*M)
h.pwrite(b'x' * M, 8*M)
assert extents(0, 64*M) == [(8*M, HOLE), (M, 0), (55*M, HOLE)], extents(0, 64*M)
one = extents(0, 64*M, nbd.CMD_FLAG_REQ_ONE)
assert one == [(8*M, HOLE)], one
h.trim(M // 2, 8*M + M // 4)
assert h.pread(M, 8*M) == b'x' * (M//4) + bytes(M//2) + b'x' * (M//4)
assert extents(8*M, M) == [(M//4, 0), (M//2, HOLE), (M//4, 0)], extents(8*M, M)
h.zero(M, 8*M, nbd.CMD_FLAG_NO_HOLE)
assert all(kind & nbd.STATE_ZERO for _, kind in extents(8*M, M)), extents(8*M, M)
assert h.pread(M, 8*M) == bytes(M)
h.zero(M, 8*M)
assert h.pread(M, 8*M) == bytes(M)
# Unaligned: only whole blocks can become holes, the rest is zeroed (or, for trim, may be kept).
h.pwrite(b'y' * 16384, 0)
h.zero(10000, 1)
assert h.pread(16384, 0) == b'y' + bytes(10000) + b'y' * (16384 - 10001)
",
    );
}

#[test]
fn command_flags_follow_the_protocol() {
    let bench = Bench::with_store("256MiB");
    let server = bench.serve_store();
    run(
        &bench,
        &server.uri,
        "
assert h.get_structured_replies_negotiated()
h.pwrite(b'a' * 4096, 4096, nbd.CMD_FLAG_FUA)
assert h.pread(8192, 0) == bytes(4096) + b'a' * 4096
# DF: one chunk, data and hole together.
chunks = []
def chunk(buffer, offset, status, error): chunks.append((len(buffer), status))
h.pread_structured(8192, 0, chunk, nbd.CMD_FLAG_DF)
assert chunks == [(8192, nbd.READ_DATA)], chunks
chunks.clear()
h.pread_structured(8192, 0, chunk)
assert sum(length for length, _ in chunks) == 8192, chunks
h.zero(4096, 4096, nbd.CMD_FLAG_FAST_ZERO | nbd.CMD_FLAG_FUA)
h.zero(64*M, 0, nbd.CMD_FLAG_FAST_ZERO)
assert h.pread(8192, 0) == bytes(8192)
h.trim(4096, 0, nbd.CMD_FLAG_FUA)
h.cache(M, 0)
h.flush()
",
    );
    let stats = bench.json(&["stats", "s.tn", "--json"]);
    let sum = |field: &str| stats["store"][field].as_u64().expect("a number");
    assert!(
        sum("log_flushes") + sum("log_durable_writes") >= 3,
        "FUA and FLUSH reach the log's device: {stats}"
    );
}

#[test]
fn thirty_two_mebibytes_in_one_request() {
    let bench = Bench::created(&["--size", "256MiB"]);
    let server = bench.serve_store();
    run(
        &bench,
        &server.uri,
        "
big = bytes(range(256)) * (32*M // 256)
h.pwrite(big, 4096 + 7)
h.flush()
assert h.pread(32*M, 4096 + 7) == big
assert h.pread(4096 + 7, 0) == bytes(4096 + 7)
fails(errno.EOVERFLOW, h.pread, 32*M + 1, 0)
assert h.pread(1, 4096 + 7) == big[:1]
",
    );
}

#[test]
fn requests_beyond_the_end_fail_without_disconnecting() {
    let bench = Bench::with_store("256MiB");
    let server = bench.serve_store();
    run(
        &bench,
        &server.uri,
        "
size = h.get_size()
fails(errno.ENOSPC, h.pwrite, b'x' * 2, size - 1)
fails(errno.ENOSPC, h.zero, 4096, size)
fails(errno.EINVAL, h.pread, 2, size - 1)
fails(errno.EINVAL, h.trim, 4096, size)
fails(errno.EINVAL, h.cache, 4096, size)
fails(errno.EINVAL, extents, size, 4096)
fails(errno.EINVAL, h.pread, 1, 1 << 62)
h.pwrite(b'z', size - 1)
assert h.pread(1, size - 1) == b'z'
",
    );
}

#[test]
fn a_read_only_server_refuses_changes() {
    let bench = Bench::with_store("16MiB");
    let server = bench.serve(&["s.tn", "--socket", "s.sock", "--read-only"]);
    run(
        &bench,
        &server.uri,
        "
assert h.is_read_only()
for call in (lambda: h.pwrite(b'x', 0), lambda: h.zero(4096, 0), lambda: h.trim(4096, 0)):
    fails(errno.EPERM, call)
assert h.pread(4096, 0) == bytes(4096)
",
    );
}

#[test]
fn a_read_only_volume_refuses_changes_and_another_takes_them() {
    let bench = Bench::with_small_store(&[]);
    bench.ok(&["volume", "create", "s.tn", "other", "--size", "16MiB"]);
    let server = bench.serve_store();
    let mut writer = server.client("main");
    writer.write(0, &[7; 4096], 0).expect("written");
    let set = bench.ok(&["volume", "set", "s.tn", "main", "--read-only"]);
    contains(&set, "volume main is read-only now");
    let error = writer.write(0, &[8; 4096], 0).expect_err("read-only");
    assert_eq!(error.raw_os_error(), Some(1), "EPERM: {error}");
    let refuses = format!(
        "
assert h.is_read_only()
for call in (lambda: h.pwrite(b'x', 0), lambda: h.zero(4096, 0), lambda: h.trim(4096, 0)):
    fails(errno.EPERM, call)
assert h.pread(4096, 0) == b'\\x07' * 4096
other = nbd.NBD()
other.connect_uri({:?})
assert not other.is_read_only()
other.pwrite(b'y', 0)
",
        server.uri_of("other")
    );
    run(&bench, &server.uri, &refuses);
    bench.write("image", &[9; 8192]);
    for change in [
        &["volume", "delete", "s.tn", "main"][..],
        &["volume", "resize", "s.tn", "main", "--size", "8MiB"],
        &["volume", "put", "s.tn", "main", "image", "--force"],
    ] {
        let ran = bench.run(change);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        contains(&ran.err, "`tonearm volume set STORE main --read-write`");
    }
    server.kill9();
    // The mode survives a crash and a close.
    let server = bench.serve_store();
    run(&bench, &server.uri, &refuses);
    server.end_ok();
    let modes = |bench: &Bench| {
        let list = bench.json(&["volume", "list", "s.tn", "--json"]);
        [0, 1].map(|at| list["volumes"][at]["read_only"] == true)
    };
    assert_eq!(modes(&bench), [true, false]);
    contains(&bench.ok(&["info", "s.tn"]), "read-only");
    bench.ok(&["volume", "set", "s.tn", "main", "--read-write"]);
    bench.ok(&["volume", "set", "s.tn", "other", "--read-only"]);
    assert_eq!(modes(&bench), [false, true]);
    let server = bench.serve_store();
    let writes = "assert not h.is_read_only(); h.pwrite(b'z', 0)";
    run(&bench, &server.uri, writes);
    let both = [
        "volume",
        "set",
        "s.tn",
        "main",
        "--read-only",
        "--read-write",
    ];
    assert_eq!(bench.run(&both).code, Some(2));
    assert_eq!(bench.run(&both[..4]).code, Some(2));
}

#[test]
fn each_volume_is_an_export_and_the_empty_name_is_main() {
    let bench = Bench::with_small_store(&[]);
    bench.ok(&["volume", "create", "s.tn", "other", "--size", "24MiB"]);
    let server = bench.serve_store();
    run(
        &bench,
        &server.uri_of("other"),
        &format!(
            "
assert h.get_size() == 24*M
h.pwrite(b'other', 100)
main, default = nbd.NBD(), nbd.NBD()
main.connect_uri({main:?})
default.connect_uri({default:?})
assert main.get_size() == default.get_size() == 16*M
main.pwrite(b'main!', 100)
# Two connections, one disk: what one wrote the other reads.
assert default.can_multi_conn() and default.pread(5, 100) == b'main!'
assert h.pread(5, 100) == b'other'
listing = nbd.NBD()
listing.set_opt_mode(True)
listing.connect_uri({main:?})
names = []
listing.opt_list(lambda name, description: names.append(name))
assert names == ['main', 'other'], names
listing.opt_abort()
missing = nbd.NBD()
fails(errno.ENOENT, missing.connect_uri, {missing:?})
",
            main = server.uri,
            default = server.uri_of(""),
            missing = server.uri_of("missing"),
        ),
    );
}
