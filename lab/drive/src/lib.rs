//! Models of drives in virtual time.
//!
//! [`Drive`] gives the times of one drive, mechanical or flash, as a [`tonearm_drive_file::DriveSpec`] describes it. It
//! is a [`tonearm_world::Timing`], for drives of a simulated world.

mod buffer;
mod bus;
mod closed_loop;
mod demerit;
mod disk;
mod drive;
mod flash;
mod mechanism;
mod media_cache;
mod overhead;
mod queue;
mod rotation;
mod seek;
mod timing;
mod write_cache;

pub use closed_loop::ClosedLoop;
pub use demerit::{Demerit, per_request_rms_ms};
pub use disk::Disk;
pub use drive::{Drive, DriveOptions};
pub use mechanism::{Arm, Mechanism, Run};
pub use rotation::{Drift, Rotation};
pub use seek::Seek;
