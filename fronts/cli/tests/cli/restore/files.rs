//! Files of the file system that are taken out of an archive, without the rest of their store.

use super::{Archives, RANGE_BYTES, RANGES, What, bucket, link, names, noise, options, wait_until};
use crate::common::{Bench, contains};
use std::os::unix::fs::MetadataExt;
use std::sync::mpsc::{TryRecvError, channel};
use tonearm_archive::{ArchiverOptions, Bucket, MergeLevel};
use tonearm_fs::{Fs, NewInode, ROOT_INO, SetAttr, Time};
use tonearm_store::{
    ArchiveThread, Call, Executor, Lsn, Members, Nanos, Store, StoreOptions, begin_archive,
    open_disk,
};

/// The file that [`Archives::of_a_file`] has.
pub(super) const PATH: &str = "data/app.db";
const FILE: u32 = 0o100_644;
const DIRECTORY: u32 = 0o040_755;
const FIFO: u32 = 0o010_644;
const STEP: Nanos = Nanos::from_millis(1);

/// A file system whose store is archived in the folder `live`.
#[derive(Clone)]
struct Live {
    fs: Fs,
}

impl Live {
    async fn make(&self, dir: u64, name: &str, mode: u32) -> u64 {
        let new = NewInode {
            mode,
            ..NewInode::default()
        };
        let made = self.fs.make(dir, name.as_bytes(), new).await;
        made.expect("made").ino
    }

    async fn write(&self, ino: u64, at: u64, bytes: &[u8]) {
        self.fs.write(ino, at, bytes).await.expect("written");
    }

    /// A file with this content.
    async fn put(&self, dir: u64, name: &str, bytes: &[u8]) -> u64 {
        let ino = self.make(dir, name, FILE).await;
        self.write(ino, 0, bytes).await;
        ino
    }

    /// Waits until everything is archived. Returns the last commit.
    async fn archived(&self) -> Lsn {
        let disk = self.fs.disk();
        let lsn = disk.marks().appended;
        disk.wait_archived(lsn).await.expect("archived");
        lsn
    }
}

/// Opens the store of a bench, and archives it while `change` runs.
fn archive<T: 'static, F: Future<Output = T> + 'static>(
    bench: &Bench,
    options: ArchiverOptions,
    change: impl FnOnce(Live) -> F + 'static,
) -> T {
    let executor = Executor::new().expect("a ring");
    let rt = executor.rt.clone();
    let path = bench.path("s.tn");
    let disk = open_disk(
        &executor,
        &path,
        &Members::default(),
        StoreOptions::default().open,
        |_| {},
    );
    let disk = disk.expect("a store");
    let bucket = bucket(bench);
    let source = begin_archive(disk.engine(), &rt, &bucket.url()).expect("begun");
    let (sender, calls) = channel::<Call>();
    let caller = Box::new(move |call| sender.send(call).is_ok());
    let thread = ArchiveThread::start(bucket, options, caller, |_| {}).expect("a thread");
    let own = rt.clone();
    rt.spawn(async move {
        loop {
            match calls.try_recv() {
                Ok(call) => drop(own.spawn(call(source.clone()))),
                Err(TryRecvError::Empty) => own.sleep(STEP).await,
                Err(TryRecvError::Disconnected) => return,
            }
        }
    });
    let own = rt.clone();
    let (result, ended) = rt.block_on(async move {
        let fs = Fs::open(&disk, &own, Time::default).await.expect("files");
        let result = change(Live { fs }).await;
        disk.flush().await.expect("flushed");
        thread.end();
        while !thread.has_ended() {
            own.sleep(STEP).await;
        }
        disk.close().await.expect("closed");
        (result, thread.join())
    });
    ended.expect("everything is archived");
    rt.shut_down();
    result
}

/// A store whose volume leaves space for files.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.ok(&["create", "s.tn", "--size", "32MiB", "--log-size", "64MiB"]);
    let store = Store::open(&bench.path("s.tn"), StoreOptions::default()).expect("opened");
    let mut unit = store.begin().expect("begun");
    unit.resize("main", 1 << 20).expect("resized");
    unit.end().expect("ended");
    store.close().expect("closed");
    bench
}

fn url(bench: &Bench) -> String {
    format!("file://{}", bench.path("live").display())
}

/// What a restore of `name` makes.
#[track_caller]
fn restored(bench: &Bench, name: &str, lsn: Lsn) -> Vec<u8> {
    let (from, at) = (url(bench), lsn.to_string());
    bench.ok(&["restore", &from, "n", "--only", name, "--to-lsn", &at]);
    let bytes = std::fs::read(bench.path("n")).expect("a file");
    std::fs::remove_file(bench.path("n")).expect("removed");
    bytes
}

/// The names, kinds and sizes of a commit.
fn listed(bench: &Bench, lsn: Lsn) -> Vec<(String, String, u64)> {
    let (from, at) = (url(bench), lsn.to_string());
    let names = bench.json(&["history", &from, "--names", "--to-lsn", &at, "--json"]);
    assert_eq!(names["lsn"], lsn.0);
    let list = names["names"].as_array().expect("a list");
    let text = |value: &serde_json::Value| value.as_str().expect("text").to_string();
    list.iter()
        .map(|one| {
            let size = one["size_bytes"].as_u64().expect("a size");
            (text(&one["name"]), text(&one["kind"]), size)
        })
        .collect()
}

fn entry(name: &str, kind: &str, size: u64) -> (String, String, u64) {
    (name.to_string(), kind.to_string(), size)
}

#[test]
fn a_file_is_restored_as_it_was_at_a_commit() {
    const END: u64 = 40 << 20;
    let bench = bench();
    let (first, second) = archive(&bench, options(), |live| async move {
        let app = live.put(ROOT_INO, "app.db", &noise(1, 300_000)).await;
        let dir = live.make(ROOT_INO, "data", DIRECTORY).await;
        let deep = live.make(dir, "deep", DIRECTORY).await;
        live.put(deep, "app.db", &noise(2, 70_000)).await;
        live.put(ROOT_INO, "main", b"not the volume").await;
        live.make(ROOT_INO, "empty", FILE).await;
        let sparse = live.put(dir, "sparse", &noise(3, 4096)).await;
        live.write(sparse, 9 << 20, &noise(4, 5000)).await;
        let set = SetAttr {
            size: Some(END),
            ..SetAttr::default()
        };
        live.fs.set_attr(sparse, set).await.expect("a size");
        let first = live.archived().await;
        live.write(app, 4000, &noise(5, 100_000)).await;
        let cut = SetAttr {
            size: Some(200_001),
            ..SetAttr::default()
        };
        live.fs.set_attr(app, cut).await.expect("a size");
        live.fs.unlink(dir, b"sparse").await.expect("deleted");
        // Its blocks are used again.
        live.put(ROOT_INO, "late", &noise(6, 600_000)).await;
        (first, live.archived().await)
    });
    for name in ["app.db", "/app.db", "//app.db"] {
        assert!(restored(&bench, name, first) == noise(1, 300_000), "{name}");
    }
    let mut app = noise(1, 300_000);
    app[4000..104_000].copy_from_slice(&noise(5, 100_000));
    app.truncate(200_001);
    assert!(restored(&bench, "app.db", second) == app);
    for lsn in [first, second] {
        assert!(restored(&bench, "data/deep/app.db", lsn) == noise(2, 70_000));
        assert!(restored(&bench, "empty", lsn).is_empty());
        assert_eq!(restored(&bench, "/main", lsn), b"not the volume");
        assert!(restored(&bench, "main", lsn) == vec![0; 1 << 20]);
    }
    assert!(restored(&bench, "late", second) == noise(6, 600_000));

    // Holes stay holes.
    let (from, at) = (url(&bench), first.to_string());
    bench.ok(&[
        "restore",
        &from,
        "n",
        "--only",
        "data/sparse",
        "--to-lsn",
        &at,
    ]);
    let about = bench.path("n").metadata().expect("a file");
    assert_eq!(about.len(), END);
    assert!(about.blocks() * 512 < 1 << 20, "{} blocks", about.blocks());
    let mut expected = vec![0; END as usize];
    expected[..4096].copy_from_slice(&noise(3, 4096));
    expected[9 << 20..][..5000].copy_from_slice(&noise(4, 5000));
    assert!(std::fs::read(bench.path("n")).expect("a file") == expected);
    std::fs::remove_file(bench.path("n")).expect("removed");

    assert_eq!(
        listed(&bench, first),
        [
            entry("app.db", "file", 300_000),
            entry("data/deep/app.db", "file", 70_000),
            entry("data/sparse", "file", END),
            entry("empty", "file", 0),
            entry("main", "volume", 1 << 20),
            entry("/main", "file", 14),
        ]
    );
    assert_eq!(
        listed(&bench, second),
        [
            entry("app.db", "file", 200_001),
            entry("data/deep/app.db", "file", 70_000),
            entry("empty", "file", 0),
            entry("late", "file", 600_000),
            entry("main", "volume", 1 << 20),
            entry("/main", "file", 14),
        ]
    );
    let text = bench.ok(&["history", &from, "--names", "--to-lsn", &at]);
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0], ["commit", &at]);
    assert_eq!(lines[1], ["kind", "size", "name"]);
    assert_eq!(lines[4], ["file", "40", "MiB", "data/sparse"]);
    assert_eq!(lines.len(), 8);
    let left = bench.files();
    assert_eq!(left, ["live", "s.tn", "s.tn.archives"]);
}

#[test]
fn unrestorable_path_is_an_error_with_advice() {
    let bench = bench();
    let (before, after) = archive(&bench, options(), |live| async move {
        let before = live.archived().await;
        let dir = live.make(ROOT_INO, "data", DIRECTORY).await;
        live.make(dir, "pipe", FIFO).await;
        let new = NewInode::default();
        let linked = live.fs.make_link(dir, b"link", b"app.db", new).await;
        linked.expect("a link");
        live.put(dir, "app.db", b"one").await;
        let many = live.make(ROOT_INO, "many", DIRECTORY).await;
        for number in 0..30 {
            live.make(many, &format!("file{number}"), FILE).await;
        }
        (before, live.archived().await)
    });
    let from = url(&bench);
    let refused = |name: &str, lsn: Lsn| {
        let at = lsn.to_string();
        bench.fails(&["restore", &from, "n", "--only", name, "--to-lsn", &at])
    };
    for (name, text) in [
        (
            "data/link",
            "data/link is a symbolic link, which is not followed; name the file that it leads to (app.db)",
        ),
        ("data/pipe", "data/pipe is a device, a FIFO or a socket"),
        (
            "data/app.db/x",
            "data/app.db is not a directory, so no file is in it",
        ),
        (
            "app.db",
            "there is no volume or file app.db; there are data/, main, many/",
        ),
        ("/main", "there is no file /main; there are data/, many/"),
        (
            "/data/app.bd",
            "there is no file /data/app.bd; there are data/app.db, data/link, data/pipe",
        ),
        (
            "many/file33",
            "there is no volume or file many/file33; the names most like it are many/file13, many/file23, many/file3, ",
        ),
    ] {
        let error = refused(name, after);
        contains(&error, &format!("archive {from}: at commit {after} "));
        contains(&error, text);
    }
    let told = refused("many/file33", after);
    let (told, rest) = told.split_once(" (`").expect("a command");
    assert_eq!(told.matches("many/file").count(), 11);
    contains(rest, "--names` lists all)");
    contains(
        &refused("data/app.db", before),
        "there is no volume or file data/app.db; there is main",
    );
    assert_eq!(bench.files(), ["live", "s.tn", "s.tn.archives"]);

    // A directory is restored with all that it holds, but for devices, FIFOs and sockets.
    let at = after.to_string();
    bench.ok(&["restore", &from, "n", "--only", "data", "--to-lsn", &at]);
    let file = std::fs::read(bench.path("n/app.db")).expect("a file");
    assert_eq!(file, b"one");
    let link = std::fs::read_link(bench.path("n/link")).expect("a link");
    assert_eq!(link.as_os_str(), "app.db");
    assert!(!bench.path("n/pipe").exists());
}

/// A database in WAL mode is not whole without its log.
#[test]
fn wal_of_a_database_file_is_reported() {
    let bench = bench();
    let lsn = archive(&bench, options(), |live| async move {
        let dir = live.make(ROOT_INO, "data", DIRECTORY).await;
        live.put(dir, "it's.db", b"database").await;
        live.put(dir, "it's.db-wal", b"log").await;
        live.make(dir, "it's.db-journal", FILE).await;
        live.archived().await
    });
    let from = url(&bench);
    let arguments = [
        "restore",
        &from,
        "a.db",
        "--only",
        "data/it's.db",
        "--dry-run",
    ];
    let ran = bench.run(&arguments);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let command =
        format!("tonearm restore {from} a.db-wal --only 'data/it'\\''s.db-wal' --to-lsn {lsn}");
    contains(
        &ran.err,
        &format!("data/it's.db-wal has a part of its content; restore it, too: {command}"),
    );
    assert!(!ran.err.contains("journal"), "{ran:?}");
    let told = bench.json(&[&arguments[..], &["--json"]].concat());
    assert_eq!(told["companions"], serde_json::json!(["data/it's.db-wal"]));
    assert_eq!(told["size_bytes"], 8);
    assert_eq!(restored(&bench, "data/it's.db-wal", lsn), b"log");
    assert_eq!(bench.files(), ["live", "s.tn", "s.tn.archives"]);
}

impl Archives {
    /// Archives a store with the file [`PATH`] in the folder `live`: a base, and ranges after it, which are merged. The folder
    /// `before` has the archive as it was before that.
    fn of_a_file() -> Self {
        const BYTES: usize = 8 << 20;
        let bench = bench();
        let content = archive(&bench, options(), |live| async move {
            let dir = live.make(ROOT_INO, "data", DIRECTORY).await;
            let mut content = noise(1, BYTES);
            let app = live.put(dir, "app.db", &content).await;
            live.archived().await;
            for number in 0..RANGES {
                let at = number as usize * 77 % (BYTES / RANGE_BYTES) * RANGE_BYTES;
                let bytes = noise(2 + number, RANGE_BYTES);
                content[at..at + RANGE_BYTES].copy_from_slice(&bytes);
                live.write(app, at as u64, &bytes).await;
                // This changes the tree.
                live.make(dir, &format!("file-{number}"), FILE).await;
                live.archived().await;
            }
            content
        });
        let level = |after_ms, span_ms| MergeLevel { after_ms, span_ms };
        let merging = ArchiverOptions {
            keep_every_commit_ms: 1,
            object_bytes: 1 << 20,
            levels: [level(0, 10), level(50, 50), level(250, 250)],
            ..options()
        };
        let store = Store::open(&bench.path("s.tn"), StoreOptions::default()).expect("opened");
        // The commit that is restored is kept.
        store
            .start_archive(bucket(&bench), options())
            .expect("started");
        let lsn = store.mark("kept").expect("a mark");
        store.stop_archive().expect("stopped");
        link(&bench.path("live"), &bench.path("before"));
        store
            .start_archive(bucket(&bench), merging)
            .expect("started");
        wait_until("merged ranges", || {
            names(&bench.path("live/chain")).len() < RANGES as usize / 4
        });
        store.close().expect("closed");
        Self {
            bench,
            lsn,
            content,
        }
    }
}

/// The restore finds the file in the tree once, and plans again for its blocks.
#[test]
fn file_restore_continues_after_its_objects_are_merged() {
    Archives::of_a_file().survive_the_change(&[What::File]);
}

/// Of the objects of a file some are read for the volume table, some for the tree, and some for its blocks.
#[test]
fn file_restore_continues_once_its_object_is_replaced() {
    let bench = bench();
    let lsn = archive(&bench, options(), |live| async move {
        let app = live.put(ROOT_INO, "app.db", &noise(1, 1 << 20)).await;
        live.archived().await;
        live.write(app, 5000, &noise(2, 5000)).await;
        live.archived().await
    });
    let mut expected = noise(1, 1 << 20);
    expected[5000..10_000].copy_from_slice(&noise(2, 5000));
    let from = url(&bench);
    let mut broken = 0;
    let chain = names(&bench.path("live/chain"));
    for path in &chain {
        let sound = std::fs::read(path).expect("an object");
        let mut damaged = sound.clone();
        let last = damaged.len() - 1;
        damaged[last] ^= 1;
        for content in [Some(damaged), None] {
            match &content {
                Some(bytes) => std::fs::write(path, bytes).expect("written"),
                None => std::fs::remove_file(path).expect("removed"),
            }
            let at = lsn.to_string();
            let ran = bench.run(&["restore", &from, "n", "--only", "app.db", "--to-lsn", &at]);
            // Not all objects are needed for the file.
            if ran.code == Some(0) {
                std::fs::remove_file(bench.path("n")).expect("removed");
            } else {
                assert_eq!(ran.code, Some(1), "{ran:?}");
                contains(&ran.err, &format!("archive {from}: "));
                assert!(!bench.path("n").exists());
                broken += 1;
            }
            std::fs::write(path, &sound).expect("written");
            assert!(restored(&bench, "app.db", lsn) == expected);
        }
    }
    assert!(broken > 2, "{broken} of {}", 2 * chain.len());
    assert_eq!(bench.files(), ["live", "s.tn", "s.tn.archives"]);
}
