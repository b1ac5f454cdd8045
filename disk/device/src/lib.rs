//! Block devices as the engine sees them: something of a size that reads, writes and flushes.
//!
//! At the bottom is a [`RawDevice`] over the executor's driver. A [`Filter`] wraps a device and is a device itself,
//! so filters stack: [`FlushFence`] fails every flush after a failed one. [`stack`] puts them together for
//! a store. A [`Section`] is a part of a device.
//! An [`Overlay`] keeps what is written in memory. [`raid`] combines several devices into
//! one. [`Events`] is the list of what happens to drives and store. A [`Pace`] keeps work on a whole store to a rate. Filters for tests, and the suite that every device must pass, are in `tonearm_world`.

mod cached;
mod device;
mod events;
mod fence;
mod ordered;
mod overlay;
mod pace;
pub mod raid;
mod raw;
mod section;
pub mod stack;

pub use device::{
    ArrayFuture, Device, DeviceIo, DirtyRanges, Filter, Known, OnProgress, Redundancy,
    RepairOutcome, Verifier, at_once, span,
};
pub use events::{EventClass, Events, KEPT as EVENTS_KEPT, StoreEvent, Unseen};
pub use fence::FlushFence;
pub use overlay::Overlay;
pub use pace::{ByteRate, Pace};
pub use raw::RawDevice;
pub use section::Section;
