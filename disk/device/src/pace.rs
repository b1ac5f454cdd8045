//! The pace of work on a whole store, such as a rebuild or a scrub: at most so many bytes in a second.

use std::cell::Cell;
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_rt::Rt;

/// Longest time in which a pause does not see that its work is to end, or that the rate has changed.
const LOOK_EVERY: Nanos = Nanos::from_millis(100);

/// A rate in bytes per second; 0 means no limit. Clones share it, and it may be changed while the work runs.
#[derive(Clone, Debug, Default)]
pub struct ByteRate(Rc<Cell<u64>>);

impl ByteRate {
    /// At most this many bytes a second; 0 means no limit.
    pub fn new(bytes_per_second: u64) -> Self {
        Self(Rc::new(Cell::new(bytes_per_second)))
    }

    /// Changes the rate.
    pub fn set(&self, bytes_per_second: u64) {
        self.0.set(bytes_per_second);
    }

    /// Least time for `bytes`.
    fn span(&self, bytes: u64) -> Nanos {
        let nanos = u128::from(bytes) * 1_000_000_000;
        let span = nanos.checked_div(u128::from(self.0.get())).unwrap_or(0);
        Nanos(u64::try_from(span).unwrap_or(u64::MAX))
    }
}

/// Keeps work to a rate.
pub struct Pace {
    rt: Rt,
    rate: ByteRate,
    /// When the present step began. Time in which earlier steps were slower is not made up for.
    began: Nanos,
}

impl Pace {
    /// Work that begins now.
    pub fn new(rt: &Rt, rate: &ByteRate) -> Self {
        Self {
            rt: rt.clone(),
            rate: rate.clone(),
            began: rt.now(),
        }
    }

    /// Waits until the step that has ended, of `bytes`, was not faster than the rate. Ends early when `goes_on` returns false,
    /// which is asked at least every 100 ms.
    pub async fn pause(&mut self, bytes: u64, mut goes_on: impl FnMut() -> bool) {
        loop {
            // Computed anew, because the rate may have changed.
            let due = Nanos(self.began.0.saturating_add(self.rate.span(bytes).0));
            let now = self.rt.now();
            if now >= due || !goes_on() {
                self.began = now;
                return;
            }
            self.rt.sleep_until(due.min(now + LOOK_EVERY.0)).await;
        }
    }
}
