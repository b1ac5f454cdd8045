//! Times as commands print them, and the time of the processor.

use tonearm_base::Nanos;

/// Milliseconds, exactly.
pub fn exact_ms(time: Nanos) -> String {
    format!("{}.{:06}", time.0 / 1_000_000, time.0 % 1_000_000)
}

/// Milliseconds.
pub fn ms(time: Nanos) -> f64 {
    time.0 as f64 / 1e6
}

/// Processor time of this process so far, in seconds.
pub fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
