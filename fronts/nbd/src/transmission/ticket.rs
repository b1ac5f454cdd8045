//! A request's place among those that are not yet answered.

use super::metrics::CommandKind;
use super::payer::Payer;
use tonearm_base::Nanos;

/// Made when a request is admitted or refused; counted out when its reply has been sent or thrown
/// away.
pub(super) struct Ticket {
    pub cookie: u64,
    pub kind: CommandKind,
    /// Length of the request's range in bytes.
    pub bytes: u32,
    pub failed: bool,
    /// When its header was received.
    pub arrived: Nanos,
    /// Bytes that its reply may take.
    pub reply_bytes: u64,
    /// What pays for them.
    pub payer: Payer,
}
