//! A medium that fails below a mount, in the place of one file's content: reads of that content are EIO, all other files
//! stay usable, and `tonearm check` names the damage.

use rustix::io::Errno;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use tonearm_tests::mount::{Loop, fuse_possible, possible};
use tonearm_tests::{Bench, MIB, Ran, TreeMount, contains, noise, skipped};

const SIZES: [&str; 5] = ["--size", "256MiB", "--log-size", "16MiB", "--no-volume"];
const BLOCK: usize = 4096;
/// The block of the file `victim` from which on its place fails. The kernel does not read that far ahead from the
/// beginning of the file.
const FAILS: usize = 128;
/// Bytes of each file.
const LENGTH: usize = 1 << 20;

/// Makes the files `before` and `victim`, with free space between them. Returns where the block [`FAILS`] of `victim` lies in the file
/// `medium` of the bench. The store is closed then, and no memory of a server or kernel has the content.
fn filled(bench: &Bench, medium: &str) -> u64 {
    let mount = TreeMount::new(bench);
    for (name, seed, length) in [
        ("before", 1, LENGTH),
        ("between", 5, 32 * LENGTH),
        ("victim", 2, LENGTH),
    ] {
        let mut file = File::create(mount.path(name)).expect("made");
        file.write_all(&noise(seed, length)).expect("written");
        // One after the other, so that `victim` comes after all that is written before.
        file.sync_all().expect("synced");
    }
    // What is written later lies before `victim`.
    fs::remove_file(mount.path("between")).expect("removed");
    mount.unmount();
    let content = noise(2, LENGTH);
    let block = &content[FAILS * BLOCK..][..BLOCK];
    // The search starts after the superblocks and the log.
    let place = bench.find_block(medium, 17 * MIB, block);
    place.expect("at home")
}

/// The block [`FAILS`] of `victim` cannot be read, by any read that contains it. The blocks before can.
fn only_the_block_fails(victim: &Path) {
    let file = File::open(victim).expect("open");
    let mut block = vec![0; BLOCK];
    let at = (FAILS * BLOCK) as u64;
    for offset in [at, at + 100] {
        let error = file.read_exact_at(&mut block, offset).expect_err("damaged");
        assert_eq!(Errno::from_io_error(&error), Some(Errno::IO), "{error}");
    }
    let error = fs::read(victim).expect_err("damaged");
    assert_eq!(Errno::from_io_error(&error), Some(Errno::IO), "{error}");
    file.read_exact_at(&mut block, 0).expect("read");
    assert_eq!(block, noise(2, LENGTH)[..BLOCK]);
    // A write of a part of the block needs its other bytes.
    let file = File::options().write(true).open(victim).expect("open");
    let error = file.write_all_at(b"part", at + 7).expect_err("damaged");
    assert_eq!(Errno::from_io_error(&error), Some(Errno::IO), "{error}");
}

/// All other files can be read, changed, made, synced, renamed and removed.
fn others_are_usable(mount: &TreeMount) {
    assert_eq!(
        fs::read(mount.path("before")).expect("read"),
        noise(1, LENGTH)
    );
    let before = File::options().write(true).open(mount.path("before"));
    let before = before.expect("open");
    before.write_all_at(b"changed", 70_000).expect("written");
    before.sync_all().expect("synced");
    let mut new = File::create(mount.path("new")).expect("made");
    new.write_all(&noise(3, LENGTH)).expect("written");
    new.sync_all().expect("synced");
    fs::rename(mount.path("new"), mount.path("renamed")).expect("renamed");
    fs::create_dir(mount.path("folder")).expect("made");
    fs::remove_dir(mount.path("folder")).expect("removed");
}

/// What [`others_are_usable`] has left.
fn others_are_whole(mount: &TreeMount) {
    let mut before = noise(1, LENGTH);
    before[70_000..70_007].copy_from_slice(b"changed");
    assert!(fs::read(mount.path("before")).expect("read") == before);
    assert!(fs::read(mount.path("renamed")).expect("read") == noise(3, LENGTH));
}

/// From the failure to the mount after the next. The store was mounted, and `victim` has failed. Gives what `check` says between.
fn goes_on(bench: &Bench, mount: TreeMount, before_check: impl FnOnce()) -> Ran {
    others_are_usable(&mount);
    only_the_block_fails(&mount.path("victim"));
    mount.unmount();
    before_check();
    let check = bench.run(&["check", "s.tn"]);
    let mount = TreeMount::new(bench);
    others_are_whole(&mount);
    only_the_block_fails(&mount.path("victim"));
    mount.unmount();
    check
}

fn checksum_errors(bench: &Bench) -> Option<u64> {
    bench.json(&["stats", "s.tn", "--json"])["store"]["checksum_errors"].as_u64()
}

#[test]
fn wrong_content_of_the_medium_is_eio_for_its_file_alone() {
    if let Err(why) = fuse_possible() {
        return skipped("a mount on a damaged medium", &why);
    }
    let bench = Bench::created(&SIZES);
    let place = filled(&bench, "s.tn");
    bench.overwrite("s.tn", place + 1999, b"rotten");
    let mount = TreeMount::new(&bench);
    only_the_block_fails(&mount.path("victim"));
    assert!(checksum_errors(&bench) > Some(0));
    let check = goes_on(&bench, mount, || ());
    assert_eq!(check.code, Some(3), "{check:?}");
    contains(&check.out, &format!("s.tn at byte {place}"));
    let (at, end) = (FAILS * BLOCK, (FAILS + 1) * BLOCK);
    contains(&check.out, &format!(": bytes {at} up to {end} are damaged"));
    contains(&check.out, "damage: file victim (inode ");
    // New content repairs the file.
    let mount = TreeMount::new(&bench);
    fs::write(mount.path("victim"), noise(4, LENGTH)).expect("written");
    mount.unmount();
    contains(&bench.ok(&["check", "s.tn"]), "no damage found");
    let mount = TreeMount::new(&bench);
    others_are_whole(&mount);
    assert!(fs::read(mount.path("victim")).expect("read") == noise(4, LENGTH));
    mount.unmount();
}

#[test]
fn unreadable_medium_is_eio_for_its_file_alone() {
    if let Err(why) = possible().and_then(|()| fuse_possible()) {
        return skipped("a mount on a medium that cannot be read", &why);
    }
    let bench = Bench::new();
    let medium = File::create(bench.path("medium")).expect("made");
    medium.set_len(320 * MIB).expect("long");
    let device = Loop::new(&bench, &bench.path("medium"), 512);
    symlink(&device.device, bench.path("s.tn")).expect("a link");
    bench.ok(&[&["create", "s.tn", "--force"], &SIZES[..]].concat());
    let place = filled(&bench, "medium");
    let mount = TreeMount::new(&bench);
    // The kernel's loop device answers reads beyond the end of its file with EIO, and keeps its size.
    let cut = || medium.set_len(place).expect("cut");
    cut();
    only_the_block_fails(&mount.path("victim"));
    assert_eq!(checksum_errors(&bench), Some(0), "the device reported it");
    // The checksums of later blocks cannot be read either. The copy of the superblock at the end, which the unmounting writes, makes the
    // file as long as before.
    let check = goes_on(&bench, mount, cut);
    assert_eq!(check.code, Some(1), "{check:?}");
    contains(&check.err, "read failed on s.tn at byte");
}

#[test]
fn check_names_the_damaged_files_by_their_paths() {
    if let Err(why) = fuse_possible() {
        return skipped("a mount on a damaged medium", &why);
    }
    let bench = Bench::created(&SIZES);
    let mount = TreeMount::new(&bench);
    // Damaged are blocks 1, 2 and 5 of the first file, and the only block of the last one.
    let files = [
        ("one/two/three/first", 11, 8),
        ("one/two/whole", 12, 8),
        ("last", 13, 1),
    ];
    fs::create_dir_all(mount.path("one/two/three")).expect("made");
    for (name, seed, blocks) in files {
        fs::write(mount.path(name), noise(seed, blocks * BLOCK)).expect("written");
    }
    // The directories get other names, so that their paths are not those of their making.
    fs::rename(mount.path("one"), mount.path("moved")).expect("renamed");
    mount.unmount();
    for (seed, block) in [(11, 1), (11, 2), (11, 5), (13, 0)] {
        let content = noise(seed, (block + 1) * BLOCK);
        let place = bench.find_block("s.tn", 17 * MIB, &content[block * BLOCK..]);
        bench.overwrite("s.tn", place.expect("at home") + 9, b"rotten");
    }
    let ran = bench.run(&["check", "s.tn", "--json"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let found: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    let parts = found["files"]["damaged"].as_array().expect("a list");
    let part = |part: &serde_json::Value| {
        let number = |name: &str| part[name].as_u64().expect("a number");
        let path = part["path"].as_str().expect("a path").to_string();
        (path, number("offset"), number("bytes"))
    };
    let mut parts: Vec<_> = parts.iter().map(part).collect();
    parts.sort();
    let first = "moved/two/three/first".to_string();
    let expected = [
        ("last".to_string(), 0, 4096),
        (first.clone(), 4096, 8192),
        (first, 5 * 4096, 4096),
    ];
    assert_eq!(parts, expected);
    let ran = bench.run(&["check", "s.tn"]);
    assert!(!ran.out.contains("whole ("), "{ran:?}");
    contains(&ran.out, "damage: file last (inode ");
}
