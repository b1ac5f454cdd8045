//! Listening sockets, and what happens to a connection before it is served.
//!
//! ```text
//! Listener -> acceptor thread -> handshake thread -> on_accept(Accepted)
//!             one per listener   one per connection,  plain: the thread ends
//!             waits for a slot   bounded, deadline    TLS: the thread pumps
//! ```
//!
//! Invariants:
//!
//! 1. At most `handshakes_max` handshakes and `connections_max` connections
//!    are open. A connection counts from its acceptance until its
//!    [`ConnectionGuard`] and its TLS pump are gone.
//! 2. A client that sends nothing holds a slot only until another client needs it, and never longer than the handshake
//!    timeout.
//! 3. After [`Server::stop`] returns nothing is accepted or delivered.

mod accept;
mod gate;
mod serve;
mod slots;
mod socket;
mod timed;
mod unix;

pub use accept::{Counts, ListenConfig, Server};
pub use gate::ConnectionGuard;
pub use serve::{Accepted, Client};
pub use socket::{ListenAddress, ListenError, Listener};

#[cfg(test)]
mod clients_test;
#[cfg(test)]
mod server_test;
#[cfg(test)]
mod slots_test;
#[cfg(test)]
mod socket_test;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tls_test;
