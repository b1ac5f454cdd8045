//! How the devices of a store are put together, whether the driver is the kernel's or a simulated one. From the bottom:
//!
//! 1. a device of the driver: [`RawDevice`](crate::RawDevice), and [`through_cache`] where I/O does not bypass the page cache;
//! 2. on an array: the part of each member that holds stripes ([`Section`](crate::Section)), and RAID-0 or RAID-5 over these
//!    ([`raid`](crate::raid));
//! 3. over each member of the store, be it a device or an array: what [`build`] adds.

use crate::cached::Cached;
use crate::device::Device;
use crate::fence::FlushFence;
use crate::ordered::Ordered;
use std::rc::Rc;

/// What is known of the storage of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Storage {
    /// It keeps writes and their order over a power cut, by the administrator's word: no flushes are sent.
    pub ordered: bool,
}

/// `member` as an open store uses it.
pub fn build(member: Rc<dyn Device>, storage: Storage) -> Rc<dyn Device> {
    let fenced = Rc::new(FlushFence::new(member));
    if storage.ordered {
        Rc::new(Ordered(fenced))
    } else {
        fenced
    }
}

/// `file`, which is written through the kernel's page cache: a durable write ends when it is written and flushed.
pub fn through_cache(file: Rc<dyn Device>) -> Rc<dyn Device> {
    Rc::new(Cached(file))
}
