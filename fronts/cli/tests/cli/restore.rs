//! `tonearm restore` of an archive whose objects change meanwhile. The restore is stopped or killed when it has applied a part of
//! them; then its objects are deleted, or damaged.

mod files;

use crate::common::{Bench, contains};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use tonearm_archive::MergeLevel;
use tonearm_bucket::{RealBucket, Writer};
use tonearm_command_rig::Ran;
use tonearm_store::{ArchiverOptions, Lsn, Nanos, Store, StoreOptions};

/// Bytes of `main`, of its first part, which is in the base, and of the end of that part, which is freed later.
const SIZE: u64 = 32 << 20;
const FILLED: u64 = 12 << 20;
const FREED: u64 = 8 << 20;
/// Ranges between the base and the commit that is restored.
const RANGES: u64 = 120;
const RANGE_BYTES: usize = 32 << 10;
/// The restore is stopped when so many objects are noted as applied.
const STOPS: [u64; 2] = [16, 80];
/// At so many moments of restores objects are deleted.
const MOMENTS: u32 = 16;
const LIMIT: Duration = Duration::from_secs(30);

/// An archive before and after a change of its objects.
struct Archives {
    bench: Bench,
    /// A commit that both have.
    lsn: Lsn,
    /// The content of `main` at that commit.
    content: Vec<u8>,
}

/// What is restored: the store, or `main` or a file of the file system alone.
#[derive(Clone, Copy, Debug)]
enum What {
    Store,
    Main,
    File,
}

fn wait_until(what: &str, mut ready: impl FnMut() -> bool) {
    let started = Instant::now();
    while !ready() {
        assert!(started.elapsed() < LIMIT, "{what} did not happen");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// What is in a folder of an archive, without objects that are being put.
fn names(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let paths = entries.map(|entry| entry.expect("one").path());
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| !path.display().to_string().contains('#'))
        .collect();
    paths.sort();
    paths
}

/// Gives a folder of an archive the objects of another one, and deletes all others. Objects are never written again, so they are linked.
fn link(from: &Path, to: &Path) {
    let _ = std::fs::create_dir(to);
    let copy_of = |path: &Path, folder: &Path| folder.join(path.file_name().expect("a name"));
    for path in names(from) {
        let copy = copy_of(&path, to);
        match path.is_dir() {
            true => link(&path, &copy),
            false if copy.exists() => {}
            false => std::fs::hard_link(&path, copy).expect("linked"),
        }
    }
    for path in names(to) {
        match path.is_dir() {
            // Folders stay, as those of a bucket.
            true => link(&copy_of(&path, from), &path),
            false if copy_of(&path, from).exists() => {}
            false => std::fs::remove_file(path).expect("removed"),
        }
    }
}

fn options() -> ArchiverOptions {
    ArchiverOptions {
        interval: Nanos::from_millis(5),
        object_bytes: RANGE_BYTES,
        ..ArchiverOptions::default()
    }
}

/// Pseudorandom bytes, the same for the same seed.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let words =
        (0..length as u64 / 8).map(|at| (seed << 32 | at).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    words.flat_map(u64::to_le_bytes).collect()
}

fn bucket(bench: &Bench) -> RealBucket {
    let url = format!("file://{}", bench.path("live").display());
    RealBucket::open_to_write(&url, Writer::of_store(&bench.path("s.tn"))).expect("a bucket")
}

impl Archives {
    /// Archives a store in the folder `live`: a base, and ranges after it. The last of them, in an archive with `options_then`, frees
    /// blocks that have content in the base and in earlier ranges. Then `change` copies the archive to the folder `before`, and has
    /// its objects replaced.
    fn made(options_then: ArchiverOptions, change: impl FnOnce(&Bench, &Store)) -> Self {
        let bench = Bench::new();
        bench.ok(&["create", "s.tn", "--size", "32MiB", "--log-size", "64MiB"]);
        let store = Store::open(&bench.path("s.tn"), StoreOptions::default()).expect("opened");
        store
            .write("main", 0, &noise(1, FILLED as usize))
            .expect("written");
        store
            .start_archive(bucket(&bench), options())
            .expect("started");
        for number in 0..RANGES {
            let at = number * 77 % (FILLED / RANGE_BYTES as u64) * RANGE_BYTES as u64;
            let mut unit = store.begin().expect("begun");
            unit.write("main", at, &noise(2 + number, RANGE_BYTES))
                .expect("written");
            // This changes the volume table.
            unit.resize("main", SIZE - (number + 1) * 4096)
                .expect("resized");
            let lsn = unit.end().expect("ended");
            store.wait_archived(lsn).expect("archived");
        }
        store.stop_archive().expect("stopped");
        store
            .start_archive(bucket(&bench), options_then)
            .expect("started");
        let mut lsn = Lsn(0);
        for size_bytes in [FILLED - FREED, SIZE] {
            let mut unit = store.begin().expect("begun");
            unit.resize("main", size_bytes).expect("resized");
            lsn = unit.end().expect("ended");
        }
        let content = store.read("main", 0, SIZE as usize).expect("read");
        store.wait_archived(lsn).expect("archived");
        change(&bench, &store);
        store.close().expect("closed");
        Self {
            bench,
            lsn,
            content,
        }
    }

    /// A later base is complete, so that the objects before it are deleted.
    fn with_later_base() -> Self {
        let keep_ms = 400;
        let options = ArchiverOptions {
            keep_ms,
            // The base is under way for a second.
            base_bytes_per_second: FILLED - FREED,
            ..options()
        };
        Self::made(options, |bench, store| {
            link(&bench.path("live"), &bench.path("before"));
            assert_eq!(bases(bench, "before"), 1);
            wait_until("a second base", || bases(bench, "live") == 2);
            std::thread::sleep(Duration::from_millis(keep_ms));
            let first = names(&bench.path("live/base")).remove(0);
            // Each of them lets the archiver look whether it wants a base.
            wait_until("a deletion", || {
                let lsn = store
                    .write("main", FILLED, &noise(0, 4096))
                    .expect("written");
                store.wait_archived(lsn).expect("archived");
                names(&first).is_empty()
            });
        })
    }

    /// The ranges before the commit, which has a name, are merged.
    fn with_merged_ranges() -> Self {
        Self::made(options(), |bench, store| {
            store.mark("kept").expect("a mark");
            link(&bench.path("live"), &bench.path("before"));
            store.stop_archive().expect("stopped");
            let level = |after_ms, span_ms| MergeLevel { after_ms, span_ms };
            let options = ArchiverOptions {
                keep_every_commit_ms: 1,
                object_bytes: 1 << 20,
                levels: [level(0, 10), level(50, 50), level(250, 250)],
                ..options()
            };
            store
                .start_archive(bucket(bench), options)
                .expect("started");
            wait_until("merged ranges", || {
                names(&bench.path("live/chain")).len() < RANGES as usize / 4
            });
        })
    }

    /// Puts the archive in this state at the address of the restores.
    fn place(&self, state: &str) {
        link(&self.bench.path(state), &self.bench.path("archive"));
    }

    fn arguments(&self, what: What) -> Vec<String> {
        let url = format!("file://{}", self.bench.path("archive").display());
        let more: &[&str] = match what {
            What::Store => &[],
            What::Main => &["--only", "main"],
            What::File => &["--only", files::PATH],
        };
        let lsn = self.lsn.to_string();
        let all = ["restore", &url, "n", "--to-lsn", &lsn];
        all.iter().chain(more).map(ToString::to_string).collect()
    }

    fn start(&self, arguments: &[String]) -> Child {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut command = self.bench.command(&arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("it runs")
    }

    fn restore(&self, what: What) -> Ran {
        ended(self.start(&self.arguments(what)))
    }

    /// Starts a restore, and stops its process when `objects` objects are applied.
    fn stopped(&self, what: What, objects: u64) -> Child {
        let mut child = self.start(&self.arguments(what));
        wait_until("a part of the restore", || {
            assert!(
                child.try_wait().expect("a child").is_none(),
                "it was too fast"
            );
            let note = std::fs::read(self.bench.path("n.partial.json")).unwrap_or_default();
            let note: serde_json::Value = serde_json::from_slice(&note).unwrap_or_default();
            note["objects_done"].as_u64() >= Some(objects)
        });
        signal(&child, Signal::STOP);
        assert!(!self.bench.path("n").exists(), "it was too fast");
        child
    }

    /// The restore that has ended with `ran` is complete, and has the content of its commit.
    #[track_caller]
    fn is_restored(&self, what: What, ran: &Ran) {
        assert_eq!(ran.code, Some(0), "{what:?}: {ran:?}");
        let made = match what {
            What::Main | What::File => std::fs::read(self.bench.path("n")).expect("a file"),
            What::Store => {
                self.bench.ok(&["check", "n"]);
                self.bench.ok(&["volume", "get", "n", "main", "content"]);
                let content = std::fs::read(self.bench.path("content")).expect("a file");
                std::fs::remove_file(self.bench.path("content")).expect("removed");
                content
            }
        };
        assert!(made == self.content, "{what:?}: other content");
        std::fs::remove_file(self.bench.path("n")).expect("removed");
        let left = self.bench.files();
        assert!(
            !left.iter().any(|name| name.contains("partial")),
            "{left:?}"
        );
    }

    /// Runs a command again and again, and deletes objects at [`MOMENTS`] moments of it. Calls `check` when it has ended.
    fn change_at_any_moment(&self, arguments: &[String], check: impl Fn(&Ran)) {
        self.place("both");
        let began = Instant::now();
        let ran = ended(self.start(arguments));
        let whole = began.elapsed();
        check(&ran);
        let (mut changed, mut started) = (0, 0);
        while changed < MOMENTS {
            assert!(
                began.elapsed() < LIMIT,
                "{changed} of {started} had not ended"
            );
            self.place("both");
            let mut child = self.start(arguments);
            std::thread::sleep(whole * (started % MOMENTS) / MOMENTS);
            started += 1;
            let is_under_way = child.try_wait().expect("a child").is_none();
            if is_under_way {
                signal(&child, Signal::STOP);
            }
            self.place("live");
            if is_under_way {
                signal(&child, Signal::CONT);
            }
            changed += u32::from(is_under_way);
            check(&ended(child));
        }
    }

    /// Objects of the archive are replaced at each of [`STOPS`], while a restore is stopped or after its kill.
    fn survive_the_change(&self, kinds: &[What]) {
        let mut restored = 0;
        for (what, objects) in kinds
            .iter()
            .flat_map(|what| STOPS.map(|objects| (*what, objects)))
        {
            self.place("before");
            let child = self.stopped(what, objects);
            self.place("live");
            signal(&child, Signal::CONT);
            let ran = ended(child);
            self.is_restored(what, &ran);

            self.place("before");
            let mut child = self.stopped(what, objects);
            child.kill().expect("killed");
            child.wait().expect("an end");
            self.place("live");
            let ran = self.restore(what);
            self.is_restored(what, &ran);
            restored += 2;
        }
        assert_eq!(restored, 4 * kinds.len());
    }
}

fn ended(child: Child) -> Ran {
    Ran::of(&child.wait_with_output().expect("an end"))
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("sent");
}

/// Complete bases of the archive in `folder`.
fn bases(bench: &Bench, folder: &str) -> usize {
    let url = format!("file://{}", bench.path(folder).display());
    let history = bench.json(&["history", &url, "--json"]);
    history["restorable"].as_array().expect("a list").len()
}

/// The later base does not say which blocks have no content.
#[test]
fn restore_continues_from_a_later_base_after_deletion() {
    Archives::with_later_base().survive_the_change(&[What::Store, What::Main]);
}

#[test]
fn restore_continues_from_merged_ranges_after_deletion() {
    Archives::with_merged_ranges().survive_the_change(&[What::Store, What::Main]);
}

/// A volume is restored, and the archive verified, while objects are deleted: also when the volume table or the chain is read.
#[test]
fn objects_that_are_merged_may_be_deleted_at_any_moment() {
    let archives = Archives::with_merged_ranges();
    // Merged objects are there before those that they stand for are deleted.
    archives.place("before");
    for path in names(&archives.bench.path("live/merged")) {
        let both = archives.bench.path("archive/merged");
        let _ = std::fs::create_dir(&both);
        let copy = both.join(path.file_name().expect("a name"));
        std::fs::hard_link(path, copy).expect("linked");
    }
    link(
        &archives.bench.path("archive"),
        &archives.bench.path("both"),
    );
    let restore = archives.arguments(What::Main);
    archives.change_at_any_moment(&restore, |ran| archives.is_restored(What::Main, ran));
    let url = format!("file://{}", archives.bench.path("archive").display());
    let verify = ["archive", "verify", &url].map(String::from);
    archives.change_at_any_moment(&verify, |ran| {
        assert_eq!(ran.code, Some(0), "{ran:?}");
    });
}

/// A part of the base is damaged before the restore, the last range while it is stopped.
#[test]
fn restore_continues_once_a_damaged_object_is_replaced() {
    let archives = Archives::made(options(), |bench, _| {
        link(&bench.path("live"), &bench.path("before"))
    });
    archives.place("before");
    let place = archives.bench.path("archive");
    let base = names(&place.join("base")).remove(0);
    let part = names(&base).remove(5);
    let range = names(&place.join("chain")).pop().expect("a range");
    for what in [What::Store, What::Main] {
        for (path, objects) in [(&part, 0), (&range, 16)] {
            let name = path.strip_prefix(&place).expect("within").display();
            let sound = std::fs::read(path).expect("an object");
            let mut damaged = sound.clone();
            *damaged.last_mut().expect("bytes") ^= 1;
            let child = (objects > 0).then(|| archives.stopped(what, objects));
            // It is linked, so it is not written in place.
            std::fs::remove_file(path).expect("removed");
            std::fs::write(path, damaged).expect("written");
            let ran = match child {
                None => archives.restore(what),
                Some(child) => {
                    signal(&child, Signal::CONT);
                    ended(child)
                }
            };
            assert_eq!(ran.code, Some(1), "{name}: {ran:?}");
            contains(
                &ran.err,
                "the restore is not complete; run the same command again to go on",
            );
            contains(&ran.err, &format!("object {name}: "));
            contains(&ran.err, "put an undamaged copy of it back");
            assert!(!archives.bench.path("n").exists());
            // Again, while it is still damaged.
            assert_eq!(archives.restore(what).code, Some(1));
            std::fs::write(path, sound).expect("written");
            archives.is_restored(what, &archives.restore(what));
        }
    }
}
