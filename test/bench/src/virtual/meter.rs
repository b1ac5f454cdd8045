//! Processor time of this process.

use rustix::time::{ClockId, clock_gettime};

/// Processor time of this process so far, in nanoseconds.
pub fn cpu_ns() -> u64 {
    ns(ClockId::ProcessCPUTime)
}

/// Monotonic time in nanoseconds. Reading it costs less than reading processor time.
pub fn wall_ns() -> u64 {
    ns(ClockId::Monotonic)
}

fn ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
