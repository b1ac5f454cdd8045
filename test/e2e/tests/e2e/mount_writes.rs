//! Which writes to a mount are atomic. The first test counts the requests that the kernel makes of one write(2); a request is one
//! recovery unit. The second one kills the server while threads write records over each other, and looks for torn ones.
//!
//! `TONEARM_KILL_ROUNDS=100` makes 100 kills; the default is 6.

use rustix::fs::{Advice, OFlags};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tonearm_tests::mount::fuse_possible;
use tonearm_tests::{Bench, MIB, TreeMount, kill_rounds, skipped};

/// Kills where `TONEARM_KILL_ROUNDS` does not say.
const ROUNDS: u64 = 6;
const KIB: u64 = 1 << 10;
/// Sizes of which a single write(2) is atomic at a multiple of 4 KiB.
const WHOLE: [u64; 6] = [4 * KIB, 8 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB];
/// The kernel makes several requests of it.
const SPLIT: u64 = 4 * MIB;
/// Records in a file, and threads that write them.
const SLOTS: u64 = 3;
const WRITERS: u64 = 2;

/// Writes 8 KiB from memory that begins 100 bytes before a boundary of 64 KiB. Another process has filled it. This one has touched
/// only the side before the boundary, and the kernel maps no more around a fault than 64 KiB.
const WRITE_FROM_HALF_MAPPED_MEMORY: &str = "
import ctypes, mmap, os, sys
memory = mmap.mmap(-1, 1 << 19)
if os.fork() == 0:
    memory[:] = b'w' * (1 << 19)
    os._exit(0)
os.wait()
start = -ctypes.addressof(ctypes.c_char.from_buffer(memory)) % 65536 + 131072
memory[start - 8192]
file = os.open(sys.argv[1], os.O_WRONLY)
assert os.pwrite(file, memoryview(memory)[start - 100:start - 100 + 8192], 0) == 8192
";

/// How a file is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cache {
    /// Writes go through the page cache.
    Page,
    /// O_DIRECT.
    Direct,
}

impl Cache {
    fn open(self, path: &Path) -> std::io::Result<File> {
        let flags = match self {
            Self::Page => OFlags::empty(),
            Self::Direct => OFlags::DIRECT,
        };
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let options = options.custom_flags(flags.bits() as i32);
        options.open(path)
    }
}

/// Memory that begins `past` bytes after a page boundary.
struct Memory {
    bytes: Vec<u8>,
    range: Range<usize>,
}

impl Memory {
    fn new(length: u64, past: usize) -> Self {
        let bytes = vec![0; length as usize + 8192];
        let start = bytes.as_ptr().align_offset(4096) + past;
        let range = start..start + length as usize;
        Self { bytes, range }
    }

    /// Fills it with one number.
    fn fill(&mut self, stamp: u64) {
        let words = self.bytes[self.range.clone()].chunks_exact_mut(8);
        words.for_each(|word| word.copy_from_slice(&stamp.to_le_bytes()));
    }

    fn get(&self) -> &[u8] {
        &self.bytes[self.range.clone()]
    }
}

/// Requests to write that the server has had.
fn writes(bench: &Bench) -> u64 {
    let json = bench.json(&["stats", "s.tn", "--json"]);
    let operations = json["mount"]["operations"].as_array().expect("a list");
    let write = operations.iter().find(|one| one["operation"] == "write");
    write.map_or(0, |it| it["requests"].as_u64().expect("a count"))
}

/// A write, and of how many requests the kernel makes it.
struct Case {
    cache: Cache,
    offset: u64,
    length: u64,
    /// Where the memory begins in its page.
    past: usize,
    /// The page cache has the range.
    cached: bool,
    requests: u64,
}

#[test]
fn kernel_splits_only_the_documented_writes() {
    const fn case(
        cache: Cache,
        offset: u64,
        length: u64,
        past: usize,
        cached: bool,
        requests: u64,
    ) -> Case {
        Case {
            cache,
            offset,
            length,
            past,
            cached,
            requests,
        }
    }
    use Cache::{Direct, Page};
    const CASES: &[Case] = &[
        case(Page, 0, 4 * KIB, 0, false, 1),
        case(Page, 0, 8 * KIB, 0, false, 1),
        case(Page, 8 * KIB, 8 * KIB, 100, false, 1),
        case(Page, 4 * KIB, MIB, 0, false, 1),
        case(Page, 4 * KIB, MIB, 0, true, 1),
        case(Page, 4 * KIB, MIB, 100, false, 1),
        case(Page, 0, MIB + 1, 0, false, 2),
        case(Page, 0, 4 * MIB, 0, false, 4),
        case(Page, 4 * KIB, MIB - 100, 0, false, 1),
        case(Page, 100, 1000, 0, false, 1),
        case(Page, 100, 8 * KIB, 0, true, 1),
        case(Page, 100, 8 * KIB, 0, false, 2),
        case(Page, 100, MIB - 4 * KIB, 0, true, 1),
        case(Page, 100, MIB - 4 * KIB, 0, false, 2),
        case(Page, 100, MIB, 0, true, 2),
        case(Direct, 0, 4 * KIB, 0, false, 1),
        case(Direct, 100, 8 * KIB, 0, false, 1),
        case(Direct, 4 * KIB, MIB, 0, false, 1),
        case(Direct, 100, MIB, 0, false, 1),
        case(Direct, 100, MIB - 4 * KIB, 100, false, 1),
        case(Direct, 0, MIB, 100, false, 2),
        case(Direct, 0, MIB + 1, 0, false, 2),
    ];
    if let Err(why) = fuse_possible() {
        return skipped("the mounted file system", &why);
    }
    let bench = Bench::created(&["--size", "256MiB", "--log-size", "16MiB", "--no-volume"]);
    let mount = TreeMount::new(&bench);
    let path = mount.path("file");
    let other = Cache::Page.open(&path).expect("a file");
    other
        .write_all_at(&vec![1; 6 * MIB as usize], 0)
        .expect("written");
    other.sync_all().expect("synced");
    let mut wrong = Vec::new();
    for (number, case) in CASES.iter().enumerate() {
        rustix::fs::fadvise(&other, 0, None, Advice::DontNeed).expect("advised");
        if case.cached {
            let mut read = vec![0; 2 * MIB as usize];
            other.read_exact_at(&mut read, 0).expect("read");
        }
        let file = case.cache.open(&path).expect("a file");
        let mut memory = Memory::new(case.length, case.past);
        memory.fill(number as u64);
        let before = writes(&bench);
        let written = file.write_at(memory.get(), case.offset).expect("written");
        assert_eq!(written as u64, case.length);
        let requests = writes(&bench) - before;
        if requests != case.requests {
            let Case {
                cache,
                offset,
                length,
                past,
                cached,
                requests: expected,
            } = case;
            wrong.push(format!(
                "{cache:?}: {length} bytes at {offset} from memory at {past}, cached: {cached}: {requests} requests, not {expected}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    drop(other);
    mount.unmount();
}

#[test]
fn kernel_splits_writes_from_partly_mapped_memory() {
    if let Err(why) = fuse_possible() {
        return skipped("the mounted file system", &why);
    }
    let bench = Bench::created(&["--size", "256MiB", "--log-size", "16MiB", "--no-volume"]);
    for (options, requests) in [("rw", 2), ("direct_io", 1)] {
        let mount = TreeMount::with_options(&bench, options);
        std::fs::write(mount.path("file"), [1; 16384]).expect("written");
        let before = writes(&bench);
        bench.tool(
            "python3",
            &["-c", WRITE_FROM_HALF_MAPPED_MEMORY, "mnt/file"],
        );
        assert_eq!(writes(&bench) - before, requests, "{options}");
        mount.unmount();
    }
}

#[test]
fn direct_io_keeps_writes_whole_and_allows_mmap() {
    if let Err(why) = fuse_possible() {
        return skipped("the mounted file system", &why);
    }
    let bench = Bench::created(&["--size", "256MiB", "--log-size", "16MiB", "--no-volume"]);
    let mount = TreeMount::with_options(&bench, "direct_io");
    let path = mount.path("file");
    let file = Cache::Page.open(&path).expect("a file");
    file.write_all_at(&vec![1; 2 * MIB as usize], 0)
        .expect("written");
    for (offset, length, past) in [
        (100, 8 * KIB, 100),
        (4 * KIB, MIB, 0),
        (100, MIB - 4 * KIB, 100),
    ] {
        let mut memory = Memory::new(length, past);
        memory.fill(offset);
        let before = writes(&bench);
        file.write_all_at(memory.get(), offset).expect("written");
        assert_eq!(writes(&bench) - before, 1, "{length} bytes at {offset}");
    }
    let map = "import mmap, sys; f = open(sys.argv[1], 'r+b'); m = mmap.mmap(f.fileno(), 0); m[5:8] = b'abc'; m.flush()";
    bench.tool("python3", &["-c", map, "mnt/file"]);
    let mut read = [0; 3];
    file.read_exact_at(&mut read, 5).expect("read");
    assert_eq!(&read, b"abc");
    drop(file);
    mount.unmount();
}

/// The file of records of one size.
fn name(cache: Cache, length: u64) -> String {
    format!("{cache:?}-{length}")
}

/// Writes records over each other until the server is gone.
fn write_until_cut(path: &Path, cache: Cache, length: u64, writer: u64, stamps: &AtomicU64) {
    let Ok(file) = cache.open(path) else { return };
    let mut memory = Memory::new(length, 0);
    for number in writer.. {
        let stamp = stamps.fetch_add(1, Ordering::Relaxed);
        memory.fill(stamp);
        let offset = number * 7 % SLOTS * length;
        // Of a write that the kernel has split, a part may have been done.
        match file.write_at(memory.get(), offset) {
            Ok(written) if written as u64 == length => {}
            _ => return,
        }
    }
}

/// Looks at all records of a file. Returns how many are torn.
fn torn(path: &Path, length: u64, stamps: u64) -> u64 {
    let bytes = std::fs::read(path).expect("read");
    let records = bytes.chunks(length as usize);
    let is_torn = |record: &&[u8]| {
        let first = *record.first_chunk().expect("8 bytes");
        assert!(u64::from_le_bytes(first) < stamps, "never written");
        // A record in a hole is not written yet, so all of it is zero.
        record.len() as u64 != length || record.chunks(8).any(|word| word != first)
    };
    records.filter(is_torn).count() as u64
}

#[test]
fn writes_up_to_1_mib_are_atomic_across_kills() {
    if let Err(why) = fuse_possible() {
        return skipped("the mounted file system", &why);
    }
    let bench = Bench::created(&["--size", "512MiB", "--log-size", "64MiB", "--no-volume"]);
    let mut mount = TreeMount::new(&bench);
    let stamps = AtomicU64::new(1);
    let files: Vec<_> = [Cache::Page, Cache::Direct]
        .into_iter()
        .flat_map(|cache| {
            WHOLE
                .into_iter()
                .chain([SPLIT])
                .map(move |length| (cache, length))
        })
        .collect();
    for (cache, length) in &files {
        let file = cache.open(&mount.path(&name(*cache, *length)));
        file.and_then(|file| file.sync_all()).expect("made");
    }
    let rounds = kill_rounds(ROUNDS);
    let mut split = 0;
    for round in 0..rounds {
        let (root, cut) = (mount.root().to_path_buf(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for (cache, length) in &files {
                for writer in 0..WRITERS {
                    let (path, stamps) = (root.join(name(*cache, *length)), &stamps);
                    scope.spawn(move || write_until_cut(&path, *cache, *length, writer, stamps));
                }
            }
            // The log is written all the time, so that a kill meets a write of the log.
            let (path, cut) = (root.join(name(Cache::Page, WHOLE[0])), &cut);
            scope.spawn(move || {
                while !cut.load(Ordering::Relaxed) {
                    let _ = Cache::Page.open(&path).and_then(|file| file.sync_data());
                }
            });
            // The delays vary, so that the kills do not coincide with periodic work.
            std::thread::sleep(Duration::from_millis(300 + round * 37 % 200));
            mount.kill9();
            cut.store(true, Ordering::Relaxed);
        });
        mount = TreeMount::new(&bench);
        for (cache, length) in &files {
            let name = name(*cache, *length);
            let torn = torn(&mount.path(&name), *length, stamps.load(Ordering::Relaxed));
            match *length {
                SPLIT => split += torn,
                _ => assert_eq!(torn, 0, "round {round}: torn records in {name}"),
            }
        }
    }
    let written = stamps.load(Ordering::Relaxed);
    println!(
        "{written} records in {rounds} rounds: of up to 1 MiB none was torn, of 4 MiB {split} were"
    );
    assert!(
        written > rounds * 100,
        "{written} records are too few for a test"
    );
    mount.unmount();
    bench.ok(&["check", "s.tn"]);
}
