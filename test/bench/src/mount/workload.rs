//! The workloads and their targets.

use crate::contender::Kind;

/// What a workload does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// Deletes, creates, appends, syncs and reads files of a directory.
    Mail,
    /// Makes many small files without a sync.
    SmallFiles,
    /// Writes a file by 1 MiB and syncs it.
    SequentialWrite,
    /// Reads a file by 1 MiB that is in no cache.
    SequentialRead,
    /// Overwrites 4 KiB at random places, with a sync after each.
    Overwrite,
}

/// A workload.
pub struct Workload {
    /// Name on the command line.
    pub name: &'static str,
    /// Description.
    pub title: &'static str,
    /// What a rate counts.
    pub unit: &'static str,
    /// What it does.
    pub load: Load,
    /// Threads that do it.
    pub threads: u64,
    /// Least ratio of Tonearm's rate to that of a peer.
    pub targets: &'static [(Kind, f64)],
}

/// All workloads.
pub const WORKLOADS: &[Workload] = &[
    Workload {
        name: "varmail",
        title: "as varmail of filebench: delete; create, write 16 KiB, fsync; read, append 16 KiB, fsync; read; 16 threads",
        unit: "rounds/s",
        load: Load::Mail,
        threads: 16,
        targets: &[(Kind::Ext4, 1.5)],
    },
    Workload {
        name: "small-files",
        title: "as tar does: directories of 100 files of 1 to 8 KiB, their times set, no fsync",
        unit: "files/s",
        load: Load::SmallFiles,
        threads: 1,
        targets: &[(Kind::Ext4, 0.5), (Kind::Passthrough, 1.5)],
    },
    Workload {
        name: "seq-write",
        title: "a new file, written by 1 MiB, and an fsync at its end; the second one since the mount",
        unit: "MiB/s",
        load: Load::SequentialWrite,
        threads: 1,
        targets: &[(Kind::Passthrough, 0.7)],
    },
    Workload {
        name: "seq-read",
        title: "a file that is in no cache, read by 1 MiB",
        unit: "MiB/s",
        load: Load::SequentialRead,
        threads: 1,
        targets: &[(Kind::Passthrough, 0.7)],
    },
    Workload {
        name: "overwrite-1",
        title: "4 KiB overwritten at random in a file of 64 MiB, an fsync after each",
        unit: "writes/s",
        load: Load::Overwrite,
        threads: 1,
        targets: &[(Kind::Ext4, 1.2)],
    },
    Workload {
        name: "overwrite-8",
        title: "the same by 8 threads, each in a file of its own",
        unit: "writes/s",
        load: Load::Overwrite,
        threads: 8,
        targets: &[(Kind::Ext4, 1.2)],
    },
];
