//! Suites of others on a mount.

use super::{bench, check, limited, mounted, ran, share, unmount_and_check};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use tonearm_tests::{Bench, Server, TreeMount, binary, built_tool, noise, require};

/// Cases of pjdfstest 0.2.2 that pass.
const PJDFSTEST_CASES: usize = 397;
/// Cases of pjdfstest that cannot run on any FUSE mount: it asks pathconf(2) for the most links of a file, which the C library
/// does not know of a FUSE mount. `limits.rs` has the same assertions, with our limit.
const PJDFSTEST_EXCLUDED: [&str; 1] = ["link::link_count_max"];

/// A folder that other users can reach, whatever the folder of the tests is.
struct Reachable(PathBuf);

impl Reachable {
    fn new(bench: &Bench) -> Self {
        let name = bench.folder().file_name().expect("a name");
        let path = std::env::temp_dir().join(name).with_extension("mnt");
        fs::create_dir(&path).expect("a folder");
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("changed");
        Self(path)
    }
}

impl Drop for Reachable {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Runs pjdfstest. Returns the names of the cases that passed and of those that were skipped. None may fail.
fn pjdfstest(bench: &Bench, place: &Path, remounts: bool) -> (BTreeSet<String>, BTreeSet<String>) {
    let config = format!(
        "[features]\nposix_fallocate = {{}}\nrename_ctime = {{}}\nutime_now = {{}}\nutimensat = {{}}\n\
         stat_st_birthtime = {{}}\n[settings]\nnaptime = 0.002\nallow_remount = {remounts}\nexpected_failures = []\n\
         [dummy_auth]\nentries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"]]\n"
    );
    bench.write("pjdfstest.toml", config.as_bytes());
    // mount(8) finds the helper by its place in /sbin. A test does not change that folder, so this is what mount(8) runs.
    let script = format!(
        "#!/bin/bash\ncase \"$2\" in remount,*) exec -a mount.fuse.tonearm '{}' '{}' \"$3\" -o \"$2,suid,dev\";; esac\n\
         PATH=/usr/sbin:/usr/bin:/sbin:/bin exec mount \"$@\"\n",
        binary().display(),
        bench.path("s.tn").display()
    );
    let _ = fs::create_dir(bench.path("path"));
    bench.write("path/mount", script.as_bytes());
    fs::set_permissions(bench.path("path/mount"), PermissionsExt::from_mode(0o755))
        .expect("changed");
    let path = std::env::var("PATH").expect("a path");
    let mut command = limited(&built_tool("pjdfstest"), 120);
    command
        .args(["-c", "pjdfstest.toml", "-s", "/dev/shm", "-p"])
        .arg(place)
        .env("PATH", format!("{}:{path}", bench.path("path").display()))
        .env("RUST_BACKTRACE", "0")
        .current_dir(bench.folder());
    if remounts {
        command.arg("erofs");
    }
    let ran = ran(&mut command);
    let mut passed = BTreeSet::new();
    let mut skipped = BTreeSet::new();
    for line in ran.out.lines() {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            [name, "ok"] => drop(passed.insert(name.to_string())),
            [name, "skipped"] => drop(skipped.insert(name.to_string())),
            _ => {}
        }
    }
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.out, ran.err);
    (passed, skipped)
}

#[test]
fn pjdfstest_passes() {
    let Some(bench) = bench("1GiB", "64MiB") else {
        return;
    };
    let place = Reachable::new(&bench);
    let words = [
        "mount",
        "s.tn",
        place.0.to_str().expect("UTF-8"),
        "-o",
        "allow_other,suid,dev",
    ];
    let server = Server::start_with(&bench, &words, "mounted ");
    let server = server.unwrap_or_else(|ran| panic!("not mounted: {ran:?}"));
    let mount = TreeMount::of(server, place.0.clone());
    let (mut passed, mut skipped) = pjdfstest(&bench, &place.0, false);
    // A case of posix_fallocate leaves a file open for writing, so a remount to read-only fails after it.
    let (remounted, more) = pjdfstest(&bench, &place.0, true);
    passed.extend(remounted);
    skipped.extend(more);
    skipped.retain(|name| !passed.contains(name));
    println!(
        "pjdfstest: {} cases passed, none failed, excluded: {skipped:?}",
        passed.len()
    );
    assert_eq!(skipped, PJDFSTEST_EXCLUDED.map(String::from).into());
    assert_eq!(passed.len(), PJDFSTEST_CASES);
    unmount_and_check(&bench, mount);
}

/// Operations of fsx and their weights; `long` is the size of the file, `most` that of an operation.
fn fsx_config(long: u64, most: u64) -> String {
    format!(
        "flen = {long}\n[opsize]\nmax = {most}\nmin = 1\nalign = 1\n[weights]\nclose_open = 1\nread = 10\nwrite = 10\n\
         mapread = 10\nmapwrite = 10\ninvalidate = 1\ntruncate = 3\nfsync = 0.02\nfdatasync = 0.02\nposix_fallocate = 2\n\
         punch_hole = 3\nsendfile = 3\nposix_fadvise = 1\ncopy_file_range = 3\n"
    )
}

#[test]
fn fsx_finds_every_byte() {
    let Some(bench) = bench("1GiB", "128MiB") else {
        return;
    };
    let mount = mounted(&bench);
    // fsx 0.3.2 keeps what it maps for reading, and the system allows some 65,000 mappings: a million operations are five runs.
    let mut rounds = vec![(1 << 18, 1 << 15, share(15_000, 200_000), 42)];
    rounds.extend((43..share(43, 47)).map(|seed| (1 << 18, 1 << 15, 200_000, seed)));
    // Writes of many requests, and files whose blocks need more than one unit to be freed.
    rounds.push((12 << 20, 2 << 20, share(300, 20_000), 50));
    for (long, most, operations, seed) in rounds {
        bench.write("fsx.toml", fsx_config(long, most).as_bytes());
        let mut command = limited(&built_tool("fsx"), share(100, 7200));
        command
            .args(["-q", "-f", "fsx.toml", "-P", "."])
            .args(["-N", &operations.to_string(), "-S", &seed.to_string()])
            .arg(mount.path("fsx"))
            .current_dir(bench.folder());
        let ran = ran(&mut command);
        assert_eq!(ran.code, Some(0), "seed {seed}: {}\n{}", ran.out, ran.err);
        println!("fsx: {operations} operations on a file of up to {long} bytes, seed {seed}");
    }
    unmount_and_check(&bench, mount);
}

/// Stressors of files, all that stress-ng 0.15 has and an ordinary file system can have.
const STRESSORS: &str = "access,chdir,chmod,chown,copy-file,dentry,dir,dirdeep,dirmany,fallocate,fcntl,filename,flock,\
    fpunch,fstat,getdent,hdd,inotify,iomix,lease,link,locka,lockf,lockofd,mmap,open,readahead,rename,seek,sendfile,\
    splice,symlink,sync-file,touch,utime,xattr";
/// Those of `make test`.
const STRESSORS_SHORT: &str = "dentry,fallocate,fpunch,link,mmap,rename,utime,xattr";

#[test]
fn stress_ng_stresses_files() {
    let Some(bench) = bench("2GiB", "128MiB") else {
        return;
    };
    require("stress-ng");
    let mount = mounted(&bench);
    fs::create_dir(mount.path("stress")).expect("a folder");
    let names = share(STRESSORS_SHORT, STRESSORS);
    for name in names.split(',') {
        let mut command = limited(Path::new("stress-ng"), 120);
        command
            .args(["--temp-path", "mnt/stress", "--verify", "--timeout"])
            .args([share("1", "10"), &format!("--{name}"), share("2", "4")]);
        // They stay below the size of the store.
        match name {
            "seek" => drop(command.args(["--seek-size", "64m"])),
            "mmap" => drop(command.args(["--mmap-file", "--mmap-bytes", "64m"])),
            "copy-file" | "fallocate" | "hdd" | "iomix" | "readahead" | "sync-file" => {
                command.args([&format!("--{name}-bytes"), "64m"]);
            }
            _ => {}
        }
        let ran = ran(command.current_dir(bench.folder()));
        let text = format!("{name}: {}{}", ran.out, ran.err);
        assert_eq!(ran.code, Some(0), "{text}");
        let wrong = ["fail:", "skipping", "aborted"];
        assert!(!wrong.iter().any(|word| text.contains(word)), "{text}");
    }
    println!("stress-ng: {} stressors passed", names.split(',').count());
    fs::remove_dir_all(mount.path("stress")).expect("removed");
    unmount_and_check(&bench, mount);
}

#[test]
fn dbench_runs() {
    let Some(bench) = bench("1GiB", "128MiB") else {
        return;
    };
    require("dbench");
    let mount = mounted(&bench);
    let mut command = limited(Path::new("dbench"), share(60, 300));
    command.args(["-c", "/usr/share/dbench/client.txt", "-D", "mnt", "-t"]);
    let ran = ran(command
        .args([share("4", "60"), "4"])
        .current_dir(bench.folder()));
    let line = ran.out.lines().find(|line| line.starts_with("Throughput"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    println!("dbench: {}", line.expect("a result"));
    fs::remove_dir_all(mount.path("clients")).expect("removed");
    unmount_and_check(&bench, mount);
}

/// A tree of `files` files: of many sizes, with hard and symbolic links, FIFOs, modes, owners and times.
fn make_tree(root: &Path, files: u64) {
    for number in 0..files {
        let folder = root.join(format!("a{}/b{}", number % 17, number / 17 % 23));
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join(format!("file-{number}"));
        let length = match number % 50 {
            0 => 300_000 + number % 4096,
            1..10 => 0,
            _ => number * 7919 % 9000,
        };
        fs::write(&path, noise(number, length as usize)).expect("written");
        let mode =
            PermissionsExt::from_mode([0o644, 0o600, 0o4755, 0o2750, 0o1777][number as usize % 5]);
        match number % 20 {
            3 => fs::hard_link(&path, folder.join(format!("hard-{number}"))).expect("linked"),
            4 => symlink(
                format!("../b0/file-{number}"),
                folder.join(format!("soft-{number}")),
            )
            .expect("linked"),
            5 => {
                let name = folder.join(format!("fifo-{number}"));
                let kind = rustix::fs::FileType::Fifo;
                rustix::fs::mknodat(rustix::fs::CWD, &name, kind, 0o640.into(), 0).expect("made");
            }
            6 => std::os::unix::fs::chown(&path, Some(number as u32), Some(7)).expect("changed"),
            _ => {}
        }
        fs::set_permissions(&path, mode).expect("changed");
    }
}

#[test]
fn tar_takes_a_tree_in_and_out() {
    let Some(bench) = bench("2GiB", "128MiB") else {
        return;
    };
    let files = share(3000, 60_000);
    make_tree(&bench.path("tree"), files);
    let shell = |script: &str| {
        let ran = ran(limited(Path::new("sh"), share(100, 1200))
            .args(["-ec", script])
            .current_dir(bench.folder()));
        assert_eq!(ran.code, Some(0), "{script}: {ran:?}");
        ran.out
    };
    let mount = mounted(&bench);
    fs::create_dir(mount.path("in")).expect("a folder");
    shell(
        "tar -C tree --format=pax -cf tree.tar . && tar -C mnt/in -xpf tree.tar && tar -C mnt/in -df tree.tar",
    );
    unmount_and_check(&bench, mount);
    let mount = mounted(&bench);
    shell("tar -C mnt/in -df tree.tar");
    shell("tar -C mnt/in --format=pax -cf out.tar . && tar -C tree -df out.tar");
    let listed = shell(
        "tar -tf out.tar | LC_ALL=C sort > out && tar -tf tree.tar | LC_ALL=C sort > in && cmp in out && wc -l < in",
    );
    let links = fs::metadata(mount.path("in/a3/b0/file-3"))
        .expect("there")
        .nlink();
    assert_eq!(links, 2);
    println!("tar: {} entries in and out", listed.trim());
    shell(
        "cp -a mnt/in mnt/copy && diff -r --no-dereference mnt/in mnt/copy > said || ! grep -v 'is a fifo' said",
    );
    fs::remove_dir_all(mount.path("in")).expect("removed");
    mount.unmount();
    check(&bench);
}
