use crate::UringDriver;
use crate::{Create, Lock, Member, MemberError, MemberKind, MemberOptions, open_member};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tonearm_rt::{Data, Driver, Op, Request};

const MIB: u64 = 1 << 20;

fn create(size_bytes: u64, preallocate: bool, force: bool) -> MemberOptions<'static> {
    MemberOptions {
        create: Some(Create {
            size_bytes,
            written: if preallocate { 0..size_bytes } else { 0..0 },
            force,
            progress: None,
        }),
        ..MemberOptions::default()
    }
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    (dir, path)
}

fn reopen(path: &Path) -> Result<Member, MemberError> {
    open_member(path, MemberOptions::default())
}

fn text<T>(result: Result<T, MemberError>) -> String {
    match result {
        Ok(_) => panic!("an error was expected"),
        Err(error) => error.to_string(),
    }
}

fn blocks(path: &Path) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(&fs::metadata(path).unwrap())
}

#[test]
fn a_new_file_is_sparse_and_opens_again() {
    let (_dir, path) = place();
    let member = open_member(&path, create(1 << 40, false, false)).unwrap();
    assert_eq!(
        (member.size_bytes, member.kind),
        (1 << 40, MemberKind::File)
    );
    assert!(blocks(&path) < 100);
    drop(member);
    let member = reopen(&path).unwrap();
    assert_eq!(member.size_bytes, 1 << 40);
    let flags = rustix::fs::fcntl_getfl(&member.fd).unwrap();
    assert_eq!(flags.contains(rustix::fs::OFlags::DIRECT), member.direct);
    assert!(member.logical_block_size <= 4096);
}

#[test]
fn preallocation_fills_the_whole_file_and_reports_progress() {
    let (_dir, path) = place();
    let mut reported = Vec::new();
    let mut progress = |filled, all| reported.push((filled, all));
    let size_bytes = 3 * MIB + 4096;
    let options = MemberOptions {
        create: Some(Create {
            size_bytes,
            written: 0..size_bytes,
            force: false,
            progress: Some(&mut progress),
        }),
        ..MemberOptions::default()
    };
    let member = open_member(&path, options).unwrap();
    assert_eq!(member.size_bytes, size_bytes);
    assert!(blocks(&path) * 512 >= size_bytes);
    assert_eq!(reported.last(), Some(&(size_bytes, size_bytes)));
    assert!(fs::read(&path).unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn existing_content_is_overwritten_only_by_force() {
    let (_dir, path) = place();
    fs::write(&path, "precious").unwrap();
    let refused = text(open_member(&path, create(MIB, false, false)));
    assert!(
        refused.ends_with("exists already; choose another path, or use --force to overwrite it")
    );
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    let member = open_member(&path, create(MIB, false, true)).unwrap();
    assert_eq!(member.size_bytes, MIB);
    assert!(fs::read(&path).unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn a_file_in_use_is_not_overwritten_even_by_force() {
    let (_dir, path) = place();
    let member = open_member(&path, create(MIB, false, false)).unwrap();
    rustix::io::pwrite(&member.fd, &vec![5; 4096][..], 0).unwrap_or(0);
    let refused = text(open_member(&path, create(2 * MIB, false, true)));
    assert!(refused.contains("is in use by"), "{refused}");
    assert_eq!(fs::metadata(&path).unwrap().len(), MIB);
}

#[test]
fn a_lack_of_space_is_reported_and_leaves_no_file() {
    let (_dir, path) = place();
    let refused = text(open_member(&path, create(1 << 50, true, false)));
    assert!(
        refused.contains("no room for 1125899906842624 bytes, only for "),
        "{refused}"
    );
    assert!(!path.exists());
    let refused = text(open_member(&path, create(1 << 62, false, false)));
    assert!(refused.contains("does not allow a file of"), "{refused}");
    assert!(!path.exists());
    let refused = text(open_member(&path, create(1000, false, false)));
    assert!(refused.contains("is not a multiple of 4096"), "{refused}");
    assert!(!path.exists());
}

#[test]
fn paths_of_the_wrong_kind_are_refused() {
    let (dir, path) = place();
    assert!(text(reopen(&path)).contains("does not exist; check the path"));
    assert!(text(reopen(dir.path())).contains("neither a regular file nor a block device"));
    let missing = dir.path().join("missing/store");
    let refused = text(open_member(&missing, create(MIB, false, false)));
    assert!(refused.contains("missing does not exist"), "{refused}");
}

#[test]
fn readers_share_and_writers_do_not() {
    let (_dir, path) = place();
    let writer = open_member(&path, create(MIB, false, false)).unwrap();
    let open = |lock| {
        let options = MemberOptions {
            read_only: true,
            lock,
            ..MemberOptions::default()
        };
        open_member(&path, options)
    };
    assert!(text(open(Lock::Shared)).contains("is in use by"));
    assert_eq!(open(Lock::None).unwrap().size_bytes, MIB);
    drop(writer);
    let readers = (open(Lock::Shared).unwrap(), open(Lock::Shared).unwrap());
    assert!(text(reopen(&path)).contains("is in use by"));
    drop(readers);
    reopen(&path).unwrap();
}

/// The process that the next test starts. It holds the lock until its input ends.
#[test]
#[ignore = "runs as a child of the_holder_is_named_by_its_process_number"]
fn child_that_holds() {
    let path = PathBuf::from(std::env::var_os("TONEARM_TEST_HOLD").unwrap());
    let _member = reopen(&path).unwrap();
    println!("\nholding");
    std::io::stdout().flush().unwrap();
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// A child process has such a copy when it was started without closing the descriptors that it inherits.
#[test]
fn close_unlocks_a_file_despite_duplicate_descriptors() {
    let (_dir, path) = place();
    let member = open_member(&path, create(MIB, false, false)).unwrap();
    let copy = member.fd.try_clone().unwrap();
    let mut driver = UringDriver::new().unwrap();
    let device = driver.handle().add_file(member.fd);
    assert!(reopen(&path).is_err());
    driver.submit(
        1,
        Request {
            device,
            op: Op::Close,
            offset: 0,
            len: 0,
            data: Data::None,
        },
    );
    driver.wait(None, &mut Vec::new());
    reopen(&path).unwrap();
    drop(copy);
}

#[test]
fn the_holder_is_named_by_its_process_number() {
    let (_dir, path) = place();
    drop(open_member(&path, create(MIB, false, false)).unwrap());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "member_test::child_that_holds",
            "--ignored",
            "--nocapture",
        ])
        .env("TONEARM_TEST_HOLD", &path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(
        lines.any(|line| line.unwrap() == "holding"),
        "the child could not open it"
    );
    let refused = text(reopen(&path));
    let expected = format!(
        "{} is in use by process {}; stop it first, or wait until it has ended",
        path.display(),
        child.id()
    );
    assert_eq!(refused, expected);
    drop(child.stdin.take());
    child.wait().unwrap();
    reopen(&path).unwrap();
}

#[test]
fn a_file_system_in_memory_serves_with_or_without_direct_io() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        // Past the test harness, which captures the output of a passing test.
        let line = "NOT RUN: a member on tmpfs: /dev/shm cannot be written\n";
        return std::io::stderr().write_all(line.as_bytes()).unwrap();
    };
    let path = dir.path().join("store");
    let member = open_member(&path, create(2 * MIB, true, false)).unwrap();
    let flags = rustix::fs::fcntl_getfl(&member.fd).unwrap();
    assert_eq!(flags.contains(rustix::fs::OFlags::DIRECT), member.direct);
    drop(member);
    let options = MemberOptions {
        direct: false,
        ..MemberOptions::default()
    };
    let member = open_member(&path, options).unwrap();
    assert!(!member.direct);
    assert_eq!(member.logical_block_size, 1);
}

#[test]
fn a_file_that_cannot_be_opened_directly_is_opened_without() {
    // Files of procfs refuse O_DIRECT at the opening, as some file systems do.
    let options = MemberOptions {
        read_only: true,
        lock: Lock::None,
        ..MemberOptions::default()
    };
    let member = open_member(Path::new("/proc/self/status"), options);
    match member {
        Ok(member) => assert!(!member.direct),
        // Some of these files have no size. The test needs only that they were opened.
        Err(error) => assert!(error.to_string().contains("find its size"), "{error}"),
    }
}

#[test]
fn page_cache_is_synced_and_dropped_even_after_an_error() {
    for synced in [Ok(()), Err(rustix::io::Errno::IO)] {
        let calls = std::cell::RefCell::new(Vec::new());
        let call = |name, result| {
            calls.borrow_mut().push(name);
            result
        };
        crate::member::empty_cache(|| call("sync", synced), || call("drop", Ok(())));
        assert_eq!(*calls.borrow(), ["sync", "drop"]);
    }
}
