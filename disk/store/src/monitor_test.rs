//! Threads that enter a monitor while the executor's thread waits.

use crate::Executor;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Arc, Barrier};
use std::thread::ThreadId;
use std::time::Duration;
use tonearm_base::Nanos;
use tonearm_rt::{Data, Op};

/// Longer than any step of a test takes.
const LONG: Duration = Duration::from_secs(20);

/// Runs `executor_thread` on a thread of its own. A test that hangs fails.
fn within_time(executor_thread: impl FnOnce() + Send + 'static) {
    let (ended, end) = channel();
    let thread = std::thread::spawn(move || {
        executor_thread();
        let _ = ended.send(());
    });
    if end.recv_timeout(LONG) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
        panic!("the executor's thread hangs");
    }
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// A task that waits runs on the thread that enters, before that returns.
#[test]
fn ready_tasks_run_on_the_entering_thread() {
    within_time(|| {
        let (executor, monitor) = Executor::with_monitor().unwrap();
        let mut inside = monitor.enter();
        let (waker, arrived) = inside.remote_waker(&executor.rt);
        let (ran, runs) = channel::<ThreadId>();
        let thread = std::thread::spawn(move || {
            let me = std::thread::current().id();
            // The first turn may find the task before it waits. The second one comes after the end of the first.
            for _ in 0..2 {
                waker.notify();
            }
            let last = std::iter::from_fn(|| runs.recv_timeout(LONG).ok()).last();
            assert_eq!(last, Some(me));
        });
        inside.block_on(&executor.rt, async move {
            for _ in 0..2 {
                arrived.wait().await;
                ran.send(std::thread::current().id()).unwrap();
            }
        });
        drop(executor);
        drop(inside);
        thread.join().unwrap();
    });
}

/// What a task begins on a thread that enters, a timer or an operation, ends by the executor's thread, which waits for nothing
/// else.
#[test]
fn timers_and_operations_of_others_end_the_wait() {
    within_time(|| {
        let (executor, monitor) = Executor::with_monitor().unwrap();
        let mut inside = monitor.enter();
        let (waker, arrived) = inside.remote_waker(&executor.rt);
        let (bell, ringer) = executor.handle.add_event().unwrap();
        let (rt, pool) = (executor.rt.clone(), executor.pool.clone());
        let (slept, sleeps) = sync_channel(0);
        let thread = std::thread::spawn(move || {
            // Until the executor's thread waits.
            std::thread::sleep(Duration::from_millis(50));
            waker.notify();
            sleeps.recv_timeout(LONG).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            waker.notify();
            // The operation is under way, and the executor's thread waits again.
            std::thread::sleep(Duration::from_millis(50));
            ringer.notify();
        });
        inside.block_on(&executor.rt, async move {
            arrived.wait().await;
            let began = rt.now();
            rt.sleep(Nanos::from_millis(5)).await;
            assert!(rt.now().since(began) < Nanos::from_secs(10));
            slept.send(()).unwrap();
            arrived.wait().await;
            let buf = Data::whole(pool.alloc(8));
            rt.stream(bell, Op::Recv, buf).await.0.unwrap();
        });
        drop(executor);
        drop(inside);
        thread.join().unwrap();
    });
}

/// No notification is lost, whichever thread is inside when it comes.
#[test]
fn no_work_is_lost() {
    const THREADS: u64 = 4;
    const EACH: u64 = 5000;
    within_time(|| {
        let (executor, monitor) = Executor::with_monitor().unwrap();
        let mut inside = monitor.enter();
        let (work, works) = channel();
        let done = Arc::new(AtomicU64::new(0));
        let start = Arc::new(Barrier::new(THREADS as usize));
        let (waker, arrived) = inside.remote_waker(&executor.rt);
        let waker = Arc::new(waker);
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (work, done) = (work.clone(), done.clone());
                let (start, waker) = (start.clone(), waker.clone());
                std::thread::spawn(move || {
                    start.wait();
                    for number in 0..EACH {
                        work.send(thread * EACH + number).unwrap();
                        waker.notify();
                        // Its own work and that of others is done when the turn ends, but for what waits.
                        assert!(done.load(Ordering::SeqCst) > 0);
                    }
                })
            })
            .collect();
        drop((work, waker));
        let rt = executor.rt.clone();
        let all = THREADS * EACH;
        inside.block_on(&executor.rt, async move {
            let mut sum = 0;
            while done.load(Ordering::SeqCst) < all {
                let wait = arrived.wait();
                while let Ok(number) = works.try_recv() {
                    sum += number;
                    done.fetch_add(1, Ordering::SeqCst);
                    if number % 512 == 0 {
                        rt.sleep(Nanos::from_micros(20)).await;
                    }
                }
                if done.load(Ordering::SeqCst) < all {
                    wait.await;
                }
            }
            assert_eq!(sum, all * (all - 1) / 2);
        });
        drop(executor);
        drop(inside);
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

/// A panic on a thread that has entered ends the executor's thread, and the other one goes on. No task runs after it.
#[test]
fn a_panic_of_a_task_is_one_of_the_executors_thread() {
    let goes_on = Arc::new(AtomicBool::new(false));
    let other = goes_on.clone();
    let turns = Arc::new(AtomicU64::new(0));
    let counted = turns.clone();
    let ended = std::panic::catch_unwind(|| {
        within_time(move || {
            let (executor, monitor) = Executor::with_monitor().unwrap();
            let mut inside = monitor.enter();
            let (waker, arrived) = inside.remote_waker(&executor.rt);
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(50));
                waker.notify();
                // The executor's thread has ended, or is about to.
                waker.notify();
                other.store(true, Ordering::SeqCst);
            });
            let executor = executor;
            let again = arrived.clone();
            executor.rt.spawn_detached(async move {
                loop {
                    again.wait().await;
                    counted.fetch_add(1, Ordering::SeqCst);
                }
            });
            inside.block_on(&executor.rt, async move {
                arrived.wait().await;
                panic!("a task");
            });
        });
    });
    assert!(ended.is_err());
    for _ in 0..200 {
        if goes_on.load(Ordering::SeqCst) {
            return assert_eq!(turns.load(Ordering::SeqCst), 1);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the thread that has entered does not go on");
}
