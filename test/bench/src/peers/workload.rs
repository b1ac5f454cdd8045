//! The workloads, and the ratio to the peers that Tonearm must reach in each.

use crate::server::Kind;

/// What generates the load.
#[derive(Clone, Copy)]
pub enum Load {
    /// fio's nbd engine with these arguments.
    Fio(&'static [&'static str]),
    /// fio, until the whole target was read once or the time is up. No block is read twice.
    FioOnce(&'static [&'static str]),
    /// The client of this crate: this many writes of 4 KiB at once, their replies, then a flush. (With `fsync=32` and a
    /// queue depth fio sends a flush for every few writes, not for every 32.)
    Batches(usize),
    /// As [`Load::Batches`], by the driver of a guest over shared memory.
    Guest(usize),
    /// The client of this crate: one FUA write at a time.
    Fua,
}

/// Duration of a sample.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// `--seconds`.
    Normal,
    /// `--sustained-seconds`.
    Sustained,
}

/// One workload.
pub struct Workload {
    /// Name on the command line.
    pub name: &'static str,
    /// Description.
    pub title: &'static str,
    /// What generates the load.
    pub load: Load,
    /// Duration of a sample.
    pub span: Span,
    /// Least ratio to the better peer, or none if the workload has no target.
    pub target: Option<f64>,
    /// Caches are dropped before the sample.
    pub cold: bool,
    /// qemu-nbd also runs with `--aio=native`, which is faster for it with one client.
    pub native_too: bool,
}

impl Workload {
    /// The workload of this name.
    pub fn named(name: &str) -> &'static Self {
        let mut all = WORKLOADS.iter();
        all.find(|workload| workload.name == name)
            .expect("there is such a workload")
    }

    /// The servers that run this workload.
    pub fn servers(&self) -> Vec<Kind> {
        let mut servers = vec![Kind::Tonearm, Kind::Nbdkit, Kind::QemuUring];
        if self.native_too {
            servers.push(Kind::QemuNative);
        }
        servers
    }
}

/// What most workloads have.
pub const BASE: Workload = Workload {
    name: "",
    title: "",
    load: Load::Fua,
    span: Span::Normal,
    target: None,
    cold: false,
    native_too: false,
};

/// All workloads. A rate is in requests a second. For requests of 1 MiB that is MiB/s.
pub const WORKLOADS: &[Workload] = &[
    Workload {
        name: "flush-1",
        title: "4K random write + flush, 1 client",
        load: Load::Fio(&["--rw=randwrite", "--bs=4k", "--iodepth=1", "--fsync=1"]),
        target: Some(1.3),
        native_too: true,
        ..BASE
    },
    Workload {
        name: "fua-1",
        title: "4K random FUA write, 1 client",
        load: Load::Fua,
        native_too: true,
        ..BASE
    },
    Workload {
        name: "flush-8",
        title: "4K random write + flush, 8 clients",
        load: Load::Fio(&[
            "--rw=randwrite",
            "--bs=4k",
            "--iodepth=1",
            "--fsync=1",
            "--numjobs=8",
        ]),
        target: Some(2.0),
        ..BASE
    },
    Workload {
        name: "batch-32",
        title: "4K random write, 32 at once, then a flush",
        load: Load::Batches(32),
        target: Some(2.0),
        native_too: true,
        ..BASE
    },
    Workload {
        name: "write-32",
        title: "4K random write over 200 MiB, depth 32, no flush",
        load: Load::Fio(&["--rw=randwrite", "--bs=4k", "--iodepth=32", "--size=200m"]),
        target: Some(1.0),
        ..BASE
    },
    Workload {
        name: "sustained-32",
        title: "4K random write over 1 GiB, depth 32, sustained",
        load: Load::Fio(&["--rw=randwrite", "--bs=4k", "--iodepth=32"]),
        span: Span::Sustained,
        target: Some(0.7),
        ..BASE
    },
    Workload {
        name: "read-1",
        title: "4K random read, depth 1, cold",
        load: Load::FioOnce(&["--rw=randread", "--bs=4k", "--iodepth=1"]),
        target: Some(1.0),
        cold: true,
        native_too: true,
        ..BASE
    },
    Workload {
        name: "read-32",
        title: "4K random read, depth 32, cold",
        load: Load::FioOnce(&["--rw=randread", "--bs=4k", "--iodepth=32"]),
        target: Some(1.0),
        cold: true,
        ..BASE
    },
    Workload {
        name: "seq-write",
        title: "1M sequential write, depth 8 (MiB/s)",
        load: Load::Fio(&["--rw=write", "--bs=1m", "--iodepth=8"]),
        target: Some(0.9),
        ..BASE
    },
    Workload {
        name: "seq-read",
        title: "1M sequential read, depth 8, cold (MiB/s)",
        load: Load::FioOnce(&["--rw=read", "--bs=1m", "--iodepth=8"]),
        target: Some(0.9),
        cold: true,
        ..BASE
    },
];
