//! Limits and times of the transmission phase.

use base::Nanos;

/// How connections are served.
#[derive(Clone, Copy, Debug)]
pub struct TransmissionOptions {
    /// Longest time in which a client may take to send the rest of a request (of a large payload:
    /// each MiB), or to take replies (each batch of at most a MiB). Watched in quarters: a cut may come
    /// a quarter later. Between requests a client may be silent for ever.
    pub stall_timeout: Nanos,
    /// Most requests of one connection that are not yet answered.
    pub requests_max: u64,
    /// Most bytes of replies, made or in the making, of one connection. A single larger reply passes
    /// alone.
    pub reply_bytes_max: u64,
    /// Most bytes of replies of all connections together.
    pub total_reply_bytes_max: u64,
    /// Most bytes of payloads over a MiB in reception, of all connections together: at most half of the
    /// store's memory, or clients that announce much and send nothing would keep all others from writing.
    pub large_payload_bytes_max: u64,
}

impl Default for TransmissionOptions {
    fn default() -> Self {
        Self {
            stall_timeout: Nanos::from_secs(60),
            requests_max: 256,
            reply_bytes_max: 32 << 20,
            total_reply_bytes_max: 256 << 20,
            large_payload_bytes_max: 128 << 20,
        }
    }
}
