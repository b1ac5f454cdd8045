//! The real `tonearm_rt::Driver`: an io_uring with the files and sockets that it serves, and the opening of store
//! members.
//!
//! This crate holds all `unsafe` code of the project that calls the kernel. Its safety argument: the driver owns
//! the memory of a request, in a slot beside the request, from the submission until the kernel has reported the
//! end. The driver is not dropped before that either.

mod calls;
mod devices;
mod driver;
mod fd;
mod fork;
mod lock;
mod medium;
mod member;
mod memory;
mod operation;
mod reads;
mod ublk;
mod unix_socket;

pub use calls::{Call, Calls, MadeCall, RingWatch};
pub use devices::{EventSender, UringHandle};
pub use driver::{UringDriver, UringError};
pub use fd::inherited_listeners;
pub use fork::{NotForChildren, forks};
pub use lock::Lock;
pub use medium::{Medium, refuse_devices};
pub use member::{Create, Member, MemberError, MemberKind, MemberOptions, PathText, open_member};
pub use memory::lock_memory;
pub use ublk::{UblkControl, UblkDescriptors};
pub use unix_socket::{SocketPath, bind_unix, connect_unix};

#[cfg(test)]
mod calls_test;
#[cfg(test)]
mod channel_test;
#[cfg(test)]
mod driver_test;
#[cfg(test)]
mod fd_test;
#[cfg(test)]
mod member_test;
#[cfg(test)]
mod reads_test;
#[cfg(test)]
mod ublk_test;
#[cfg(test)]
mod unix_socket_test;
