//! The archive of a store in a program.

use crate::{Jobs, Place};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tonearm_archive::{BucketError, Bytes, Catalog};
use tonearm_bucket::{RealBucket, Writer};
use tonearm_rt::Boxed;
use tonearm_store::files::Files;
use tonearm_store::{
    ArchiveInfo, ArchiveState, ArchiverOptions, Bucket, Context, Lsn, Nanos, Store, StoreError,
    StoreOptions,
};

fn bucket(place: &Place, name: &str) -> RealBucket {
    let folder = place.path.with_file_name(name);
    let url = format!("file://{}", folder.display());
    RealBucket::open_to_write(&url, Writer::of_store(&place.path)).unwrap()
}

fn options() -> ArchiverOptions {
    ArchiverOptions {
        interval: Nanos::from_millis(20),
        ..ArchiverOptions::default()
    }
}

/// Makes a file of one word for each commit.
fn with_file(place: &Place) -> Store {
    let store = place.open();
    let mut unit = store.begin().unwrap();
    unit.create_file("f").unwrap();
    unit.end().unwrap();
    store
}

fn add(store: &Store, number: u64) -> Lsn {
    store.write("f", 8 * number, &number.to_le_bytes()).unwrap()
}

fn info(store: &Store) -> ArchiveInfo {
    store.archive().unwrap().unwrap()
}

/// The last commit to which a store can be restored, as the archive itself says.
fn restorable(bucket: &RealBucket) -> Lsn {
    let catalog = pollster::block_on(Catalog::load(bucket)).unwrap();
    let last = catalog.restorable().into_iter().map(|span| span.last);
    last.max().unwrap_or_default()
}

fn is_clean(path: &Path) -> bool {
    let store = Store::open(path, StoreOptions::default()).unwrap();
    let recovery = store.run(|context| async move { context.disk.recovery() });
    recovery.unwrap().clean
}

/// A bucket that can be away.
struct Away {
    inner: RealBucket,
    away: Arc<AtomicBool>,
}

impl Away {
    fn answer<T>(&self) -> Result<(), Result<T, BucketError>> {
        if self.away.load(Ordering::SeqCst) {
            Err(Err(BucketError::Transient("it is away".into())))
        } else {
            Ok(())
        }
    }
}

impl Bucket for Away {
    fn put_new<'a>(&'a self, name: &'a str, object: Bytes) -> Boxed<'a, Result<bool, BucketError>> {
        match self.answer() {
            Ok(()) => self.inner.put_new(name, object),
            Err(error) => Box::pin(async { error }),
        }
    }

    fn get<'a>(
        &'a self,
        name: &'a str,
        most: u64,
    ) -> Boxed<'a, Result<Option<Vec<u8>>, BucketError>> {
        match self.answer() {
            Ok(()) => self.inner.get(name, most),
            Err(error) => Box::pin(async { error }),
        }
    }

    fn heads<'a>(
        &'a self,
        names: &'a [String],
        bytes: usize,
    ) -> Boxed<'a, Result<Vec<Option<Vec<u8>>>, BucketError>> {
        match self.answer() {
            Ok(()) => self.inner.heads(names, bytes),
            Err(error) => Box::pin(async { error }),
        }
    }

    fn list<'a>(&'a self, folder: &'a str) -> Boxed<'a, Result<Vec<String>, BucketError>> {
        match self.answer() {
            Ok(()) => self.inner.list(folder),
            Err(error) => Box::pin(async { error }),
        }
    }

    fn delete<'a>(&'a self, name: &'a str) -> Boxed<'a, Result<(), BucketError>> {
        self.inner.delete(name)
    }

    fn url(&self) -> String {
        self.inner.url()
    }
}

#[test]
fn wait_archived_confirms_only_archived_commits() {
    let place = Place::new();
    let store = with_file(&place);
    let bucket = bucket(&place, "a");
    let error = store.wait_archived(Lsn(1)).unwrap_err().to_string();
    assert!(error.contains("the store has no archive"), "{error}");
    assert_eq!(store.archive().unwrap(), None);
    assert!(matches!(store.mark("m"), Err(StoreError::NotArchived)));
    assert!(matches!(store.stop_archive(), Err(StoreError::NotArchived)));

    store.start_archive(bucket.clone(), options()).unwrap();
    let error = store.start_archive(bucket.clone(), options()).unwrap_err();
    assert!(error.to_string().contains("archived at file://"), "{error}");
    for number in 0..20 {
        let lsn = add(&store, number);
        store.wait_archived(lsn).unwrap();
        assert!(store.archived().unwrap() >= lsn);
        assert!(restorable(&bucket) >= lsn, "round {number}");
    }
    let last = store.mark("twenty").unwrap();
    assert_eq!(last, store.marks().unwrap().appended);
    for (name, why) in [("twenty", "twenty"), ("a/b", "a mark has")] {
        let error = store.mark(name).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let status = info(&store);
    assert_eq!((status.state, status.gaps), (ArchiveState::Running, 0));
    assert!(status.restorable && status.objects > 20 && status.stored_bytes > 0);
    let stats = store.stats().unwrap();
    assert_eq!(stats.archive_state, ArchiveState::Running.number());
    assert_eq!((stats.archive_restorable, stats.archive_gaps), (1, 0));
    assert!(stats.archive_objects > 20 && stats.archive_stored_bytes > 0);

    let lsn = add(&store, 20);
    store.wait_durable(lsn).unwrap();
    store.stop_archive().unwrap();
    assert_eq!(restorable(&bucket), lsn);
    assert_eq!(info(&store).state, ArchiveState::Ended);
    let error = store.wait_archived(add(&store, 21)).unwrap_err();
    assert!(error.to_string().contains("stopped"), "{error}");
    assert!(matches!(store.mark("m"), Err(StoreError::NotArchived)));
    store.start_archive(bucket, options()).unwrap();
    store.wait_archived(add(&store, 22)).unwrap();
    store.close().unwrap();
}

#[test]
fn sessions_see_the_archive_and_wait_for_it() {
    let place = Place::new();
    let store = with_file(&place);
    let files = store.files().unwrap();
    assert_eq!(files.archive().unwrap(), None);
    let lsn = add(&store, 1);
    assert!(files.wait_archived(lsn).is_err());
    store.start_archive(bucket(&place, "a"), options()).unwrap();
    files.wait_archived(lsn).unwrap();
    let archive = files.archive().unwrap().unwrap();
    assert!(archive.archived_lsn >= lsn.0 && archive.restorable);
}

/// By a close, by the last handle, and by a job that drops the last handle. The interval is so long that only the end
/// archives the last commits.
#[test]
fn the_end_of_the_store_archives_everything() {
    for by in ["close", "drop", "job"] {
        let place = Place::new();
        let store = with_file(&place);
        let bucket = bucket(&place, "a");
        let options = ArchiverOptions {
            interval: Nanos::from_secs(3600),
            ..ArchiverOptions::default()
        };
        store.start_archive(bucket.clone(), options).unwrap();
        let mut last = Lsn(0);
        for number in 0..100 {
            last = add(&store, number);
        }
        match by {
            "close" => store.close().unwrap(),
            "drop" => drop(store),
            _ => {
                let inner = store.clone();
                let leave = move |context: Context| async move {
                    context.rt.clone().spawn_detached(async move {
                        context.rt.sleep(Nanos::from_millis(50)).await;
                        drop(inner);
                    });
                };
                store.run(leave).unwrap();
                drop(store);
                let by_now = Instant::now() + Duration::from_secs(20);
                while Store::open(&place.path, StoreOptions::default()).is_err() {
                    assert!(Instant::now() < by_now, "it is closed");
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        }
        assert_eq!(restorable(&bucket), last, "{by}");
        assert!(is_clean(&place.path), "{by}");
    }
}

#[test]
fn unreachable_bucket_stops_neither_commits_nor_close() {
    let place = Place::new();
    let store = with_file(&place);
    let (real, away) = (bucket(&place, "a"), Arc::new(AtomicBool::new(true)));
    let flaky = || Away {
        inner: real.clone(),
        away: away.clone(),
    };
    store.start_archive(flaky(), options()).unwrap();
    let status = info(&store);
    assert_eq!(status.state, ArchiveState::Waiting);
    assert!(status.why.unwrap().contains("it is away"));
    let first = add(&store, 1);
    store.wait_durable(first).unwrap();
    away.store(false, Ordering::SeqCst);
    store.wait_archived(first).unwrap();

    away.store(true, Ordering::SeqCst);
    let last = add(&store, 2);
    let began = Instant::now();
    let error = store.close().unwrap_err().to_string();
    assert!(error.contains("within 30 s"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(45));
    assert_eq!(restorable(&real), first);
    assert!(is_clean(&place.path), "it is closed in order all the same");
    // The next opening archives what is missing.
    let store = place.open();
    away.store(false, Ordering::SeqCst);
    store.start_archive(flaky(), options()).unwrap();
    store.wait_archived(last).unwrap();
    assert_eq!(info(&store).gaps, 0);
}

#[test]
fn an_archive_of_another_store_is_refused_at_the_start() {
    let (one, two) = (Place::new(), Place::new());
    let store = with_file(&one);
    let bucket = bucket(&one, "a");
    store.start_archive(bucket.clone(), options()).unwrap();
    store.wait_archived(add(&store, 1)).unwrap();
    let other = with_file(&two);
    let error = other.start_archive(bucket, options()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("another store"), "{text}");
    assert_eq!(info(&other).state, ArchiveState::Ended);
    add(&other, 1);
    other.close().unwrap();
    // The rightful one goes on.
    store.wait_archived(add(&store, 2)).unwrap();
    store.close().unwrap();
}

#[test]
fn a_forked_child_leaves_the_archive_to_its_parent() {
    let place = Place::new();
    let store = with_file(&place);
    store.start_archive(bucket(&place, "a"), options()).unwrap();
    store.wait_archived(add(&store, 1)).unwrap();
    let child = crate::fork::child(|| {
        matches!(store.stop_archive(), Err(StoreError::Forked))
            && matches!(store.close(), Err(StoreError::Forked))
            && matches!(store.archive(), Err(StoreError::Forked))
    });
    assert!(child, "the child was refused");
    // A child that drops the last handle neither waits for a thread of its parent nor ends the archive.
    let mut last = Some(store);
    let child = crate::fork::child(|| {
        let began = Instant::now();
        drop(last.take());
        began.elapsed() < Duration::from_secs(10)
    });
    assert!(child, "the child waits for no thread of its parent");
    let store = last.unwrap();
    store.wait_archived(add(&store, 2)).unwrap();
    store.close().unwrap();
}

/// Threads that commit, wait and look, while the archive is stopped and started again.
#[test]
fn threads_wait_while_the_archive_ends_and_begins() {
    let place = Place::new();
    let store = with_file(&place);
    let bucket = bucket(&place, "a");
    let (ending, begun) = (AtomicBool::new(false), AtomicU32::new(0));
    store.start_archive(bucket.clone(), options()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (store, ending, begun) = (&store, &ending, &begun);
            scope.spawn(move || {
                let (mut number, mut archived) = (0, 0);
                while !ending.load(Ordering::SeqCst) || archived == 0 {
                    let lsn = add(store, thread * 100 + number % 100);
                    number += 1;
                    let before = begun.load(Ordering::SeqCst);
                    match store.wait_archived(lsn) {
                        Ok(()) => {
                            archived += 1;
                            // An archive that has begun meanwhile has nothing until it is taken over.
                            let has_lsn = store.archived().unwrap() >= lsn;
                            assert!(has_lsn || begun.load(Ordering::SeqCst) > before);
                        }
                        Err(error) => {
                            let text = error.to_string();
                            assert!(text.contains("stopped"), "{text}");
                        }
                    }
                }
            });
        }
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(200));
            store.stop_archive().unwrap();
            begun.fetch_add(1, Ordering::SeqCst);
            store.start_archive(bucket.clone(), options()).unwrap();
        }
        ending.store(true, Ordering::SeqCst);
    });
    assert_eq!(info(&store).gaps, 0);
    let last = store.marks().unwrap().appended;
    store.close().unwrap();
    assert_eq!(restorable(&bucket), last);
}
