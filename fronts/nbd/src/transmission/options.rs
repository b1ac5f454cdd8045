//! Limits and times of the transmission phase.

use tonearm_base::Nanos;

/// How connections are served.
#[derive(Clone, Copy, Debug)]
pub struct TransmissionOptions {
    /// Longest time that a client may take to send the rest of a request (of a large payload: each MiB), or to take
    /// replies (each batch of at most a MiB). It is checked in quarters, so a cut may come a quarter later. Between
    /// requests a client may be silent for ever.
    pub stall_timeout: Nanos,
    /// Most requests of one connection that are not yet answered.
    pub requests_max: u64,
    /// As `stall_timeout`, while other clients wait for the memory that the request or the replies hold. The clients
    /// that have stalled for longest are cut first, as many as are needed.
    pub shortage_timeout: Nanos,
    /// Most bytes of replies of one connection, made or being made. A single larger reply is possible while there is no
    /// other.
    pub reply_bytes_max: u64,
    /// Bytes of replies that only this connection may use, without waiting for others.
    pub reply_bytes_own: u64,
    /// Most bytes of replies of all connections together, beyond their own ones: one half for replies over a MiB, one
    /// for the others.
    pub total_reply_bytes_max: u64,
    /// Most bytes of payloads of 64 KiB and more that are being received, of all connections together. One payload may
    /// always be received.
    pub partial_payload_bytes_max: u64,
}

impl Default for TransmissionOptions {
    fn default() -> Self {
        Self {
            stall_timeout: Nanos::from_secs(60),
            requests_max: 256,
            shortage_timeout: Nanos::from_secs(5),
            reply_bytes_max: 32 << 20,
            reply_bytes_own: 64 << 10,
            // Together with the own bytes of 1024 connections: 256 MiB.
            total_reply_bytes_max: 192 << 20,
            partial_payload_bytes_max: 64 << 20,
        }
    }
}
