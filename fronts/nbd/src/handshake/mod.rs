//! The server's side of the fixed newstyle handshake.
//!
//! [`Negotiation`] is a state machine without I/O; [`drive`] runs it over any
//! `Read + Write` stream. The stream brings its own deadline: a read that takes
//! too long returns an error of kind `TimedOut`.
//!
//! ```text
//!            client flags        header          data complete
//!   greeting ------------> idle --------> data ---------------> reply, idle
//!                           ^  \                                STARTTLS: reset, idle
//!                           |   \ data refused                  GO, EXPORT_NAME: transmission
//!                           |    v                              ABORT: closed
//!                           +-- discard (reply when drained)
//! ```

mod close;
mod drive;
mod negotiation;
mod replies;

pub use close::Close;
pub use drive::{HandshakeError, drive};
pub use negotiation::{
    DISCARD_BYTES_MAX, Negotiation, OPTION_BYTES_MAX, OPTIONS_MAX, Selection, Step, TlsPolicy,
};

#[cfg(test)]
mod drive_test;
#[cfg(test)]
mod hostile_test;
#[cfg(test)]
mod negotiation_test;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tls_policy_test;
