//! `tonearm files`: paths, directories and links, in process and through a served store.

use crate::common::{Bench, Serving, contains};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant, UNIX_EPOCH};
use tonearm_command_rig::Ran;
use tonearm_disk::OpenOptions;
use tonearm_fs::{NewInode, ROOT_INO};
use tonearm_store::files::FileSystem;
use tonearm_store::{Executor, Members, open_disk};

/// Offset after the log of these stores: superblocks and 8 MiB of log.
const HOME: u64 = 9 << 20;

fn store(bench: &Bench) {
    bench.ok(&[
        "create",
        "a",
        "--size",
        "64MiB",
        "--log-size",
        "8MiB",
        "--no-volume",
    ]);
}

/// Does the same with a store that the command opens itself, and with one that is served.
fn both_ways(steps: impl Fn(&Bench)) {
    for served in [false, true] {
        let bench = Bench::new();
        store(&bench);
        let server: Option<Serving> = served.then(|| bench.serve(&["a"]));
        steps(&bench);
        if let Some(server) = server {
            assert_eq!(server.end("-TERM").code, Some(0));
        }
        contains(&bench.ok(&["check", "a"]), "no damage found");
    }
}

/// Runs a command on the files of the store `a`.
fn files(bench: &Bench, arguments: &[&str]) -> Ran {
    let (action, rest) = arguments.split_first().expect("an action");
    bench.run(&[&["files", action, "a"], rest].concat())
}

#[track_caller]
fn ok(bench: &Bench, arguments: &[&str]) -> String {
    let ran = files(bench, arguments);
    assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
    ran.out
}

/// Runs what must fail with one line; the line.
#[track_caller]
fn fails(bench: &Bench, arguments: &[&str]) -> String {
    let ran = files(bench, arguments);
    assert_eq!(ran.code, Some(1), "{arguments:?}: {ran:?}");
    ran.line("tonearm")
}

/// Names in a directory of the store.
#[track_caller]
fn names(bench: &Bench, path: &str) -> Vec<String> {
    let listed = list(bench, path);
    let name = |file: &serde_json::Value| file["name"].as_str().expect("a name").to_string();
    listed.iter().map(name).collect()
}

#[track_caller]
fn list(bench: &Bench, path: &str) -> Vec<serde_json::Value> {
    let listed = ok(bench, &["list", path, "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
    listed["files"].as_array().expect("a list").clone()
}

fn write(bench: &Bench, name: &str, bytes: &[u8]) {
    std::fs::write(bench.path(name), bytes).expect("written");
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("a mode");
}

/// Bytes that differ from seed to seed.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let words =
        (1..=length as u64 / 8 + 1).map(|at| (seed << 32 | at).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    bytes.truncate(length);
    bytes
}

/// A folder with 200 files, links, several permissions, empty folders, and a sparse file of 3 MiB.
fn make_tree(root: &Path) {
    for folder in ["", "one", "one/two", "one/two/three", "empty", "one/closed"] {
        std::fs::create_dir(root.join(folder)).expect("a folder");
    }
    for at in 0..199u64 {
        let folder = ["", "one", "one/two", "one/two/three"][at as usize % 4];
        let path = root.join(folder).join(format!("file-{at}"));
        std::fs::write(&path, noise(at, (at * at) as usize)).expect("written");
        set_mode(&path, [0o644, 0o600, 0o755, 0o444][at as usize / 50]);
        let file = std::fs::File::options().read(true).open(&path);
        let time = UNIX_EPOCH + Duration::from_secs(1_000_000_000 + at);
        file.and_then(|file| file.set_modified(time))
            .expect("a time");
    }
    let sparse = root.join("one/sparse");
    std::fs::write(&sparse, b"begin").expect("written");
    let file = std::fs::File::options().write(true).open(&sparse);
    file.and_then(|file| file.set_len(3 << 20)).expect("longer");
    symlink("../file-0", root.join("one/link")).expect("a link");
    symlink("/no/such/place", root.join("dangling")).expect("a link");
    symlink("two", root.join("one/folder-link")).expect("a link");
    set_mode(&root.join("one/closed"), 0o500);
    set_mode(&root.join("empty"), 0o1777);
}

/// All that a copy must keep: path, mode, time of files, content or target.
fn describe(root: &Path) -> Vec<(String, u32, i64, Vec<u8>)> {
    let (mut found, mut folders) = (Vec::new(), vec![root.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let about = path.symlink_metadata().expect("metadata");
            let name = path.strip_prefix(root).expect("below").to_string_lossy();
            let (time, content) = if about.is_dir() {
                folders.push(path.clone());
                (0, Vec::new())
            } else if about.is_symlink() {
                let target = path.read_link().expect("a target");
                (0, target.into_os_string().into_encoded_bytes())
            } else {
                (about.mtime(), std::fs::read(&path).expect("read"))
            };
            found.push((name.into_owned(), about.mode(), time, content));
        }
    }
    found.sort();
    found
}

#[test]
fn a_tree_comes_back_as_it_was_put() {
    both_ways(|bench| {
        make_tree(&bench.path("tree"));
        let before = describe(&bench.path("tree"));
        assert_eq!(before.len(), 208);
        let said = ok(bench, &["put", "-r", "tree"]);
        contains(&said, "tree -> tree; 200 files, 6 directories, 3 links");
        let said = ok(bench, &["get", "-r", "tree", "copy"]);
        contains(&said, "tree -> copy; 200 files, 6 directories, 3 links");
        assert!(describe(&bench.path("copy")) == before);
        let blocks = bench.path("copy/one/sparse").metadata().expect("metadata");
        assert!(blocks.blocks() * 512 < 1 << 20, "a hole stays a hole");

        // Into a folder that exists, under its own name; and everything, whose folder must be named.
        std::fs::create_dir(bench.path("into")).expect("a folder");
        ok(bench, &["get", "-r", "/tree/", "into"]);
        assert!(describe(&bench.path("into/tree")) == before);
        contains(&fails(bench, &["get", "-r", "/"]), "give a folder");
        ok(bench, &["get", "-r", "/", "all"]);
        assert!(describe(&bench.path("all/tree")) == before);

        // A part of it, and a link.
        ok(bench, &["get", "-r", "tree/one/two"]);
        assert_eq!(
            describe(&bench.path("two")),
            describe(&bench.path("tree/one/two"))
        );
        ok(bench, &["get", "-r", "tree/dangling"]);
        assert_eq!(
            bench.path("dangling").read_link().expect("a link"),
            Path::new("/no/such/place")
        );
        assert_eq!(ok(bench, &["rm", "-r", "tree"]), "removed tree\n");
        assert_eq!(list(bench, "/").len(), 0);
    });
}

#[test]
fn existing_files_are_replaced_only_with_force() {
    both_ways(|bench| {
        make_tree(&bench.path("tree"));
        ok(bench, &["put", "-r", "tree"]);
        write(bench, "tree/one/file-1", b"new");
        write(bench, "tree/aaa", b"new");
        let refused = fails(bench, &["put", "-r", "tree"]);
        contains(&refused, "--force replaces it. Nothing was copied");
        assert!(!names(bench, "tree").contains(&"aaa".to_string()));
        ok(bench, &["put", "-r", "tree", "--force"]);
        assert_eq!(ok(bench, &["get", "tree/one/file-1", "-"]), "new");
        assert_eq!(ok(bench, &["get", "tree/aaa", "-"]), "new");

        ok(bench, &["get", "-r", "tree", "copy"]);
        write(bench, "copy/one/file-1", b"old");
        std::fs::remove_file(bench.path("copy/aaa")).expect("removed");
        // The folder exists now, and its name is asked for: the copy goes into it, so that nothing is there.
        let again = ["get", "-r", "tree", "there", "--force"];
        std::fs::rename(bench.path("copy"), bench.path("tree2")).expect("renamed");
        std::fs::create_dir(bench.path("there")).expect("a folder");
        std::fs::rename(bench.path("tree2"), bench.path("there/tree")).expect("renamed");
        let refused = fails(bench, &again[..4]);
        contains(&refused, "--force replaces it. Nothing was copied");
        assert!(!bench.path("there/tree/aaa").exists());
        ok(bench, &again);
        assert!(describe(&bench.path("there/tree")) == describe(&bench.path("tree")));

        // Force does not replace what is of another kind.
        std::fs::remove_file(bench.path("there/tree/aaa")).expect("removed");
        std::fs::create_dir(bench.path("there/tree/aaa")).expect("a folder");
        contains(&fails(bench, &again), "is not a file");
        std::fs::create_dir(bench.path("there/tree/link")).expect("a folder");
        ok(bench, &["rm", "tree/aaa"]);
        ok(bench, &["mkdir", "tree/aaa"]);
        contains(
            &fails(bench, &["put", "-r", "tree", "--force"]),
            "tree/aaa is a directory in the store, and would become a file",
        );
        contains(
            &fails(
                bench,
                &["put", "tree/aaa", "--name", "tree/dangling", "--force"],
            ),
            "is a symbolic link in the store",
        );
    });
}

#[test]
fn lists_show_directories_files_and_links() {
    both_ways(|bench| {
        std::fs::create_dir(bench.path("d")).expect("a folder");
        write(bench, "d/file", &[1; 1500]);
        write(bench, "d/Z", b"");
        std::fs::create_dir(bench.path("d/sub")).expect("a folder");
        symlink("file", bench.path("d/link")).expect("a link");
        set_mode(&bench.path("d/file"), 0o640);
        let file = std::fs::File::open(bench.path("d/file")).expect("a file");
        file.set_modified(UNIX_EPOCH + Duration::from_secs(86_400))
            .expect("a time");
        ok(bench, &["put", "-r", "d"]);
        assert_eq!(names(bench, "/"), ["d"]);
        assert_eq!(names(bench, "d"), ["Z", "file", "link", "sub"]);
        assert_eq!(names(bench, "d/file"), ["file"]);
        let about = &list(bench, "/d/file")[0];
        assert_eq!(
            (
                &about["size_bytes"],
                &about["mode"],
                &about["modified_unix_s"]
            ),
            (&1500.into(), &0o100_640.into(), &86_400.into())
        );
        let short = ok(bench, &["list", "d"]);
        contains(&short, "1,500");
        contains(&short, "sub/");
        contains(&short, "1970-01-02 00:00:00 UTC");
        let long = ok(bench, &["list", "d", "-l"]);
        let lines: Vec<Vec<&str>> = long
            .lines()
            .map(|line| line.split_ascii_whitespace().collect())
            .collect();
        let owner = list(bench, "d")[0]["uid"].to_string();
        assert_eq!(lines[0].last(), Some(&"Z"));
        assert_eq!(lines[1][0], "-rw-r-----");
        assert_eq!((lines[1][1], lines[1][3]), (&owner[..], "1500"));
        assert_eq!(lines[1][4..], ["1970-01-02", "00:00:00", "UTC", "file"]);
        assert_eq!(lines[2][0], "lrwxrwxrwx");
        assert_eq!(lines[2][7..], ["link", "->", "file"]);
        assert_eq!(lines[3][0], "drwxr-xr-x");
        assert_eq!(lines.len(), 4);
        contains(&ok(bench, &["list", "d/link", "-l"]), "link -> file");
        contains(&fails(bench, &["list", "d/none"]), "d/none");
        contains(&fails(bench, &["list", "d/file/x"]), "not a directory");
        contains(&fails(bench, &["list", "d/link/x"]), "symbolic link");
        contains(&fails(bench, &["get", "d/link"]), "is a symbolic link");
        contains(&fails(bench, &["get", "d"]), "`tonearm files get -r`");
    });
}

#[test]
fn a_name_that_is_a_directory_takes_the_file() {
    both_ways(|bench| {
        write(bench, "x", b"x");
        write(bench, "y", b"y");
        ok(bench, &["mkdir", "d"]);
        for (name, path) in [
            ("d", "d/x"),
            ("d/", "d/x"),
            ("d/n", "d/n"),
            ("/d/m", "/d/m"),
        ] {
            let said = ok(bench, &["put", "x", "--name", name, "--force"]);
            contains(&said, &format!("x -> {path}"));
            assert_eq!(ok(bench, &["get", path, "-"]), "x");
        }
        assert_eq!(names(bench, "d"), ["m", "n", "x"]);
        contains(
            &fails(bench, &["put", "x", "--name", "no/x"]),
            "there is no directory no in the store",
        );
        contains(
            &fails(bench, &["put", "x", "--name", "no/"]),
            "there is no directory no in the store",
        );
        contains(&fails(bench, &["put", "x", "--name", ""]), "empty");

        // Several files.
        ok(bench, &["put", "x", "y", "--name", "d", "--force"]);
        assert_eq!(names(bench, "d"), ["m", "n", "x", "y"]);
        contains(
            &fails(bench, &["put", "x", "y", "--name", "d/n"]),
            "no directory",
        );
        contains(&fails(bench, &["put", "x", "x"]), "two of the files");
        contains(&fails(bench, &["put", "x", "-"]), "standard input");
        ok(bench, &["put", "x", "y"]);
        assert_eq!(names(bench, "/"), ["d", "x", "y"]);

        // A folder: as a new path, into a directory, and what is in it to the root directory.
        std::fs::create_dir_all(bench.path("f/g")).expect("folders");
        write(bench, "f/g/z", b"z");
        contains(&fails(bench, &["put", "f"]), "`tonearm files put -r`");
        ok(bench, &["put", "-r", "f", "--name", "new/deep/one"]);
        assert_eq!(names(bench, "new/deep/one/g"), ["z"]);
        ok(bench, &["put", "-r", "f", "--name", "new"]);
        assert_eq!(names(bench, "new"), ["deep", "f"]);
        ok(bench, &["rm", "x", "y"]);
        ok(bench, &["put", "-r", "f/g/..", "--name", "/"]);
        assert_eq!(names(bench, "/"), ["d", "g", "new"]);
    });
}

#[test]
fn directories_are_made_moved_and_removed() {
    both_ways(|bench| {
        write(bench, "x", b"x");
        contains(
            &fails(bench, &["mkdir", "p/q"]),
            "there is no directory p in the store",
        );
        assert_eq!(ok(bench, &["mkdir", "-p", "p/q/r"]), "made p/q/r\n");
        assert_eq!(ok(bench, &["mkdir", "-p", "p/q/r"]), "");
        contains(&fails(bench, &["mkdir", "p"]), "there is a directory p");
        ok(bench, &["put", "x", "--name", "p/x"]);
        contains(&fails(bench, &["mkdir", "-p", "p/x/y"]), "p/x is a file");

        assert_eq!(ok(bench, &["mv", "p/x", "p/q"]), "p/x -> p/q/x\n");
        assert_eq!(ok(bench, &["mv", "p/q/x", "p/y"]), "p/q/x -> p/y\n");
        ok(bench, &["put", "x"]);
        contains(&fails(bench, &["mv", "x", "p/y"]), "p/y");
        contains(&fails(bench, &["mv", "none", "z"]), "none");
        contains(&fails(bench, &["mv", "x", "none/z"]), "no directory none");
        contains(&fails(bench, &["mv", "/", "z"]), "no name of its own");
        fails(bench, &["mv", "p", "p/q"]);
        assert_eq!(ok(bench, &["mv", "p/q", "/"]), "p/q -> /q\n");
        assert_eq!(names(bench, "/"), ["p", "q", "x"]);

        for directory in ["q/r", "p"] {
            contains(
                &fails(bench, &["rm", "x", directory]),
                "`tonearm files rm -r` removes it",
            );
        }
        contains(&fails(bench, &["rm", "x", "none"]), "none");
        contains(&fails(bench, &["rm", "-r", "/"]), "no name of its own");
        assert_eq!(names(bench, "/"), ["p", "q", "x"], "nothing was removed");
        let said = ok(bench, &["rm", "-r", "x", "p", "--json"]);
        let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
        assert_eq!(said["removed"], serde_json::json!(["p", "x"]));
        assert_eq!(names(bench, "/"), ["q"]);
        // Twice the same, and a part of what goes anyway.
        ok(bench, &["put", "x", "--name", "q/r/x"]);
        ok(bench, &["put", "x"]);
        ok(bench, &["rm", "-r", "q", "/x", "x", "q/r/x"]);
        assert_eq!(names(bench, "/"), [""; 0]);
    });
}

#[test]
fn put_skips_and_reports_uncopyable_files() {
    both_ways(|bench| {
        use std::os::unix::ffi::OsStrExt;
        std::fs::create_dir(bench.path("d")).expect("a folder");
        write(bench, "d/last", b"last");
        let fifo = bench.path("d/fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.expect("mkfifo runs").success());
        let bytes = std::ffi::OsStr::from_bytes(b"d/b\xffd");
        std::fs::write(bench.folder().join(bytes), b"x").expect("written");
        let ran = files(bench, &["put", "-r", "d", "--json"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        contains(&ran.err, "d/fifo: it is a FIFO, which is not copied");
        contains(&ran.err, "the name is not UTF-8");
        let said: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
        assert_eq!(
            (&said["files"], &said["directories"]),
            (&1.into(), &1.into())
        );
        assert_eq!(said["failed"].as_array().map(Vec::len), Some(2));
        assert_eq!(names(bench, "d"), ["last"]);
        assert_eq!(ok(bench, &["get", "d/last", "-"]), "last");
    });
}

/// Makes a FIFO and a name that is no text, as programs on a mount do.
fn make_odd_files(bench: &Bench) {
    let executor = Executor::new().expect("an executor");
    let options = OpenOptions::default();
    let disk = open_disk(
        &executor,
        &bench.path("a"),
        &Members::default(),
        options,
        |_| {},
    )
    .expect("a disk");
    let system = FileSystem::new(&executor.rt, &disk);
    executor.rt.block_on(async move {
        let fs = system.get().await.expect("opened");
        let dir = fs.look_up(ROOT_INO, b"d").await.expect("a directory").ino;
        let new = |mode| NewInode {
            mode,
            uid: 0,
            gid: 0,
            rdev: 0,
        };
        fs.make(dir, b"fifo", new(0o010_644)).await.expect("made");
        // Both are shown in the same way, and so is a name that is text.
        for name in [&b"b\xff"[..], b"b\xfe", b"only\xff"] {
            let made = fs.make(dir, name, new(0o100_644)).await.expect("made");
            fs.write(made.ino, 0, b"odd").await.expect("written");
        }
        disk.close().await.expect("closed");
    });
    // This process has the file locked as long as the file system lives. A copy has no lock.
    std::fs::copy(bench.path("a"), bench.path("b")).expect("copied");
    std::fs::rename(bench.path("b"), bench.path("a")).expect("renamed");
}

#[test]
fn get_skips_and_reports_uncopyable_files() {
    let bench = Bench::new();
    store(&bench);
    std::fs::create_dir(bench.path("d")).expect("a folder");
    write(&bench, "d/last", b"last");
    write(&bench, "d/b\u{fffd}", b"text");
    ok(&bench, &["put", "-r", "d"]);
    make_odd_files(&bench);
    contains(&ok(&bench, &["list", "d"]), "only\u{fffd}");
    contains(&ok(&bench, &["list", "d", "-l"]), "prw-r--r--");
    let ran = files(&bench, &["get", "-r", "d", "copy"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    contains(&ran.err, "d/fifo is a FIFO: skipped");
    contains(&ran.err, "d/only\u{fffd}: the name is not UTF-8");
    contains(&ran.out, "2 files, 1 directory");
    contains(&ran.out, "1 skipped; 3 not copied");
    assert_eq!(
        std::fs::read(bench.path("copy/b\u{fffd}")).expect("read"),
        b"text"
    );
    assert_eq!(
        std::fs::read(bench.path("copy/last")).expect("read"),
        b"last"
    );
    contains(
        &fails(&bench, &["rm", "-r", "d"]),
        "d is not removed, because",
    );
    assert!(names(&bench, "d").len() >= 6);
}

#[test]
fn a_damaged_file_is_named_and_the_others_are_copied() {
    let bench = Bench::new();
    store(&bench);
    std::fs::create_dir(bench.path("d")).expect("a folder");
    let bytes = noise(7, 1 << 20);
    write(&bench, "d/bad", &bytes);
    write(&bench, "d/good", b"good");
    ok(&bench, &["put", "-r", "d"]);
    let block = bench.find("a", HOME, &bytes[40 * 4096..41 * 4096]);
    bench.flip("a", block + 100);
    for server in [false, true] {
        let server = server.then(|| bench.serve(&["a"]));
        let ran = files(&bench, &["get", "-r", "d", "copy"]);
        assert_eq!(ran.code, Some(3), "{ran:?}");
        contains(&ran.err, "d/bad");
        contains(&ran.err, "checksum");
        contains(&ran.out, "1 file, 1 directory");
        contains(&ran.out, "1 not copied");
        assert_eq!(bench.path("copy").read_dir().expect("a folder").count(), 1);
        assert_eq!(
            std::fs::read(bench.path("copy/good")).expect("read"),
            b"good"
        );
        std::fs::remove_dir_all(bench.path("copy")).expect("removed");
        assert_eq!(files(&bench, &["get", "d/bad"]).code, Some(3));
        if let Some(server) = server {
            assert_eq!(server.end("-TERM").code, Some(0));
        }
    }
}

fn interrupt(child: &std::process::Child) {
    let sent = std::process::Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(sent.expect("kill runs").success());
}

#[test]
fn an_interrupted_put_leaves_nothing() {
    both_ways(|bench| {
        write(bench, "there", b"old");
        ok(bench, &["put", "there"]);
        for name in ["new", "there"] {
            let mut command = bench.command(&["files", "put", "a", "-", "--name", name, "--force"]);
            command.stdin(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().expect("tonearm runs");
            let mut pipe = child.stdin.take().expect("piped");
            // More than a pipe holds: the command has begun to copy, and catches signals.
            pipe.write_all(&noise(1, 3 << 20)).expect("taken");
            interrupt(&child);
            drop(pipe);
            let ran = Ran::of(&child.wait_with_output().expect("an end"));
            assert_eq!(ran.code, Some(1), "{ran:?}");
            contains(&ran.err, "interrupted; nothing was changed");
        }
        assert_eq!(names(bench, "/"), ["there"]);
        assert_eq!(ok(bench, &["get", "there", "-"]), "old");
    });
}

#[test]
fn an_interrupted_put_of_a_folder_leaves_whole_files() {
    let bench = Bench::new();
    store(&bench);
    let server = bench.serve(&["a"]);
    std::fs::create_dir(bench.path("d")).expect("a folder");
    for at in 0..20 {
        write(&bench, &format!("d/{at:02}"), &noise(at, 2 << 20));
    }
    let mut command = bench.command(&["files", "put", "a", "-r", "d"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("tonearm runs");
    let until = Instant::now() + Duration::from_secs(60);
    while names(&bench, "/").is_empty() && child.try_wait().expect("a child").is_none() {
        assert!(Instant::now() < until, "the copy does not begin");
    }
    if child.try_wait().expect("a child").is_none() {
        interrupt(&child);
    }
    let ran = Ran::of(&child.wait_with_output().expect("an end"));
    let left = names(&bench, "d");
    match ran.code {
        Some(0) => assert_eq!(left.len(), 20, "it ended before the signal"),
        _ => contains(
            &ran.err,
            &format!("interrupted; {} files were copied", left.len()),
        ),
    }
    ok(&bench, &["get", "-r", "d", "copy"]);
    for name in left {
        let copy = std::fs::read(bench.path("copy").join(&name)).expect("read");
        assert!(copy == std::fs::read(bench.path("d").join(&name)).expect("read"));
    }
    // The same command ends it.
    ok(&bench, &["put", "-r", "d", "--force"]);
    assert_eq!(names(&bench, "d").len(), 20);
    assert_eq!(server.end("-TERM").code, Some(0));
}

#[test]
fn a_store_is_not_copied_into_itself() {
    let bench = Bench::new();
    store(&bench);
    write(&bench, "x", b"x");
    let ran = files(&bench, &["put", "-r", ".", "--name", "/"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    contains(&ran.err, "a is the store itself: skipped");
    assert_eq!(names(&bench, "/"), ["x"]);
}
