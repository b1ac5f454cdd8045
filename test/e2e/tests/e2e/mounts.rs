//! `tonearm mount` and `serve --mount`: a tree that is the same after the next mount, the ways in which a mount ends, and what
//! cannot be mounted.

use rustix::fs::{AtFlags, CWD, FallocateFlags, RenameFlags, SeekFrom, XattrFlags};
use rustix::io::Errno;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tonearm_tests::mount::fuse_possible;
use tonearm_tests::sqlite::{shell, sql, uri};
use tonearm_tests::{Bench, Server, TreeMount, binary, contains, extension, noise, skipped, tool};

const MIB: u64 = 1 << 20;
/// A capability as the kernel takes it (version 2): to bind low ports.
const CAPABILITY: &[u8] = b"\x01\0\0\x02\0\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// A bench with a store that has only files; `None` when this machine cannot mount.
fn bench() -> Option<Bench> {
    if let Err(why) = fuse_possible() {
        skipped("the mounted file system", &why);
        return None;
    }
    let sizes = ["--size", "256MiB", "--log-size", "16MiB", "--no-volume"];
    Some(Bench::created(&sizes))
}

fn errno(result: Result<impl Sized, rustix::io::Errno>) -> Errno {
    result.err().expect("an error")
}

fn io_errno(result: std::io::Result<impl Sized>) -> Errno {
    let error = result.err().expect("an error");
    Errno::from_io_error(&error).expect("of the system")
}

fn names(folder: &Path) -> BTreeSet<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| {
        entry
            .expect("an entry")
            .file_name()
            .into_string()
            .expect("UTF-8")
    };
    fs::read_dir(folder).expect("a folder").map(name).collect()
}

/// What [`build`] leaves, looked at through the system.
fn verify(root: &Path) {
    let all = [
        "deep", "hard", "large", "many", "pipe", "renamed", "soft", "sparse",
    ];
    assert_eq!(names(root), all.map(String::from).into());
    assert_eq!(fs::read(root.join("renamed")).expect("read"), b"second");
    assert_eq!(
        fs::read(root.join("large")).expect("read"),
        noise(1, 5 << 20)
    );
    let hard = fs::metadata(root.join("hard")).expect("there");
    assert_eq!((hard.nlink(), hard.mode()), (2, 0o100_640));
    assert_eq!(
        hard.ino(),
        fs::metadata(root.join("deep/a/b/hard"))
            .expect("there")
            .ino()
    );
    assert_eq!(
        fs::read_link(root.join("soft")).expect("a link"),
        Path::new("deep/a/b/hard")
    );
    assert_eq!(fs::read(root.join("soft")).expect("followed"), b"linked");
    let times = hard.mtime() * 1_000_000_000 + hard.mtime_nsec();
    assert_eq!(times, -1_500_000_000);
    let mut value = [0; 64];
    let length = rustix::fs::getxattr(root.join("hard"), "user.note", &mut value);
    assert_eq!(&value[..length.expect("an attribute")], b"kept");
    let mut list = [0; 64];
    let length = rustix::fs::listxattr(root.join("hard"), &mut list[..]).expect("a list");
    assert_eq!(&list[..length], b"user.note\0");
    assert_eq!(
        fs::metadata(root.join("pipe")).expect("there").mode(),
        0o010_600
    );

    let sparse = File::open(root.join("sparse")).expect("there");
    let about = sparse.metadata().expect("attributes");
    assert_eq!((about.len(), about.blocks() * 512), (1 << 30, 8192));
    let seek = |from| rustix::fs::seek(&sparse, from).expect("found");
    assert_eq!(seek(SeekFrom::Data(0)), 512 * MIB);
    assert_eq!(seek(SeekFrom::Hole(512 * MIB)), 512 * MIB + 8192);
    let mut around = [1; 12];
    sparse
        .read_exact_at(&mut around, 512 * MIB + 4096 - 6)
        .expect("read");
    assert_eq!(&around, b"\0\0middle\0\0\0\0".first_chunk().expect("long"));

    let many = names(&root.join("many"));
    assert_eq!(many.len(), 5000);
    assert!(many.contains("file-00000") && many.contains("file-04999"));
    assert_eq!(fs::metadata(root.join("many")).expect("there").nlink(), 2);
    assert_eq!(fs::metadata(root.join("deep/a")).expect("there").nlink(), 3);
}

/// Makes a tree of everything that there is.
fn build(root: &Path) {
    fs::create_dir_all(root.join("deep/a/b")).expect("folders");
    fs::write(root.join("first"), b"first").expect("written");
    fs::write(root.join("other"), b"second").expect("written");
    let flags = RenameFlags::NOREPLACE;
    let rename = |from: &str, to: &str, flags| {
        rustix::fs::renameat_with(CWD, root.join(from), CWD, root.join(to), flags)
    };
    assert_eq!(errno(rename("first", "other", flags)), Errno::EXIST);
    rename("first", "other", RenameFlags::EXCHANGE).expect("exchanged");
    assert_eq!(fs::read(root.join("first")).expect("read"), b"second");
    fs::rename(root.join("first"), root.join("renamed")).expect("renamed");
    fs::rename(root.join("renamed"), root.join("other")).expect("over another");
    fs::rename(root.join("other"), root.join("renamed")).expect("renamed");

    fs::write(root.join("large"), noise(1, 5 << 20)).expect("written");
    fs::write(root.join("hard"), b"linked").expect("written");
    fs::hard_link(root.join("hard"), root.join("deep/a/b/hard")).expect("linked");
    symlink("deep/a/b/hard", root.join("soft")).expect("linked");
    fs::set_permissions(root.join("hard"), PermissionsExt::from_mode(0o640)).expect("changed");
    rustix::fs::setxattr(root.join("hard"), "user.note", b"kept", XattrFlags::CREATE).expect("set");
    let again = rustix::fs::setxattr(root.join("hard"), "user.note", b"x", XattrFlags::CREATE);
    assert_eq!(errno(again), Errno::EXIST);
    let capability = rustix::fs::setxattr(
        root.join("hard"),
        "security.capability",
        CAPABILITY,
        XattrFlags::empty(),
    );
    assert_eq!(errno(capability), Errno::OPNOTSUPP);
    let before_1970 = rustix::fs::Timespec {
        tv_sec: -2,
        tv_nsec: 500_000_000,
    };
    let times = rustix::fs::Timestamps {
        last_access: before_1970,
        last_modification: before_1970,
    };
    rustix::fs::utimensat(CWD, root.join("hard"), &times, AtFlags::empty()).expect("set");
    rustix::fs::mknodat(
        CWD,
        root.join("pipe"),
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .expect("made");

    let sparse = File::create(root.join("sparse")).expect("made");
    sparse.set_len(2 << 30).expect("long");
    sparse
        .write_all_at(b"middle", 512 * MIB + 4096 - 4)
        .expect("written");
    sparse.write_all_at(&[9; 8192], 768 * MIB).expect("written");
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&sparse, punch, 768 * MIB, 8192).expect("punched");
    let collapse = rustix::fs::fallocate(&sparse, FallocateFlags::COLLAPSE_RANGE, 0, 4096);
    assert_eq!(errno(collapse), Errno::OPNOTSUPP);
    sparse.set_len(1 << 30).expect("cut");

    fs::create_dir(root.join("many")).expect("a folder");
    for number in 0..5000 {
        File::create(root.join(format!("many/file-{number:05}"))).expect("made");
    }
    fs::write(root.join("gone"), b"in use").expect("written");
    let mut open = File::open(root.join("gone")).expect("open");
    fs::remove_file(root.join("gone")).expect("removed");
    assert_eq!(io_errno(fs::metadata(root.join("gone"))), Errno::NOENT);
    let mut content = Vec::new();
    open.read_to_end(&mut content).expect("read");
    assert_eq!(
        (&content[..], open.metadata().expect("there").nlink()),
        (&b"in use"[..], 0)
    );
    assert_eq!(io_errno(fs::remove_dir(root.join("deep"))), Errno::NOTEMPTY);
    assert_eq!(
        io_errno(fs::write(root.join("x".repeat(256)), b"")),
        Errno::NAMETOOLONG
    );
}

#[test]
fn a_tree_is_the_same_after_the_next_mount() {
    let Some(bench) = bench() else { return };
    let mount = TreeMount::new(&bench);
    let before = rustix::fs::statvfs(mount.root()).expect("a file system");
    assert_eq!((before.f_frsize, before.f_namemax), (4096, 255));
    build(mount.root());
    verify(mount.root());
    let after = rustix::fs::statvfs(mount.root()).expect("a file system");
    let used = (before.f_bfree - after.f_bfree) * 4096;
    assert!((5 * MIB..8 * MIB).contains(&used), "{used} bytes are used");
    assert_eq!(
        after.f_files - after.f_ffree,
        before.f_files - before.f_ffree + 5010
    );
    mount.unmount();
    assert_eq!(names(&bench.path("mnt")), BTreeSet::new());
    bench.ok(&["check", "s.tn"]);

    let mount = TreeMount::new(&bench);
    verify(mount.root());
    fs::remove_dir_all(mount.path("many")).expect("removed");
    mount.unmount();
    let read_only = TreeMount::start(&bench, &["-o", "ro,noatime"]).expect("mounted");
    assert_eq!(io_errno(fs::write(read_only.path("new"), b"")), Errno::ROFS);
    assert_eq!(names(read_only.root()).len(), 7);
    read_only.unmount();
    bench.ok(&["check", "s.tn"]);
}

#[test]
fn programs_of_the_system_copy_a_tree_in_and_out() {
    let Some(bench) = bench() else { return };
    let mount = TreeMount::new(&bench);
    fs::create_dir_all(bench.path("tree/a/b")).expect("folders");
    for file in 0..60u64 {
        let bytes = noise(file, (file * file * 97) as usize);
        bench.write(&format!("tree/a/f{file}"), &bytes);
    }
    symlink("../f1", bench.path("tree/a/b/link")).expect("a link");
    bench.tool("cp", &["-a", "tree", "mnt/in"]);
    bench.tool("cp", &["-a", "mnt/in", "mnt/copy"]);
    bench.tool("diff", &["-r", "--no-dereference", "tree", "mnt/copy"]);
    mount.unmount();
    let mount = TreeMount::new(&bench);
    bench.tool("diff", &["-r", "--no-dereference", "tree", "mnt/copy"]);
    let json = bench.json(&["stats", "s.tn", "--json"]);
    let operations = json["mount"]["operations"].as_array().expect("a list");
    let read = operations
        .iter()
        .find(|one| one["operation"] == "read")
        .expect("reads");
    assert!(read["bytes"].as_u64().expect("a number") > 0, "{read}");
    contains(&bench.ok(&["stats", "s.tn"]), "lookup");
    mount.unmount();
}

#[test]
fn each_end_is_in_order() {
    let Some(bench) = bench() else { return };
    type End = fn(&mut TreeMount);
    let ends: [(&str, End); 3] = [
        ("fusermount3", |mount| {
            let done = tool(Path::new("/"), "fusermount3")
                .arg("-u")
                .arg(mount.root())
                .status();
            assert!(done.expect("it runs").success());
        }),
        ("SIGTERM", |mount| mount.server().signal(Signal::TERM)),
        ("SIGINT", |mount| mount.server().signal(Signal::INT)),
    ];
    for (name, end) in ends {
        let mut mount = TreeMount::new(&bench);
        fs::write(mount.path(name), name).expect("written");
        end(&mut mount);
        let ran = mount.ended_ok();
        assert!(!ran.err.contains("recovered"), "{ran:?}");
        assert_eq!(names(&bench.path("mnt")), BTreeSet::new(), "{name}");
    }
    let mount = TreeMount::new(&bench);
    assert_eq!(names(mount.root()).len(), 3);
    // A program that uses the mount does not keep the server.
    let mut open = File::create(mount.path("open")).expect("made");
    open.write_all(b"written").expect("written");
    let mut mount = mount;
    mount.server().signal(Signal::TERM);
    let ran = mount.ended_ok();
    contains(&ran.err, "still use the mount");
    assert_eq!(io_errno(open.write(b"more")), Errno::NOTCONN);
    assert_eq!(
        io_errno(open.rewind().and_then(|()| open.sync_all())),
        Errno::NOTCONN
    );
    drop(open);
    let mount = TreeMount::new(&bench);
    assert_eq!(fs::read(mount.path("open")).expect("read"), b"written");
    mount.unmount();
}

#[test]
fn an_unmounted_store_can_be_mounted_again_at_once() {
    let Some(bench) = bench() else { return };
    let mut mount = TreeMount::new(&bench);
    for round in 0..3u64 {
        fs::write(mount.path("a"), noise(round, 40 << 20)).expect("written");
        bench.tool("umount", &["mnt"]);
        let next = TreeMount::new(&bench);
        assert_eq!(
            fs::read(next.path("a")).expect("read"),
            noise(round, 40 << 20)
        );
        std::mem::replace(&mut mount, next).ended_ok();
    }
    mount.unmount();
}

#[test]
fn a_mount_without_its_server_is_replaced() {
    let Some(bench) = bench() else { return };
    let mount = TreeMount::new(&bench);
    fs::write(mount.path("a"), b"content").expect("written");
    File::open(mount.path("a"))
        .expect("open")
        .sync_all()
        .expect("synced");
    mount.kill9();
    assert_eq!(
        errno(rustix::fs::statvfs(bench.path("mnt"))),
        Errno::NOTCONN
    );
    let mut mount = TreeMount::new(&bench);
    assert_eq!(fs::read(mount.path("a")).expect("read"), b"content");
    mount.server().signal(Signal::TERM);
    let ran = mount.ended_ok();
    contains(&ran.err, "had lost its server; it was detached");
}

#[test]
fn failed_mount_reports_one_error_line() {
    let Some(bench) = bench() else { return };
    bench.write("file", b"");
    fs::create_dir(bench.path("other")).expect("a folder");
    let fails = |words: &[&str], why: &str| {
        let ran = bench.run(&[&["mount"], words].concat());
        assert_eq!(ran.code, Some(1), "{words:?}: {ran:?}");
        contains(&ran.err, why);
        assert_eq!(ran.err.trim().lines().count(), 1, "{words:?}: {ran:?}");
    };
    fails(&["s.tn", "none"], "there is no such directory");
    fails(&["s.tn", "file"], "it is not a directory");
    fails(&["s.tn", "/proc"], "is mounted there");
    fails(&["s.tn", "other", "-o", "noatime,fast"], "'fast'");
    fails(&["none.tn", "other"], "none.tn");
    fails(&["s.tn", "other", "-o", "ro"], "read-only");
    let mount = TreeMount::new(&bench);
    fails(&["s.tn", "other"], "in use");
    fails(&["s.tn", "mnt"], "is mounted there");
    mount.unmount();
    fails(&["file", "other"], "file");
    let ran = bench.run(&["serve", "s.tn", "-o", "ro"]);
    contains(&ran.err, "--mount");
}

/// The kernel would wait for the server, and the server for the kernel.
#[test]
fn a_member_is_not_put_on_the_own_mount() {
    if let Err(why) = fuse_possible() {
        return skipped("a member on the own mount", &why);
    }
    let sizes = ["--size", "64MiB", "--log-size", "16MiB", "--no-volume"];
    let array = [
        "--redundancy",
        "raid5",
        "--data",
        "m1",
        "--data",
        "m2",
        "--data",
        "m3",
    ];
    let bench = Bench::created(&[&sizes[..], &array].concat());
    fs::remove_file(bench.path("m2")).expect("removed");
    symlink("mnt", bench.path("link")).expect("a link");
    let mount = TreeMount::new(&bench);
    for new in ["mnt/new", "link/new"] {
        let ran = bench.run(&["member", "replace", "s.tn", new]);
        assert_eq!(ran.code, Some(1), "{new}: {ran:?}");
        contains(&ran.err, "is on the store's own mount");
    }
    assert!(names(&mount.path("")).is_empty());
    fs::write(mount.path("a"), b"it goes on").expect("written");
    bench.ok(&["stats", "s.tn"]);
    mount.unmount();
}

#[test]
fn setuid_is_cleared_by_chown_and_foreign_writes() {
    let Some(bench) = bench() else { return };
    let mount = TreeMount::start(&bench, &["-o", "allow_other"]).expect("mounted");
    fs::set_permissions(bench.folder(), PermissionsExt::from_mode(0o755)).expect("changed");
    let path = mount.path("program");
    let mode = |path: &Path| fs::metadata(path).expect("there").mode() & 0o7777;
    let set = |mode| {
        fs::write(&path, b"program").expect("written");
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("changed");
    };
    set(0o6777);
    fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .and_then(|mut file| file.write_all(b"by root"))
        .expect("written");
    assert_eq!(mode(&path), 0o6777);
    let nobody = |words: &str| {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", words, "sh"])
            .arg(&path)
            .uid(65534)
            .gid(65534);
        shell
            .stderr(Stdio::null())
            .status()
            .expect("it runs")
            .success()
    };
    assert!(nobody("echo more >> \"$1\""));
    assert_eq!(mode(&path), 0o777);
    set(0o6777);
    assert!(nobody(": > \"$1\""));
    assert_eq!(mode(&path), 0o777);
    set(0o6745);
    std::os::unix::fs::chown(&path, Some(65534), None).expect("changed");
    assert_eq!(mode(&path), 0o2745);
    set(0o600);
    std::os::unix::fs::chown(&path, Some(0), Some(0)).expect("changed");
    assert!(!nobody("cat \"$1\""), "the kernel checks permissions");
    fs::set_permissions(mount.root(), PermissionsExt::from_mode(0o777)).expect("changed");
    assert!(nobody("echo new > \"$(dirname \"$1\")/theirs\""));
    let theirs = fs::metadata(mount.path("theirs")).expect("there");
    assert_eq!((theirs.uid(), theirs.gid()), (65534, 65534));
    // The earliest time that there is.
    let earliest = rustix::fs::Timespec {
        tv_sec: i64::MIN,
        tv_nsec: 0,
    };
    let times = rustix::fs::Timestamps {
        last_access: earliest,
        last_modification: earliest,
    };
    rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty()).expect("set");
    assert_eq!(fs::metadata(&path).expect("there").mtime(), i64::MIN);
    mount.unmount();
}

#[test]
fn a_full_store_is_an_error_of_the_write_alone() {
    if let Err(why) = fuse_possible() {
        return skipped("the mounted file system", &why);
    }
    let bench = Bench::created(&["--size", "16MiB", "--log-size", "8MiB", "--no-volume"]);
    let mount = TreeMount::new(&bench);
    fs::write(mount.path("a"), b"first").expect("written");
    let mut file = File::create(mount.path("filler")).expect("made");
    let full = (0..64).find_map(|_| file.write_all(&noise(3, 1 << 20)).err());
    assert_eq!(io_errno(full.map_or(Ok(()), Err)), Errno::NOSPC);
    assert_eq!(fs::read(mount.path("a")).expect("read"), b"first");
    drop(file);
    fs::remove_file(mount.path("filler")).expect("removed");
    // The kernel reports later that the file is closed. Its blocks are free from then on.
    tonearm_tests::wait_until("space for another file", Duration::from_secs(20), || {
        fs::write(mount.path("b"), noise(4, 1 << 20)).is_ok()
    });
    mount.unmount();
    bench.ok(&["check", "s.tn"]);
}

#[test]
fn the_helper_of_mount_returns_when_the_store_is_mounted() {
    let Some(bench) = bench() else { return };
    symlink(binary(), bench.path("mount.fuse.tonearm")).expect("a link");
    fs::create_dir(bench.path("mnt")).expect("a folder");
    let helper = |words: &[&str]| {
        let mut command = Command::new(bench.path("mount.fuse.tonearm"));
        command.args(words).current_dir(bench.folder());
        command.status().expect("it runs").code()
    };
    let options = "rw,noatime,_netdev,max_delay=100ms,memory=64MiB,x-systemd.automount";
    let words = ["s.tn", "mnt", "-n", "-o", options, "-t", "fuse.tonearm"];
    assert_eq!(helper(&words), Some(0));
    fs::write(bench.path("mnt/a"), b"content").expect("written");
    bench.tool("umount", &["mnt"]);
    // The server ends on its own time; the store is free then.
    tonearm_tests::wait_until("the end", Duration::from_secs(20), || {
        bench.run(&["check", "s.tn"]).code == Some(0)
    });
    let mount = TreeMount::new(&bench);
    assert_eq!(fs::read(mount.path("a")).expect("read"), b"content");
    mount.unmount();
    assert_eq!(helper(&["s.tn", "none"]), Some(32));
    assert_eq!(helper(&["s.tn"]), Some(1));
}

#[test]
fn mount_next_to_volumes_ends_alone_or_with_them() {
    if let Err(why) = fuse_possible() {
        return skipped("the mounted file system", &why);
    }
    let bench = Bench::created(&["--size", "256MiB", "--log-size", "16MiB"]);
    bench.ok(&["volume", "resize", "s.tn", "main", "--size", "64MiB"]);
    fs::create_dir(bench.path("mnt")).expect("a folder");
    let words = [
        "s.tn", "--socket", "s.sock", "--mount", "mnt", "-o", "noatime",
    ];
    let start = || {
        let server = Server::start(&bench, &words).unwrap_or_else(|ran| panic!("{ran:?}"));
        TreeMount::of(server, bench.path("mnt"))
    };
    let mut mount = start();
    let mut client = mount.server().client("main");
    let block = noise(5, 4096);
    client.write(0, &block, 0).expect("written");
    fs::write(mount.path("a"), &block).expect("written");
    assert_eq!(client.read(0, 4096).expect("read"), block);
    bench.tool("umount", &["mnt"]);
    assert_eq!(client.read(0, 4096).expect("read"), block);
    drop(client);
    // umount(8) may return before the server has seen the end of the mount.
    mount.server().wait_for_note("volumes are still served");
    mount.server().signal(Signal::TERM);
    mount.ended_ok();

    let mut mount = start();
    assert_eq!(fs::read(mount.path("a")).expect("read"), block);
    assert_eq!(
        mount.server().client("main").read(0, 4096).expect("read"),
        block
    );
    mount.server().signal(Signal::TERM);
    mount.ended_ok();
    assert_eq!(names(&bench.path("mnt")), BTreeSet::new());
    bench.ok(&["check", "s.tn"]);
}

/// Databases of SQLite's VFS are files of the mount, and each side sees what the other one has changed.
#[test]
fn databases_are_files_of_the_mount() {
    let Some(bench) = bench() else { return };
    let mut mount = TreeMount::new(&bench);
    fs::create_dir(mount.path("shop")).expect("a folder");
    sql(
        &bench,
        "shop/app.db",
        "CREATE TABLE t(a); INSERT INTO t VALUES (1)",
    );
    assert_eq!(
        names(&mount.path("shop")),
        BTreeSet::from(["app.db".into()])
    );
    let bytes = fs::read(mount.path("shop/app.db")).expect("read");
    assert!(bytes.starts_with(b"SQLite format 3\0"));
    // What the kernel has kept of the content is dropped.
    sql(&bench, "shop/app.db", "UPDATE t SET a = 77771");
    let own = |name: &str| {
        let path = mount.path(name);
        let query = "SELECT a FROM t";
        let ran = tool(bench.folder(), "sqlite3")
            .arg(path)
            .arg(query)
            .output();
        String::from_utf8(ran.expect("it runs").stdout).expect("text")
    };
    tonearm_tests::wait_until("the new content", Duration::from_secs(5), || {
        own("shop/app.db") == "77771\n"
    });
    // The kernel knows the name that is not there, and another one that is gone.
    assert!(!mount.path("copy.db").exists());
    sql(
        &bench,
        "shop/app.db",
        "VACUUM INTO 'file:copy.db?vfs=tonearm&store=s.tn'",
    );
    tonearm_tests::wait_until("the new name", Duration::from_secs(5), || {
        mount.path("copy.db").exists()
    });
    assert_eq!(own("copy.db"), "77771\n");
    bench.ok(&["files", "mv", "s.tn", "copy.db", "shop/moved.db"]);
    tonearm_tests::wait_until("the move", Duration::from_secs(5), || {
        !mount.path("copy.db").exists() && mount.path("shop/moved.db").exists()
    });
    fs::rename(mount.path("shop/moved.db"), mount.path("by-mount.db")).expect("renamed");
    assert_eq!(sql(&bench, "by-mount.db", "SELECT a FROM t"), "77771");

    // One way at a time.
    let open = File::open(mount.path("by-mount.db")).expect("open");
    let refused = shell(&bench, "by-mount.db", "SELECT a FROM t");
    contains(&refused.err, "open on the mount");
    drop(open);
    assert_eq!(sql(&bench, "by-mount.db", "SELECT a FROM t"), "77771");
    let mut user = Command::new("sqlite3");
    user.args([":memory:", "-cmd"]);
    user.arg(format!(".load {}", extension().display()));
    user.args(["-cmd", &format!(".open {}", uri(&bench, "by-mount.db"))]);
    user.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut user = user.spawn().expect("sqlite3");
    let mut asks = user.stdin.take().expect("its input");
    let mut answers = user.stdout.take().expect("its output");
    asks.write_all(b"SELECT a FROM t;\n").expect("asked");
    let mut line = [0; 6];
    answers.read_exact(&mut line).expect("answered");
    let path = mount.path("by-mount.db");
    for refused in [
        File::open(&path).err(),
        File::options().write(true).truncate(true).open(&path).err(),
    ] {
        let error = refused.and_then(|error| error.raw_os_error());
        assert_eq!(error, Some(Errno::BUSY.raw_os_error()));
    }
    assert_eq!(
        rustix::fs::stat(&path).expect("attributes").st_size as u64,
        bytes.len() as u64
    );
    drop(asks);
    assert!(user.wait().expect("ended").success());
    tonearm_tests::wait_until("the end of the session", Duration::from_secs(5), || {
        File::open(&path).is_ok()
    });
    mount.server().signal(Signal::TERM);
    mount.ended_ok();
    assert_eq!(sql(&bench, "shop/app.db", "SELECT a FROM t"), "77771");
    contains(&bench.ok(&["check", "s.tn"]), "no damage found");
}

#[test]
fn store_that_another_mount_hides_is_reported() {
    if let Err(why) = fuse_possible() {
        return skipped("a mount on the folder of a store", &why);
    }
    let bench = Bench::new();
    std::fs::create_dir(bench.path("in")).expect("made");
    bench.ok(&["create", "in/s.tn", "--size", "16MiB", "--log-size", "8MiB"]);
    let server = bench.serve(&["in/s.tn", "--socket", "s.sock"]);
    bench.tool("mount", &["-t", "tmpfs", "none", "in"]);
    let noticed = || server.wait_for_note("in/s.tn.ctl does not lead to this server any more");
    let noticed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(noticed));
    bench.tool("umount", &["in"]);
    noticed.expect("a line");
    server.wait_for_note("in/s.tn.ctl leads to this server again");
    bench.ok(&["stats", "in/s.tn"]);
    server.end_ok();
}
