//! A single-threaded executor over one [`Driver`]: the same engine code in real and in virtual time.
//!
//! Invariants:
//! 1. Tasks run in the order in which they became ready; timers of one instant fire in the order in
//!    which they were set. With a deterministic driver a run is deterministic.
//! 2. An operation starts when it is called, not when it is first polled. A dropped operation continues, and its
//!    memory is released when it completes.
//! 3. There are no wakers: a leaf future records the task that polls it, and the executor makes that task ready.
//!    Spurious polls are allowed, so every leaf future checks its own state.

mod channel;
mod contained;
mod driver;
mod executor;
mod idle;
mod semaphore;
mod sync;
mod watermark;

pub use channel::{Receiver, Sender, channel};
pub use contained::Contained;
pub use driver::{Completion, Data, DeviceId, Driver, IoError, Notifier, Op, Request, SLICES_MAX};
pub use executor::{Boxed, Io, JoinHandle, Rt, Sleep};
pub use idle::IdleDriver;
pub use semaphore::{Permit, Semaphore};
pub use sync::{Notified, Notify};
pub use watermark::{Reached, Watermark};

#[cfg(test)]
mod contained_test;
#[cfg(test)]
mod executor_test;
#[cfg(test)]
mod watermark_test;
