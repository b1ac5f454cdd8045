//! A batch of SQLite transactions with `synchronous=NORMAL` and one wait at its end: as safe as `FULL`, for the flushes of
//! one transaction.

#![allow(clippy::unwrap_used)]

use rusqlite::{Connection, OpenFlags};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tonearm_disk::OpenOptions;
use tonearm_sim::{Layout, Shape, StoreImage};
use tonearm_store::Store;
use tonearm_world::Crash;

const ROWS: u32 = 200;

const SHAPE: Shape = Shape::small(Layout::Overwrite, 64, 1024);

/// Runs `work` with a connection to `app.db` on `image`. Returns its result, the flushes of the log that it caused, and
/// the drives after a power cut at its end.
fn with_db<T>(image: &StoreImage, work: impl FnOnce(&Connection) -> T) -> (T, u64, Crash) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    tonearm_sqlite::register(false).unwrap();
    let (world, rt) = image.start(0);
    let (own, image) = (rt.clone(), image.clone());
    let disk = rt.block_on(async move {
        let disk = image.open_disk(&own, OpenOptions::default()).await;
        disk.unwrap()
    });
    let store = Store::over(rt.clone(), disk);
    if store.size("main").is_ok() {
        let mut unit = store.begin().unwrap();
        unit.delete("main").unwrap();
        unit.end().unwrap();
    }
    let name = format!("batch-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    tonearm_sqlite::provide(&name, Arc::new(store.files().unwrap()));
    let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
    let uri = format!("file:app.db?vfs=tonearm&store={name}");
    let db = Connection::open_with_flags(uri, flags).unwrap();
    db.execute_batch("CREATE TABLE IF NOT EXISTS t(x)").unwrap();
    let flushes = |store: &Store| {
        let stats = store.stats().unwrap();
        stats.log_flushes + stats.log_durable_writes
    };
    let before = flushes(&store);
    let result = work(&db);
    let caused = flushes(&store) - before;
    let crash = world.crash();
    drop(db);
    tonearm_sqlite::withdraw(&name);
    drop(store);
    rt.shut_down();
    (result, caused, crash)
}

fn insert(db: &Connection, synchronous: &str) {
    db.pragma_update(None, "synchronous", synchronous).unwrap();
    for n in 0..ROWS {
        db.execute("INSERT INTO t VALUES(?)", [n]).unwrap();
    }
}

/// The rows that are there after each of a few power cuts.
fn rows_after(image: &StoreImage, crash: &Crash) -> Vec<u32> {
    let after = |seed| {
        let left = image.with(crash.images(seed));
        let rows = with_db(&left, |db| {
            db.query_row("SELECT count(*) FROM t", [], |row| row.get(0))
                .unwrap()
        });
        rows.0
    };
    (0..12).map(after).collect()
}

#[test]
fn one_wait_at_the_end_of_a_batch_is_safe_and_takes_one_flush() {
    let image = SHAPE.create();
    let (last, flushes, crash) = with_db(&image, |db| {
        insert(db, "NORMAL");
        let number = |sql: &str| -> u64 {
            let text: String = db.query_row(sql, [], |row| row.get(0)).unwrap();
            text.parse().unwrap()
        };
        let last = number("PRAGMA tonearm_lsn");
        assert!(number("PRAGMA tonearm_durable") < last);
        assert_eq!(number("PRAGMA tonearm_wait = durable"), last);
        last
    });
    assert!(last >= u64::from(ROWS));
    assert_eq!(rows_after(&image, &crash), [ROWS; 12]);
    assert!(flushes <= 4, "{flushes} flushes");
}

#[test]
fn without_the_wait_a_power_cut_takes_transactions_back() {
    let image = SHAPE.create();
    let ((), flushes, crash) = with_db(&image, |db| insert(db, "NORMAL"));
    let rows = rows_after(&image, &crash);
    assert!(rows.iter().any(|rows| *rows < ROWS), "{rows:?}");
    assert!(flushes <= 4, "{flushes} flushes");
}

#[test]
fn with_full_each_transaction_takes_a_flush() {
    let image = SHAPE.create();
    let ((), flushes, crash) = with_db(&image, |db| insert(db, "FULL"));
    assert_eq!(rows_after(&image, &crash), [ROWS; 12]);
    assert!(flushes >= u64::from(ROWS), "{flushes} flushes");
}
