//! The ends of a store: in order, by its last handle, while others use it, by a panic, after a fork.

use crate::{Jobs, Place, make, read, write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tonearm_base::BufPool;
use tonearm_store::{Context, PerProcess, Store, StoreError, StoreOptions, open_files};

fn with_volume(place: &Place) -> Store {
    let store = place.open();
    make(&store, "v", 2048);
    store
}

async fn fill(context: Context, block: u64, byte: u8) {
    write(context, "v".into(), block, byte, false).await;
}

/// Closes the store while `threads` threads write `blocks` blocks at a time, once they have done so `least` times.
fn close_amid_writers(store: &Store, threads: u64, blocks: usize, durable: bool, least: u64) {
    let done = AtomicU64::new(0);
    let write = |at: u64, durable: bool| {
        store.run(move |context| async move {
            let data = BufPool::new(0).copy_of(&vec![5; blocks * 4096]).share();
            let volume = context.disk.volume("v").unwrap();
            volume.write(at * 4096, data, durable).await
        })
    };
    let write_on = |number: u64| {
        for round in 0.. {
            let at = number * 300 + round * blocks as u64 % 280;
            match write(at, durable && round % 7 == 0) {
                Ok(Ok(())) => done.fetch_add(1, Ordering::SeqCst),
                // The engine refuses first, then the store.
                Ok(Err(error)) => {
                    let text = error.to_string();
                    assert!(text.starts_with("the store is "), "{text}");
                    continue;
                }
                Err(StoreError::Closed) => return,
                Err(other) => panic!("{other}"),
            };
        }
    };
    let write_on = &write_on;
    std::thread::scope(|scope| {
        for number in 0..threads {
            scope.spawn(move || write_on(number));
        }
        while done.load(Ordering::SeqCst) < least {
            std::thread::yield_now();
        }
        store.close().unwrap();
    });
}

fn is_clean(store: &Store) -> bool {
    let recovery = store.run(|context| async move { context.disk.recovery() });
    recovery.unwrap().clean
}

#[test]
fn the_last_handle_closes_in_order() {
    let place = Place::new();
    let store = with_volume(&place);
    let other = store.clone();
    store.run(|context| fill(context, 3, 9)).unwrap();
    drop(store);
    other.run(|context| fill(context, 4, 8)).unwrap();
    drop(other);
    let store = place.open();
    assert!(is_clean(&store));
    assert_eq!(
        store.run(|context| read(context, "v".into(), 3)).unwrap(),
        9
    );
    assert_eq!(
        store.run(|context| read(context, "v".into(), 4)).unwrap(),
        8
    );
}

#[test]
fn a_job_may_drop_the_last_handle() {
    let place = Place::new();
    let store = with_volume(&place);
    let inner = store.clone();
    let (open, seen) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let (opened, saw) = (open.clone(), seen.clone());
    let caller = std::thread::spawn(move || {
        store.run(move |context| async move {
            while !opened.load(Ordering::SeqCst) {
                context.rt.sleep(tonearm_base::Nanos::from_millis(1)).await;
            }
            drop(inner);
            saw.store(true, Ordering::SeqCst);
        })
    });
    open.store(true, Ordering::SeqCst);
    caller.join().unwrap().unwrap();
    assert!(seen.load(Ordering::SeqCst));
    reopened(&place);
}

/// The store, opened as soon as it is free.
fn reopened(place: &Place) -> Store {
    let started = Instant::now();
    loop {
        match Store::open(&place.path, StoreOptions::default()) {
            Ok(store) => return store,
            Err(error) => assert!(started.elapsed() < Duration::from_secs(10), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_store_that_is_closed_refuses_by_name() {
    let place = Place::new();
    let store = with_volume(&place);
    store.close().unwrap();
    assert!(matches!(store.close(), Err(StoreError::Closed)));
    let refused = store.run(|context| fill(context, 0, 1));
    assert!(matches!(refused, Err(StoreError::Closed)));
    assert!(is_clean(&place.open()), "the members are free at once");
}

#[test]
fn a_second_opening_is_refused_and_names_the_holder() {
    let place = Place::new();
    let _store = place.open();
    let error = Store::open(&place.path, StoreOptions::default())
        .err()
        .unwrap();
    assert!(error.to_string().contains("in use"), "{error}");
}

#[test]
fn closing_meets_callers() {
    for _ in 0..20 {
        let place = Place::new();
        let store = with_volume(&place);
        close_amid_writers(&store, 4, 1, true, 50);
        assert!(is_clean(&place.open()));
    }
}

#[test]
fn panic_of_a_job_reaches_only_its_caller() {
    let place = Place::new();
    let store = with_volume(&place);
    let stop = Arc::new(AtomicBool::new(false));
    let others: Vec<_> = (0..3u8)
        .map(|number| {
            let (store, stop) = (store.clone(), stop.clone());
            std::thread::spawn(move || {
                let mut rounds = 0u64;
                while !stop.load(Ordering::SeqCst) {
                    store
                        .run(move |context| fill(context, number.into(), number + 1))
                        .unwrap();
                    rounds += 1;
                }
                rounds
            })
        })
        .collect();
    for round in 0..300 {
        let (early, flushes) = (round % 3 == 0, round % 3 == 1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            store.run(move |context| {
                assert!(!early, "job {round}");
                async move {
                    if flushes {
                        fill(context.clone(), 9, 9).await;
                        context.disk.flush().await.unwrap();
                    }
                    panic!("job {round}");
                }
            })
        }));
        let text = *panicked.err().unwrap().downcast::<String>().unwrap();
        assert_eq!(text, format!("job {round}"));
    }
    stop.store(true, Ordering::SeqCst);
    for other in others {
        assert!(other.join().unwrap() > 0);
    }
    store.close().unwrap();
}

#[test]
fn a_panic_of_the_engine_ends_the_store_for_all() {
    let place = Place::new();
    let store = with_volume(&place);
    store.run(|context| fill(context, 3, 9)).unwrap();
    store
        .run(|context| async move { context.disk.flush().await })
        .unwrap()
        .unwrap();
    let waiting = store.clone();
    let waits = std::thread::spawn(move || {
        waiting.run(|context| async move {
            context.rt.sleep(tonearm_base::Nanos::from_secs(1000)).await
        })
    });
    std::thread::sleep(Duration::from_millis(50));
    let ended = store.run(|context| async move {
        // As a task of the engine would.
        context
            .rt
            .spawn(async { panic!("an invariant of the engine") });
        context.rt.sleep(tonearm_base::Nanos::from_secs(1000)).await;
    });
    assert!(matches!(ended, Err(StoreError::Panicked)));
    assert!(matches!(waits.join().unwrap(), Err(StoreError::Panicked)));
    assert!(matches!(store.run(|_| async {}), Err(StoreError::Panicked)));
    // The members are free, and recovery brings back what was durable.
    let again = place.open();
    assert!(!is_clean(&again));
    assert_eq!(
        again.run(|context| read(context, "v".into(), 3)).unwrap(),
        9
    );
}

#[test]
fn a_job_that_calls_the_store_is_refused() {
    let place = Place::new();
    let store = with_volume(&place);
    let inner = store.clone();
    let nested = store
        .run(move |_| async move { inner.run(|_| async {}) })
        .unwrap();
    assert!(matches!(nested, Err(StoreError::Nested)));
}

#[test]
fn a_forked_child_is_refused_and_the_parent_goes_on() {
    let place = Place::new();
    let store = with_volume(&place);
    store.run(|context| fill(context, 1, 1)).unwrap();
    let child = crate::fork::child(|| {
        let refused = matches!(store.run(|_| async {}), Err(StoreError::Forked))
            && matches!(store.close(), Err(StoreError::Forked));
        drop(store.clone());
        refused
    });
    assert!(child, "the child was refused");
    store.run(|context| fill(context, 2, 2)).unwrap();
    store.close().unwrap();
    assert!(is_clean(&place.open()));
}

#[test]
fn a_forked_child_does_not_keep_the_store_of_its_parent() {
    let place = Place::new();
    let store = place.open();
    let sleepers = crate::fork::Sleepers::new();
    sleepers.add();
    store.close().unwrap();
    // At once: the child keeps no process waiting.
    assert!(is_clean(&place.open()));
    drop(sleepers);
}

#[test]
fn a_forked_child_may_have_the_store_after_its_parent() {
    let place = Place::new();
    let files = open_files(&place.path, StoreOptions::default()).unwrap();
    let opens = || open_files(&place.path, StoreOptions::default()).map(drop);
    let child = crate::fork::child(|| {
        let refused = opens().unwrap_err().to_string();
        refused.contains(&format!("in use by process {}", parent()))
    });
    assert!(
        child,
        "the child gets an error that names the process that uses the store"
    );
    drop(files);
    assert!(crate::fork::child(|| opens().is_ok()));
    opens().unwrap();
}

#[test]
fn a_forked_child_begins_with_its_own_tables() {
    static TABLE: PerProcess<Vec<u8>> = PerProcess::new();
    let mut held = TABLE.lock();
    held.push(1);
    let child = crate::fork::child(|| {
        let new = TABLE.lock().is_empty();
        TABLE.lock().push(2);
        new && *TABLE.lock() == [2]
    });
    assert!(child);
    assert_eq!(*held, [1]);
}

fn parent() -> u32 {
    std::os::unix::process::parent_id()
}

/// Threads commit and wait for log space while another one closes the store: they get an error, and the store is clean.
#[test]
fn a_store_that_is_closed_while_its_log_is_full_is_clean() {
    for round in 0..300u64 {
        let place = Place::with_log(512 << 10 << (round % 4));
        let store = with_volume(&place);
        close_amid_writers(&store, 6, 8, false, 30 + round % 40);
        assert!(is_clean(&place.open()), "round {round}");
    }
}

/// A close ends the units and waits of other threads with an error. What was durable before is there after it.
#[test]
fn closing_meets_units_of_a_small_log() {
    for (round, log_bytes) in [512 << 10, 1 << 20, 4 << 20]
        .repeat(3)
        .into_iter()
        .enumerate()
    {
        let place = Place::with_log(log_bytes);
        let store = place.open();
        let mut unit = store.begin().unwrap();
        for number in 0..6u64 {
            unit.create_file(&format!("f{number}")).unwrap();
            unit.write(&format!("f{number}"), 0, &0u64.to_le_bytes())
                .unwrap();
        }
        store.wait_durable(unit.end().unwrap()).unwrap();
        let ended = Arc::new(AtomicU64::new(0));
        let callers: Vec<_> = (0..6u64)
            .map(|number| {
                let (store, ended, name) = (store.clone(), ended.clone(), format!("f{number}"));
                std::thread::spawn(move || {
                    let mut durable = 0;
                    for value in 1u64.. {
                        let one = || -> Result<u64, StoreError> {
                            let mut unit = store.begin()?;
                            unit.write(&name, 4096, &[value as u8; 65536])?;
                            unit.write(&name, 0, &value.to_le_bytes())?;
                            store.wait_durable(unit.end()?)?;
                            Ok(value)
                        };
                        match one() {
                            Ok(value) => durable = value,
                            Err(error) => return (name, durable, error.to_string()),
                        }
                        ended.fetch_add(1, Ordering::SeqCst);
                    }
                    unreachable!("the store is closed")
                })
            })
            .collect();
        while ended.load(Ordering::SeqCst) < 40 + 7 * round as u64 {
            std::thread::yield_now();
        }
        store.close().unwrap();
        let acknowledged: Vec<_> = callers
            .into_iter()
            .map(|caller| caller.join().unwrap())
            .collect();
        let store = place.open();
        assert!(is_clean(&store), "{log_bytes}");
        for (name, durable, error) in acknowledged {
            assert!(error.contains("closed"), "{log_bytes}: {error}");
            let value = store.read(&name, 0, 8).unwrap();
            assert!(
                u64::from_le_bytes(value.try_into().unwrap()) >= durable,
                "{name}"
            );
        }
    }
}
