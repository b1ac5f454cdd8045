//! The consumer of the paper on atomic recovery units: a Minix file system over the Logical Disk, with one list a file (ARU 5.1,
//! "MinixLLD").

mod file_system;
mod logical_disk;
mod sequential;

pub use file_system::{Deletion, FileError, FileSystem, ROOT};
pub use logical_disk::{LogicalDisk, Unit, reserve_blocks};
pub use sequential::Sequential;
