//! Limits: large directories, many files, long names and paths, large sparse files, many links.

use super::{bench, is_long, mounted, share, unmount_and_check};
use rustix::fs::{CWD, FallocateFlags, RenameFlags, SeekFrom};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;
use std::time::Instant;
use tonearm_tests::{GIB, MIB, TIB};

/// Most memory of a server that has served a directory of a million entries, or ten million files, in MiB: its caches are bounded.
const MEMORY_MAX_MIB: u64 = 600;
/// Most names of a file.
const LINKS_MAX: u64 = 65_000;

fn errno(result: std::io::Result<impl Sized>) -> Errno {
    Errno::from_io_error(&result.err().expect("an error")).expect("of the system")
}

#[test]
fn a_directory_has_a_million_entries() {
    let Some(bench) = bench("2GiB", "128MiB") else {
        return;
    };
    let count: u64 = share(20_000, 1_000_000);
    let mut mount = mounted(&bench);
    let folder = mount.path("large");
    fs::create_dir(&folder).expect("a folder");
    let name = |number: u64| format!("entry-{number:07}-of-a-large-directory");
    let timed = |what: &str, began: Instant| {
        let each_us = began.elapsed().as_secs_f64() * 1e6 / count as f64;
        println!("directory of {count}: {what} in {each_us:.1} us each");
    };
    let began = Instant::now();
    for number in 0..count {
        File::create_new(folder.join(name(number))).expect("made");
    }
    timed("created", began);
    let listed = |folder: &Path| {
        let mut seen = vec![false; count as usize];
        for entry in fs::read_dir(folder).expect("a folder") {
            let entry = entry.expect("an entry").file_name();
            let number = entry.to_str().expect("UTF-8")[6..13]
                .parse::<usize>()
                .expect("a number");
            assert!(
                !std::mem::replace(&mut seen[number], true),
                "{entry:?} is listed twice"
            );
        }
        seen.iter().filter(|seen| **seen).count() as u64
    };
    let began = Instant::now();
    assert_eq!(listed(&folder), count);
    timed("listed", began);
    mount.unmount();
    mount = mounted(&bench);
    let began = Instant::now();
    for number in 0..count {
        let number = number * 7_368_787 % count;
        assert_eq!(
            fs::metadata(folder.join(name(number)))
                .expect("there")
                .len(),
            0
        );
    }
    timed("looked up", began);
    assert_eq!(errno(fs::metadata(folder.join("another"))), Errno::NOENT);
    assert_eq!(
        errno(File::create_new(folder.join(name(count / 2)))),
        Errno::EXIST
    );
    assert_eq!(errno(fs::remove_dir(&folder)), Errno::NOTEMPTY);
    // Entries that are there all the time are listed once while others come and go.
    let mut seen = BTreeSet::new();
    for (at, entry) in fs::read_dir(&folder).expect("a folder").enumerate() {
        let entry = entry.expect("an entry").file_name();
        let number: u64 = entry.to_str().expect("UTF-8")[6..13]
            .parse()
            .expect("a number");
        if number.is_multiple_of(2) {
            assert!(seen.insert(number), "{entry:?} is listed twice");
        }
        let other = folder.join(name((at as u64 * 2 + 1) % count));
        if at % 3 == 0 && fs::remove_file(&other).is_ok() {
            File::create_new(&other).expect("made again");
        }
    }
    assert_eq!(seen.len() as u64, count / 2);
    let began = Instant::now();
    for number in 0..count {
        fs::remove_file(folder.join(name(number * 7_368_787 % count))).expect("removed");
    }
    timed("removed", began);
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 0);
    let memory_mib = mount.server().rss_kib() / 1024;
    println!("directory of {count}: the server has {memory_mib} MiB of memory");
    assert!(memory_mib < MEMORY_MAX_MIB, "{memory_mib} MiB");
    fs::remove_dir(&folder).expect("removed");
    unmount_and_check(&bench, mount);
}

/// The server's caches are bounded, whatever the number of files. They are all there after its kill.
#[test]
fn memory_does_not_grow_with_the_number_of_files() {
    const IN_FOLDER: u64 = 10_000;
    const THREADS: u64 = 2;
    let Some(bench) = bench("30GiB", "1GiB") else {
        return;
    };
    let folders: u64 = share(6, 1000);
    let count = folders * IN_FOLDER;
    let mut mount = mounted(&bench);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let root = mount.root();
            scope.spawn(move || {
                for folder in (thread..folders).step_by(THREADS as usize) {
                    let folder = root.join(format!("folder-{folder}"));
                    fs::create_dir(&folder).expect("a folder");
                    for number in 0..IN_FOLDER {
                        File::create_new(folder.join(format!("file-{number}"))).expect("made");
                    }
                }
            });
        }
    });
    let (rate, memory_mib) = (
        count as f64 / began.elapsed().as_secs_f64(),
        mount.server().rss_kib() >> 10,
    );
    println!("{count} files: {rate:.0} a second, the server has {memory_mib} MiB of memory");
    assert!(memory_mib < MEMORY_MAX_MIB, "{memory_mib} MiB");
    File::open(mount.path("folder-0"))
        .expect("there")
        .sync_all()
        .expect("durable");
    mount.kill9();
    let began = Instant::now();
    let mut mount = mounted(&bench);
    println!(
        "{count} files: mounted after a kill in {:.1?}",
        began.elapsed()
    );
    let last = mount.path(&format!("folder-{}", folders - 1));
    let listed = fs::read_dir(&last).expect("a folder").count() as u64;
    assert_eq!(listed, IN_FOLDER);
    let space = rustix::fs::statvfs(mount.root()).expect("space");
    assert_eq!(space.f_files - space.f_ffree, count + folders + 1);
    let memory_mib = mount.server().rss_kib() >> 10;
    assert!(memory_mib < MEMORY_MAX_MIB, "{memory_mib} MiB");
    match is_long() {
        // The check of ten million files takes minutes.
        true => mount.kill9(),
        false => unmount_and_check(&bench, mount),
    }
}

#[test]
fn names_have_255_bytes_and_paths_4095() {
    let Some(bench) = bench("256MiB", "16MiB") else {
        return;
    };
    let mount = mounted(&bench);
    let root = mount.root();
    let longest = root.join("n".repeat(255));
    let longer = root.join("n".repeat(256));
    let rename = |from: &Path, to: &Path, how| {
        rustix::fs::renameat_with(CWD, from, CWD, to, how).map_err(std::io::Error::from)
    };
    fs::write(&longest, b"long").expect("made");
    for refused in [
        errno(File::create(&longer)),
        errno(fs::create_dir(&longer)),
        errno(symlink("x", &longer)),
        errno(fs::hard_link(&longest, &longer)),
        errno(fs::rename(&longest, &longer)),
        errno(rename(&longest, &longer, RenameFlags::EXCHANGE)),
        errno(rename(&longest, &longer, RenameFlags::NOREPLACE)),
        errno(fs::metadata(&longer)),
        errno(fs::remove_file(&longer)),
        errno(fs::remove_dir(&longer)),
    ] {
        assert_eq!(refused, Errno::NAMETOOLONG);
    }
    assert_eq!(fs::read(&longest).expect("read"), b"long");
    fs::remove_file(&longest).expect("removed");

    // Every byte that a name can have, also what is no UTF-8.
    for byte in (1..=255).filter(|byte| *byte != b'/') {
        let bytes = [byte, b'x', byte];
        fs::write(root.join(OsStr::from_bytes(&bytes)), [byte]).expect("made");
    }
    let listed: BTreeSet<Vec<u8>> = fs::read_dir(root)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().as_bytes().to_vec())
        .collect();
    assert_eq!(listed.len(), 254);
    for bytes in listed {
        let path = root.join(OsStr::from_bytes(&bytes));
        assert_eq!(fs::read(&path).expect("read"), bytes[..1]);
        fs::remove_file(path).expect("removed");
    }

    let mut deep = root.to_path_buf();
    while deep.as_os_str().len() + 200 < 4090 {
        deep.push("d".repeat(198));
        fs::create_dir(&deep).expect("a folder");
    }
    let rest = 4095 - deep.as_os_str().len() - 1;
    let path = deep.join("p".repeat(rest));
    fs::write(&path, b"deep").expect("made");
    assert_eq!(fs::read(&path).expect("read"), b"deep");
    let beyond = deep.join("p".repeat(rest + 1));
    assert_eq!(errno(File::create(beyond)), Errno::NAMETOOLONG);
    let link = root.join("link");
    let target = "t".repeat(4095);
    symlink(&target, &link).expect("linked");
    assert_eq!(fs::read_link(&link).expect("read"), Path::new(&target));
    assert_eq!(fs::symlink_metadata(&link).expect("there").len(), 4095);
    assert_eq!(
        errno(symlink("t".repeat(4096), root.join("other"))),
        Errno::NAMETOOLONG
    );
    println!("names of 255 bytes of 254 values, a path and a target of 4095 bytes");
    unmount_and_check(&bench, mount);
}

#[test]
fn a_sparse_file_has_terabytes() {
    let Some(bench) = bench("256MiB", "16MiB") else {
        return;
    };
    let mount = mounted(&bench);
    let path = mount.path("sparse");
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .expect("made");
    file.set_len(8 * TIB).expect("long");
    let places = [0, 5 * MIB + 1, 3 * GIB - 3, TIB + 4095, 8 * TIB - 6];
    for (number, at) in places.into_iter().enumerate() {
        file.write_all_at(&[number as u8 + 1; 6], at)
            .expect("written");
    }
    let about = file.metadata().expect("attributes");
    assert_eq!((about.len(), about.blocks() * 512), (8 * TIB, 7 * 4096));
    drop(file);
    mount.unmount();
    let mount = mounted(&bench);
    let file = File::options()
        .read(true)
        .write(true)
        .open(&path)
        .expect("there");
    let mut at = 0;
    for (number, place) in places.into_iter().enumerate() {
        let mut bytes = [9; 6];
        file.read_exact_at(&mut bytes, place).expect("read");
        assert_eq!(bytes, [number as u8 + 1; 6]);
        let data = rustix::fs::seek(&file, SeekFrom::Data(at)).expect("found");
        assert_eq!(data, place / 4096 * 4096);
        at = rustix::fs::seek(&file, SeekFrom::Hole(data)).expect("found");
        assert_eq!(at, ((place + 5) / 4096 + 1) * 4096);
    }
    assert_eq!(
        rustix::fs::seek(&file, SeekFrom::Data(at)),
        Err(Errno::NXIO)
    );
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, 1, 8 * TIB - 1 - 6).expect("punched");
    let mut bytes = [9; 6];
    file.read_exact_at(&mut bytes, 0).expect("read");
    assert_eq!(bytes, [1, 0, 0, 0, 0, 0]);
    assert_eq!(
        file.metadata().expect("attributes").blocks() * 512,
        2 * 4096
    );
    // The last byte that a file can have.
    let last = i64::MAX as u64 - 1;
    file.write_all_at(b"z", last).expect("written");
    assert_eq!(file.metadata().expect("attributes").len(), last + 1);
    let mut byte = [0];
    file.read_exact_at(&mut byte, last).expect("read");
    assert_eq!(&byte, b"z");
    file.set_len(3).expect("cut");
    assert_eq!(file.metadata().expect("attributes").blocks() * 512, 4096);
    // More than the store has.
    let full = rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, TIB);
    assert_eq!(full, Err(Errno::NOSPC));
    drop(file);
    assert_eq!(fs::read(&path).expect("read"), [1, 0, 0]);
    println!("a sparse file of 8 TiB, and one of 2^63 - 1 bytes");
    unmount_and_check(&bench, mount);
}

/// `link::link_count_max` of pjdfstest (link/05.t).
#[test]
fn a_file_has_65_000_names() {
    let Some(bench) = bench("256MiB", "16MiB") else {
        return;
    };
    let mount = mounted(&bench);
    let file = mount.path("file");
    fs::write(&file, b"many names").expect("made");
    for number in 1..LINKS_MAX {
        fs::hard_link(&file, mount.path(&format!("name-{number}"))).expect("linked");
    }
    assert_eq!(
        errno(fs::hard_link(&file, mount.path("more"))),
        Errno::MLINK
    );
    assert_eq!(fs::metadata(&file).expect("there").nlink(), LINKS_MAX);
    assert_eq!(errno(fs::metadata(mount.path("more"))), Errno::NOENT);
    fs::remove_file(mount.path("name-1")).expect("removed");
    fs::hard_link(&file, mount.path("more")).expect("linked");
    println!("links: {LINKS_MAX} names of a file");
    unmount_and_check(&bench, mount);
}
