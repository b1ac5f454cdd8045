//! Programs that share the files of a served store.

use std::io::BufRead;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tonearm_store::StoreOptions;
use tonearm_store::files::{Files, FilesErrorKind, Level, Open};
use tonearm_tests::{Bench, Server, wait_until};

const CREATE: Open = Open {
    create: true,
    exclusive: false,
};
const CHILD: &str = "TONEARM_TEST_FILES_OF";

fn open(path: &Path) -> Arc<dyn Files> {
    tonearm_store::open_files(path, StoreOptions::default()).expect("files")
}

#[test]
fn killed_client_leaves_no_changes() {
    let bench = Bench::with_small_store(&[]);
    let path = bench.path("s.tn");
    let server = bench.serve_store();
    let files = open(&path);
    let file = files.open("data", CREATE).expect("a file");
    files.write(file, None, 0, b"before").expect("written");
    for _ in 0..5 {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args([
                "--ignored",
                "--exact",
                "sessions::in_mid_transaction",
                "--nocapture",
            ])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let out = std::io::BufReader::new(child.stdout.take().expect("piped"));
        let ready = out
            .lines()
            .map_while(Result::ok)
            .any(|line| line.ends_with("in the middle"));
        assert!(ready, "the child ended before its transaction was open");
        assert!(
            !files.lock(file, Level::Shared).expect("asked"),
            "the child has the lock"
        );
        child.kill().expect("killed");
        child.wait().expect("an end");
        wait_until("its lock to be released", Duration::from_secs(10), || {
            files.lock(file, Level::Shared).expect("asked")
        });
        let mut seen = [0; 10];
        assert_eq!(files.read(file, None, 0, &mut seen).expect("read"), 6);
        assert_eq!(&seen[..6], b"before");
        files.unlock(file, Level::None).expect("unlocked");
    }
    drop(files);
    server.end_ok();
    bench.ok(&["check", "s.tn"]);
}

#[test]
#[ignore = "runs as a child of killed_client_leaves_no_changes"]
fn in_mid_transaction() {
    let path = std::env::var_os(CHILD).expect("the parent has named the store");
    let files = open(Path::new(&path));
    let file = files.open("data", CREATE).expect("a file");
    for level in [Level::Shared, Level::Reserved, Level::Exclusive] {
        assert!(files.lock(file, level).expect("asked"));
    }
    let unit = files.begin().expect("a unit");
    files
        .write(file, Some(unit), 0, &[1; 2_000_000])
        .expect("sent");
    assert_eq!(files.size(file, Some(unit)).expect("asked"), 2_000_000);
    println!("in the middle");
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn files_survive_the_kill_of_their_server() {
    let bench = Bench::with_small_store(&[]);
    let path = bench.path("s.tn");
    let server = bench.serve_store();
    let files = open(&path);
    let file = files.open("data", CREATE).expect("a file");
    for round in 0..20u8 {
        let unit = files.begin().expect("a unit");
        for part in 0..10 {
            files
                .write(file, Some(unit), part * 5000, &[round + 1; 5000])
                .expect("sent");
        }
        files.end(unit, true).expect("durable");
    }
    server.kill9();
    assert_eq!(
        files.flush().expect_err("no server").kind,
        FilesErrorKind::Failed
    );
    // The test opens the store itself, and then starts the server again.
    let options = StoreOptions {
        server_wait: Duration::ZERO,
        ..StoreOptions::default()
    };
    let direct = tonearm_store::open_files(&path, options).expect("files");
    let file = direct.open("data", Open::default()).expect("the file");
    let mut seen = vec![0; 60_000];
    assert_eq!(direct.read(file, None, 0, &mut seen).expect("read"), 50_000);
    assert!(seen[..50_000].iter().all(|byte| *byte == 20));
    let refused = Server::start(&bench, &["s.tn", "--socket", "s.sock"]);
    let refused = refused.err().expect("this process has the store");
    assert!(refused.err.contains("in use"), "{refused:?}");
    drop(direct);
    let server = bench.serve_store();
    assert!(open(&path).exists("data").expect("asked"));
    server.end_ok();
}

#[test]
fn sessions_that_never_read_hold_little_of_the_server() {
    let bench = Bench::with_small_store(&[]);
    let path = bench.path("s.tn");
    let server = bench.serve_store();
    let files = open(&path);
    let file = files.open("data", CREATE).expect("a file");
    files
        .write(file, None, 0, &vec![7; 1 << 20])
        .expect("written");
    // A session whose client requests the same file again and again without reading the replies.
    let frame = |fields: &[u8]| {
        let len = (fields.len() as u32 + 4).to_le_bytes();
        [&len, &[1, 0, 0, 0], fields].concat()
    };
    let open_data = frame(b"\x00\x04data\0\0");
    let reads = frame(&[7, 1, 0, 0, 0x80, 0x80, 0x40]).repeat(64);
    let hello = b"tonearmF\x05\0\0\0\0\0\0\0";
    let mut deaf = Vec::new();
    for _ in 0..64 {
        let mut stream =
            UnixStream::connect(tonearm_store::files_socket(&path)).expect("connected");
        let bytes = [&hello[..], &open_data, &reads].concat();
        stream.write_all(&bytes).expect("sent");
        deaf.push(stream);
    }
    std::thread::sleep(Duration::from_secs(2));
    let mut page = [0; 4096];
    let started = std::time::Instant::now();
    assert_eq!(files.read(file, None, 0, &mut page).expect("read"), 4096);
    let took = started.elapsed();
    assert!(took < Duration::from_secs(2), "a small read took {took:?}");
    let rss = server.rss_kib();
    assert!(rss < 512 << 10, "{rss} KiB resident");
    // This takes less than a minute because stalled sessions are cut when others wait.
    let mut whole = vec![0; 1 << 20];
    assert_eq!(
        files.read(file, None, 0, &mut whole).expect("read"),
        1 << 20
    );
    drop(deaf);
    drop(files);
    server.end_ok();
}
