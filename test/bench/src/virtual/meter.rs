//! Processor time and memory of this process.

use rustix::time::{ClockId, clock_gettime};
use std::fs;

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

/// Largest resident memory of this process so far, in bytes.
pub fn peak_rss_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|kib| kib.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}
