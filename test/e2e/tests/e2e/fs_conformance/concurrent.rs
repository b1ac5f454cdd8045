//! Threads that change the same directories at once.

use super::{bench, mounted, share, unmount_and_check};
use rustix::fs::{CWD, FallocateFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tonearm_tests::noise;

const THREADS: u64 = 16;
const DIRECTORIES: u64 = 3;
const NAMES: u64 = 12;

/// What an operation may end with when others change the same names. `STALE`: twice between the kernel's look-up of a name and its open.
const EXPECTED: [Errno; 10] = [
    Errno::NOENT,
    Errno::EXIST,
    Errno::NOTDIR,
    Errno::ISDIR,
    Errno::NOTEMPTY,
    Errno::INVAL,
    Errno::LOOP,
    Errno::PERM,
    Errno::NXIO,
    Errno::STALE,
];

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        let bytes = noise(self.0, 8);
        u64::from_le_bytes(*bytes.first_chunk().expect("8 bytes")) % bound
    }

    /// A name in one of the directories, or in a directory that may be there in them.
    fn path(&mut self, root: &Path) -> PathBuf {
        let mut path = root.join(format!("d{}", self.below(DIRECTORIES)));
        if self.below(4) == 0 {
            path.push(format!("n{}", self.below(NAMES)));
        }
        path.push(format!("n{}", self.below(NAMES)));
        path
    }
}

fn step(root: &Path, random: &mut Random) -> io::Result<()> {
    let (one, other) = (random.path(root), random.path(root));
    let rename = |how| Ok(rustix::fs::renameat_with(CWD, &one, CWD, &other, how)?);
    match random.below(16) {
        0 | 1 => File::create(&one)?.write_all_at(&noise(1, random.below(20_000) as usize), 0),
        2 => File::create_new(&one).map(drop),
        3 => fs::hard_link(&one, &other),
        4 | 5 => fs::remove_file(&one),
        6 => fs::create_dir(&one),
        7 => fs::remove_dir(&one),
        8 | 9 => fs::rename(&one, &other),
        10 => rename(RenameFlags::EXCHANGE),
        11 => rename(RenameFlags::NOREPLACE),
        12 => symlink(&other, &one),
        13 => {
            let file = File::options().read(true).write(true).open(&one)?;
            file.write_all_at(
                &noise(2, random.below(9000) as usize),
                random.below(100_000),
            )?;
            file.set_len(random.below(50_000))?;
            let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            Ok(rustix::fs::fallocate(
                &file,
                punch,
                random.below(30_000),
                9000,
            )?)
        }
        14 => {
            // A file that is deleted while it is open.
            let file = File::options().read(true).write(true).open(&one)?;
            fs::remove_file(&one)?;
            file.write_all_at(b"still there", 5000)?;
            let mut bytes = [0; 11];
            // Another name of the file may have been cut meanwhile.
            let read = file.read_at(&mut bytes, 5000)?;
            assert!(read <= bytes.len());
            Ok(())
        }
        _ => {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let _dir = rustix::fs::open(&one, flags, Mode::empty())?;
            for entry in fs::read_dir(&one)? {
                let _ = entry?.metadata();
            }
            Ok(())
        }
    }
}

#[test]
fn sixteen_threads_change_the_same_directories() {
    let Some(bench) = bench("512MiB", "64MiB") else {
        return;
    };
    let rounds = share(2, 6);
    for round in 0..rounds {
        let mount = mounted(&bench);
        for number in 0..DIRECTORIES {
            let _ = fs::create_dir(mount.path(&format!("d{number}")));
        }
        let (done, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        let until = Instant::now() + Duration::from_secs(share(4, 60));
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (root, done, refused) = (mount.root(), &done, &refused);
                scope.spawn(move || {
                    let mut random = Random(thread << 40 | round << 32);
                    while Instant::now() < until {
                        match step(root, &mut random) {
                            Ok(()) => done.fetch_add(1, Ordering::Relaxed),
                            Err(error) => {
                                let code = Errno::from_io_error(&error);
                                let known = code.is_some_and(|code| EXPECTED.contains(&code));
                                assert!(known, "thread {thread}: {error}");
                                refused.fetch_add(1, Ordering::Relaxed)
                            }
                        };
                    }
                });
            }
        });
        let (done, refused) = (done.into_inner(), refused.into_inner());
        println!("threads: round {round}: {done} operations done, {refused} refused");
        assert!(done > 1000, "{done} operations");
        unmount_and_check(&bench, mount);
    }
}
