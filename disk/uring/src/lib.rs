//! The real world behind `tonearm_rt::Driver`: one io_uring, the files and sockets it serves, and the opening
//! of store members.
//!
//! The crate holds all of the project's `unsafe` that speaks to the kernel. Its one safety argument:
//! memory named by a request belongs to the driver, in a slot beside the request, from the submission
//! until the kernel has reported the end; the driver does not go before that either.

mod aside;
mod devices;
mod driver;
mod fd;
mod fork;
mod lock;
mod member;
mod operation;

pub use aside::{Aside, Call};
pub use devices::{EventSender, UringHandle};
pub use driver::{UringDriver, UringError};
pub use fd::inherited_listeners;
pub use fork::{NotForChildren, forks};
pub use lock::Lock;
pub use member::{Create, Member, MemberError, MemberKind, MemberOptions, PathText, open_member};

#[cfg(test)]
mod aside_test;
#[cfg(test)]
mod driver_test;
#[cfg(test)]
mod fd_test;
#[cfg(test)]
mod member_test;
