//! The file system below the store is full. Clients wait or get ENOSPC, everything acknowledged as durable survives,
//! and freed space is used again.

use rustix::io::Errno;
use std::fs::{self, File};
use std::io::Write;
use std::time::{Duration, Instant};
use tonearm_tests::mount::{Loop, Mount, fuse_possible, possible, small_host};
use tonearm_tests::nbd::Client;
use tonearm_tests::{Bench, MIB, Server, TreeMount, noise, skipped, wait_until};

const STEP: usize = 256 << 10;

/// A file system of `bytes` with a store that may become larger. The mount must be dropped before its device.
fn host(bench: &Bench, bytes: u64) -> (Loop, Mount) {
    let (device, mount) = small_host(bench, bytes);
    let sizes = ["--size", "256MiB", "--log-size", "16MiB"];
    bench.ok(&[&["create", "host/s.tn"], &sizes[..]].concat());
    (device, mount)
}

fn serve(bench: &Bench) -> Server {
    bench.serve(&["host/s.tn", "--socket", "s.sock", "--memory", "32MiB"])
}

/// Writes and flushes until that fails. Returns the bytes that were flushed, fewer than `most`, and the error.
fn fill(client: &mut Client, most: u64) -> (u64, std::io::Error) {
    let mut flushed = 0;
    loop {
        assert!(flushed < most, "a full file system held {flushed}");
        let bytes = noise(flushed, STEP);
        let done = client.write(flushed, &bytes, 0);
        match done.and_then(|()| client.flush()) {
            Ok(()) => flushed += STEP as u64,
            Err(error) => return (flushed, error),
        }
    }
}

/// Reads what was flushed.
fn check(client: &mut Client, flushed: u64) {
    for offset in (0..flushed).step_by(STEP) {
        let read = client.read(offset, STEP as u32).expect("read");
        assert!(read == noise(offset, STEP), "at {offset} of {flushed}");
    }
}

#[test]
fn full_host_loses_nothing_flushed_and_uses_freed_space() {
    if let Err(why) = possible() {
        return skipped("a store on a full file system", &why);
    }
    let bench = Bench::new();
    let (_device, host) = host(&bench, 96 * MIB);
    // A file that the test removes later to free space.
    std::fs::write(host.root().join("ballast"), noise(5, 24 << 20)).expect("written");

    let mut server = serve(&bench);
    let mut client = server.client("main");
    // The timeout keeps a client that has to wait from blocking the test forever.
    let patience = Some(Duration::from_secs(3));
    client.stream().set_read_timeout(patience).expect("set");
    let (flushed, stopped) = fill(&mut client, 100 * MIB);
    println!("{flushed} bytes were flushed; then: {stopped}");
    assert!(flushed > 8 * MIB, "{flushed}");
    let waits = matches!(
        stopped.kind(),
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
    );
    assert!(
        waits || stopped.raw_os_error() == Some(28),
        "neither a wait nor ENOSPC: {stopped}"
    );
    assert!(server.runs());
    // While the file system is full, flushed data can be read.
    check(&mut server.client("main"), flushed);
    // After space has been freed, writes continue without a restart.
    std::fs::remove_file(host.root().join("ballast")).expect("removed");
    let mut late = server.client("main");
    late.stream().set_read_timeout(patience).expect("set");
    wait_until("writing again", Duration::from_secs(20), || {
        let written = late.write(200 * MIB, &[9; 4096], 0);
        let done = written.and_then(|()| late.flush());
        if done.is_err() {
            late = server.client("main");
            late.stream().set_read_timeout(patience).expect("set");
        }
        done.is_ok()
    });
    server.kill9();

    let server = serve(&bench);
    let mut client = server.client("main");
    check(&mut client, flushed);
    assert_eq!(client.read(200 * MIB, 4096).expect("read"), [9; 4096]);
    server.end_ok();
    bench.ok(&["check", "host/s.tn"]);
}

#[test]
fn store_killed_while_full_recovers_with_space() {
    if let Err(why) = possible() {
        return skipped("a store on a full file system", &why);
    }
    let bench = Bench::new();
    let (_device, host) = host(&bench, 64 * MIB);
    // The ballast takes all space that the store does not have.
    let mut ballast = std::fs::File::create(host.root().join("ballast")).expect("a file");
    let filler = noise(6, 64 << 10);
    while std::io::Write::write_all(&mut ballast, &filler).is_ok() {}
    let _ = ballast.sync_all();
    let server = serve(&bench);
    let mut client = server.client("main");
    let patience = Some(Duration::from_secs(2));
    client.stream().set_read_timeout(patience).expect("set");
    // The log's space was allocated at creation, so the log still takes some writes.
    let (flushed, _) = fill(&mut client, 64 * MIB);
    println!("{flushed} bytes were flushed into a log without a home");
    assert!(flushed > 0, "{flushed}");
    server.kill9();
    drop(ballast);
    std::fs::remove_file(host.root().join("ballast")).expect("removed");
    let server = serve(&bench);
    let mut client = server.client("main");
    check(&mut client, flushed);
    server.end_ok();
    bench.ok(&["check", "host/s.tn"]);
}

/// Time for each call of a user who frees space. A removal that waits for space gives up after two seconds.
const CALL: Duration = Duration::from_secs(15);

/// Carries out `call` in the time that a user would wait.
fn in_time<T>(what: &str, call: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let result = call();
    let took = started.elapsed();
    assert!(took < CALL, "{what} took {took:?}");
    result
}

/// Writes durably to a file of the mount until the host is full, in a thread that waits then. Returns when creations are refused.
fn fill_mount(mount: &TreeMount) -> std::thread::JoinHandle<()> {
    let filler = mount.path("filler");
    let fills = std::thread::spawn(move || {
        let mut file = File::create(filler).expect("made");
        for seed in 0..400 {
            let written = file.write_all(&noise(seed, 1 << 20));
            if written.and_then(|()| file.sync_data()).is_err() {
                return;
            }
        }
    });
    let mut probes = 0;
    wait_until("a full host", Duration::from_secs(60), || {
        let probe = mount.path(&format!("probe {probes}"));
        probes += 1;
        let made = in_time("a creation", || File::create_new(&probe).map(drop));
        made.is_err_and(|error| Errno::from_io_error(&error) == Some(Errno::NOSPC))
    });
    fills
}

/// The host of a mount is full. Its users can look at all files, and remove some. Small files may stay, since their removal needs as
/// much of the log as it frees; large ones go, and with their space the writer goes on.
#[test]
fn users_of_a_mount_on_a_full_host_can_look_and_remove() {
    if let Err(why) = possible().and_then(|()| fuse_possible()) {
        return skipped("a mount on a full file system", &why);
    }
    let bench = Bench::new();
    let (_device, host) = small_host(&bench, 120 * MIB);
    // Recovery needs space for what the log has.
    fs::write(host.root().join("ballast"), noise(5, 24 << 20)).expect("written");
    let sizes = ["--size", "400MiB", "--log-size", "16MiB", "--no-volume"];
    bench.ok(&[&["create", "host/s.tn"], &sizes[..]].concat());
    let open = || {
        let place = bench.path("mnt");
        let _ = fs::create_dir(&place);
        let server = Server::start_with(&bench, &["mount", "host/s.tn", "mnt"], "mounted ");
        let server = server.unwrap_or_else(|ran| panic!("not mounted: {ran:?}"));
        TreeMount::of(server, place)
    };
    let mount = open();
    for folder in ["small", "large"] {
        fs::create_dir(mount.path(folder)).expect("made");
    }
    let large = |index: u64| mount.path(&format!("large/{index}"));
    for index in 0..30 {
        fs::write(large(index), noise(index, 1 << 20)).expect("written");
    }
    for index in 0..300 {
        fs::write(mount.path(&format!("small/{index}")), [7; 4096]).expect("written");
    }
    let fills = fill_mount(&mount);

    let mut removed = 0;
    for index in 0..300 {
        let path = mount.path(&format!("small/{index}"));
        let result = in_time("a removal", || fs::remove_file(&path));
        in_time("a listing", || {
            fs::read_dir(mount.path("small")).expect("list").count()
        });
        match result {
            Ok(()) => removed += 1,
            Err(error) => {
                assert_eq!(Errno::from_io_error(&error), Some(Errno::NOSPC), "{error}");
                assert!(path.exists(), "{index}");
                break;
            }
        }
    }
    println!("{removed} small files were removed");
    for index in 0..3 {
        in_time("a removal", || fs::remove_file(large(index))).expect("removed");
    }
    mount.kill9();
    fills.join().expect("it ends");

    fs::remove_file(host.root().join("ballast")).expect("removed");
    let mount = in_time("an opening", open);
    let listed = in_time("a listing", || {
        fs::read_dir(mount.path("small")).expect("list").count()
    });
    assert_eq!(listed, 300 - removed);
    for index in 3..30 {
        in_time("a removal", || {
            fs::remove_file(mount.path(&format!("large/{index}")))
        })
        .expect("removed");
    }
    wait_until("a creation", Duration::from_secs(20), || {
        File::create_new(mount.path("last probe")).is_ok()
    });
    mount.unmount();
    bench.ok(&["check", "host/s.tn"]);
}
