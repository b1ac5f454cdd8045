//! Locks and threads of the leader: those of `std`, or in the crate's own tests those of `shuttle`, which tries
//! interleavings (`explore_test.rs`).

#[cfg(test)]
pub(super) use shuttle::{
    hint::spin_loop,
    sync::{Condvar, Mutex, MutexGuard, atomic::AtomicUsize},
};
#[cfg(not(test))]
pub(super) use std::{
    hint::spin_loop,
    sync::{Condvar, Mutex, MutexGuard, atomic::AtomicUsize},
};

#[cfg(test)]
use shuttle::thread;
#[cfg(not(test))]
use std::thread;

use std::io;
use std::sync::PoisonError;
use std::time::Duration;

pub(super) type JoinHandle = thread::JoinHandle<()>;

/// Locks `mutex`, poisoned or not: a panic leaves nothing half done behind these locks.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for `condvar` without the lock.
pub(super) fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// As [`wait`], no longer than for `left`.
#[cfg(not(test))]
pub(super) fn wait_for<'a, T>(
    _: &'a Mutex<T>,
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    left: Duration,
) -> MutexGuard<'a, T> {
    let waited = condvar.wait_timeout(guard, left);
    waited.unwrap_or_else(PoisonError::into_inner).0
}

/// Starts a thread.
///
/// # Errors
/// When the system has none left.
pub(super) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle> {
    thread::Builder::new().name(name.into()).spawn(run)
}

/// Waits for the end of a thread, unless it is the caller itself.
pub(super) fn join(thread: JoinHandle) {
    if thread.thread().id() != thread::current().id() {
        // The panic of a thread was reported when it happened.
        let _ = thread.join();
    }
}

/// Identifies a running thread: the address of a thread-local variable.
#[cfg(not(test))]
pub(super) fn mark() -> usize {
    thread_local!(static PLACE: u8 = const { 0 });
    PLACE.with(|place| std::ptr::from_ref(place).addr())
}

/// The threads of `shuttle` share those of `std`.
#[cfg(test)]
pub(super) fn mark() -> usize {
    shuttle::thread_local! {
        static PLACE: Box<u8> = Box::new(0);
    }
    PLACE.with(|place| std::ptr::from_ref(&**place).addr())
}

/// `shuttle` has no time. The caller looks again at its clock, which the test advances.
#[cfg(test)]
pub(super) fn wait_for<'a, T>(
    mutex: &'a Mutex<T>,
    _: &Condvar,
    guard: MutexGuard<'a, T>,
    _: Duration,
) -> MutexGuard<'a, T> {
    drop(guard);
    thread::yield_now();
    locked(mutex)
}
