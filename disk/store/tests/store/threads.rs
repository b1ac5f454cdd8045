//! Threads that share a store.

use crate::{Jobs, Place, make, read, write};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};
use tonearm_base::Nanos;
use tonearm_store::{Context, Store};

const BLOCKS: u64 = 64;

/// Each thread has a volume of its own, whose content it knows. All threads share another one. A block of that one
/// always has one of the values that were written to it, and never an older one than before: values grow.
#[test]
fn eight_threads_read_what_they_wrote() {
    let place = Place::new();
    let store = place.open();
    make(&store, "shared", BLOCKS);
    let floor = Arc::new(Mutex::new([0u8; BLOCKS as usize]));
    let end = Instant::now() + Duration::from_secs(4);
    let threads: Vec<_> = (0..8u64)
        .map(|number| {
            let (store, floor) = (store.clone(), floor.clone());
            std::thread::spawn(move || {
                let own = format!("v{number}");
                make(&store, &own, BLOCKS);
                let mut random = ChaCha8Rng::seed_from_u64(number);
                let mut model = [0u8; BLOCKS as usize];
                let mut rounds = 0u64;
                while Instant::now() < end {
                    rounds += 1;
                    let block = random.next_u64() % BLOCKS;
                    let byte = (random.next_u32() % 255) as u8 + 1;
                    let name = own.clone();
                    match random.next_u32() % 100 {
                        0..40 => {
                            let durable = random.next_u32() % 4 == 0;
                            let job = move |context| write(context, name, block, byte, durable);
                            store.run(job).unwrap();
                            model[block as usize] = byte;
                        }
                        40..75 => {
                            let seen = store
                                .run(move |context| read(context, name, block))
                                .unwrap();
                            assert_eq!(seen, model[block as usize]);
                        }
                        75..90 => {
                            // A value that one thread has seen is the least that all threads see from then on.
                            let least = floor.lock().unwrap()[block as usize];
                            let job = move |context| read(context, "shared".into(), block);
                            let seen = store.run(job).unwrap();
                            assert!(seen >= least, "{seen} after {least}");
                            let floor = &mut floor.lock().unwrap()[block as usize];
                            *floor = seen.max(*floor);
                        }
                        90..97 => {
                            let job = move |context: Context| async move {
                                let shared = "shared".to_string();
                                let seen = read(context.clone(), shared.clone(), block).await;
                                (seen < 255).then(|| (shared, seen + 1))
                            };
                            if let Some((shared, next)) = store.run(job).unwrap() {
                                // Another may have written more meanwhile: then this job leaves it.
                                let job = move |context: Context| async move {
                                    if read(context.clone(), shared.clone(), block).await < next {
                                        write(context, shared, block, next, false).await;
                                    }
                                };
                                store.run(job).unwrap();
                            }
                        }
                        97..99 => {
                            let flush =
                                |context: Context| async move { context.disk.flush().await };
                            store.run(flush).unwrap().unwrap();
                        }
                        _ => std::thread::sleep(Duration::from_millis(1)),
                    }
                }
                (own, model, rounds)
            })
        })
        .collect();
    let ended: Vec<_> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    store.close().unwrap();
    let store = place.open();
    for (name, model, rounds) in ended {
        assert!(rounds > 100, "{name}: {rounds} rounds");
        for (block, byte) in model.iter().enumerate() {
            let name = name.clone();
            let seen = store
                .run(move |context| read(context, name, block as u64))
                .unwrap();
            assert_eq!(seen, *byte);
        }
    }
}

/// An operation that a thread has begun goes on after the thread's end, driven by another one.
#[test]
fn threads_that_end_at_once_leave_nothing_undone() {
    let place = Place::new();
    let store = place.open();
    make(&store, "v", BLOCKS);
    for round in 0..400u64 {
        let other = store.clone();
        let byte = (round % 250) as u8 + 1;
        let thread = std::thread::spawn(move || {
            let job = move |context| write(context, "v".into(), round % BLOCKS, byte, false);
            other.run(job).unwrap();
        });
        thread.join().unwrap();
        if round % 3 == 0 {
            let flush = |context: Context| async move { context.disk.flush().await };
            store.run(flush).unwrap().unwrap();
        }
    }
    store.close().unwrap();
}

/// No thread calls: the timer thread completes the writes, and writes them home when they are old enough.
#[test]
fn timer_thread_completes_work_without_callers() {
    let place = Place::new();
    let mut options = tonearm_store::StoreOptions::default();
    options.open.write_back_after = Nanos::from_millis(200);
    let store = Store::open(&place.path, options).unwrap();
    make(&store, "v", BLOCKS);
    store
        .run(|context| write(context, "v".into(), 1, 1, false))
        .unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let stats = store
        .run(|context| async move { context.disk.stats() })
        .unwrap();
    assert_eq!(stats.pinned_blocks, 0, "all is at home");
}

/// A job that waits for an effect of another thread's job.
#[test]
fn jobs_meet_in_the_engine() {
    let place = Place::new();
    let store = place.open();
    let (other, started) = (store.clone(), Instant::now());
    let waits = std::thread::spawn(move || {
        other.run(|context: Context| async move {
            while context.disk.volume("late").is_err() {
                context.rt.sleep(Nanos::from_micros(100)).await;
            }
        })
    });
    std::thread::sleep(Duration::from_millis(20));
    make(&store, "late", BLOCKS);
    waits.join().unwrap().unwrap();
    assert!(started.elapsed() < Duration::from_secs(5));
}

/// Processor time of the calling thread.
fn thread_cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

#[test]
fn waiting_threads_fire_timers_in_time_without_spinning() {
    let place = Place::new();
    let store = place.open();
    // On a busy machine not at the first attempt.
    let mut attempts = Vec::new();
    for _ in 0..8 {
        let (late, cpu, wall) = sleep_in_turns(&store);
        attempts.push(format!(
            "{late:?} late, {cpu:?} of processor time in {wall:?}"
        ));
        // A look of the timer thread, which comes every millisecond, would be later on average.
        if late < Duration::from_micros(400) && cpu < wall {
            return store.close().unwrap();
        }
    }
    panic!("{attempts:#?}");
}

/// Four threads wait for timers of the engine: how late half of them are, and the processor time of all of it.
fn sleep_in_turns(store: &Store) -> (Duration, Duration, Duration) {
    let began = Instant::now();
    let threads: Vec<_> = (0..4u64)
        .map(|number| {
            let store = store.clone();
            std::thread::spawn(move || {
                let (mut waits, cpu) = (Vec::new(), thread_cpu());
                for round in 0..300 {
                    // Now the sooner timer is the older one, now the newer.
                    let span = Nanos::from_micros(100 + (number * 7 + round * 3) % 10 * 50);
                    let asked = Instant::now();
                    let sleep = move |context: Context| async move { context.rt.sleep(span).await };
                    store.run(sleep).unwrap();
                    waits.push(asked.elapsed().saturating_sub(Duration::from_nanos(span.0)));
                }
                (waits, thread_cpu() - cpu)
            })
        })
        .collect();
    let (mut late, mut cpu) = (Vec::new(), Duration::ZERO);
    for thread in threads {
        let (waits, used) = thread.join().unwrap();
        late.extend(waits);
        cpu += used;
    }
    late.sort_unstable();
    (late[late.len() / 2], cpu, began.elapsed())
}

#[test]
fn a_timer_that_is_set_while_others_sleep_is_seen_to() {
    let place = Place::new();
    let store = place.open();
    make(&store, "v", BLOCKS);
    for _ in 0..3 {
        // All memory is taken, and given back after two timers, of which the second is soon due when it is set.
        let taken = store.run(|context| async move {
            let volume = context.disk.volume("v").unwrap();
            let bytes = context.disk.engine().options().memory_bytes;
            let permit = volume.reserve(bytes).await.unwrap();
            let rt = context.rt.clone();
            context.rt.spawn_detached(async move {
                rt.sleep(Nanos::from_millis(20)).await;
                rt.sleep(Nanos::from_micros(700)).await;
                drop(permit);
            });
        });
        taken.unwrap();
        let (done, is_done) = std::sync::mpsc::channel();
        let waiting = store.clone();
        let waiter = std::thread::spawn(move || {
            let reserve = |context: Context| async move {
                let volume = context.disk.volume("v").unwrap();
                drop(volume.reserve(4096).await.unwrap());
            };
            waiting.run(reserve).unwrap();
            done.send(()).unwrap();
        });
        let ended = is_done.recv_timeout(Duration::from_secs(20));
        assert!(ended.is_ok(), "no thread has handled the second timer");
        waiter.join().unwrap();
    }
    store.close().unwrap();
}

#[test]
fn timer_wait_does_not_spin_under_a_long_leader() {
    let place = Place::new();
    let store = place.open();
    for _ in 0..3 {
        let (begins, has_begun) = std::sync::mpsc::channel();
        let sleeping = store.clone();
        let sleeper = std::thread::spawn(move || {
            begins.send(()).unwrap();
            let cpu = thread_cpu();
            let sleep =
                |context: Context| async move { context.rt.sleep(Nanos::from_micros(900)).await };
            sleeping.run(sleep).unwrap();
            thread_cpu() - cpu
        });
        has_begun.recv().unwrap();
        std::thread::sleep(Duration::from_micros(300));
        // Leads from before the timer is due, mostly, until long after.
        let lead = |_: Context| async move { std::thread::sleep(Duration::from_millis(200)) };
        store.run(lead).unwrap();
        let cpu = sleeper.join().unwrap();
        assert!(
            cpu < Duration::from_millis(50),
            "{cpu:?} of processor time, to wait"
        );
    }
    store.close().unwrap();
}

/// Two threads write parts of one cold block at a time, each in a unit of its own, or without: both writes succeed, and
/// both parts are there.
#[test]
fn concurrent_partial_writes_of_a_block_keep_both() {
    const BLOCKS: u64 = 300;
    let place = Place::new();
    let store = place.open();
    for (round, units) in [[true, true], [true, false], [false, false]]
        .into_iter()
        .enumerate()
    {
        let byte = round as u8 * 2 + 10;
        let mut unit = store.begin().unwrap();
        let name = format!("f{round}");
        unit.create_file(&name).unwrap();
        unit.write(&name, 0, &vec![7; (BLOCKS * 4096) as usize])
            .unwrap();
        unit.end().unwrap();
        let drain = |context: Context| async move { context.disk.engine().drain().await };
        store.run(drain).unwrap().unwrap();
        let together = Barrier::new(2);
        std::thread::scope(|scope| {
            for (thread, in_unit) in units.into_iter().enumerate() {
                let (store, name, together) = (&store, &name, &together);
                scope.spawn(move || {
                    let data = [byte + thread as u8; 100];
                    for block in 0..BLOCKS {
                        let offset = block * 4096 + thread as u64 * 2000;
                        together.wait();
                        if in_unit {
                            let mut unit = store.begin().unwrap();
                            unit.write(name, offset, &data).unwrap();
                            unit.end().unwrap();
                        } else {
                            store.write(name, offset, &data).unwrap();
                        }
                    }
                });
            }
        });
        let found = store.read(&name, 0, (BLOCKS * 4096) as usize).unwrap();
        let lost = found.chunks(4096).filter(|block| {
            let mut expected = vec![7; 4096];
            expected[..100].fill(byte);
            expected[2000..2100].fill(byte + 1);
            *block != expected
        });
        assert_eq!(lost.count(), 0, "blocks that lost bytes, units {units:?}");
    }
    store.close().unwrap();
}

#[test]
fn the_durable_mark_can_be_looked_at_without_a_wait() {
    let place = Place::new();
    let store = place.open();
    make(&store, "v", 4);
    let lsn = store.write("v", 0, b"x").unwrap();
    let marks = store.marks().unwrap();
    assert_eq!(marks.appended, lsn);
    assert!(marks.durable <= marks.flushed && marks.flushed <= lsn);
    store.wait_durable(lsn).unwrap();
    assert_eq!(store.durable().unwrap(), lsn);
    let error = store.wait_durable(lsn + 1).unwrap_err().to_string();
    assert!(error.contains("there is no commit"), "{error}");
    // The error leaves the store as it was.
    store.write("v", 0, b"y").unwrap();
    store.close().unwrap();
    assert!(store.durable().is_err());
    let store = place.open();
    assert!(
        store.durable().unwrap() > lsn,
        "it goes on after an orderly end"
    );
    store.close().unwrap();
}
