//! The workloads, and what Tonearm is to reach in each.

use crate::server::Kind;

/// What makes the load.
#[derive(Clone, Copy)]
pub enum Load {
    /// fio's nbd engine with these arguments.
    Fio(&'static [&'static str]),
    /// fio, until the whole target was read once or the time is up: every read is the block's first.
    FioOnce(&'static [&'static str]),
    /// Our own client: so many writes of 4 KiB at once, their replies, then a flush. (fio's `fsync=32`
    /// sends a flush for every few writes at depth, not for every 32.)
    Batches(usize),
    /// Our own client: one write with FUA at a time.
    Fua,
}

/// How long a sample takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// `--seconds`.
    Normal,
    /// `--sustained-seconds`.
    Sustained,
}

/// One workload.
pub struct Workload {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is.
    pub title: &'static str,
    /// What makes it.
    pub load: Load,
    /// For how long.
    pub span: Span,
    /// Least ratio to the better peer; none where it is only for information.
    pub target: Option<f64>,
    /// Caches are dropped before.
    pub cold: bool,
    /// qemu-nbd runs with `--aio=native`, too: its better way with one client.
    pub native_too: bool,
}

impl Workload {
    /// The servers that take part.
    pub fn servers(&self) -> Vec<Kind> {
        let mut servers = vec![Kind::Tonearm, Kind::Nbdkit, Kind::QemuUring];
        if self.native_too {
            servers.push(Kind::QemuNative);
        }
        servers
    }
}

const BASE: Workload = Workload {
    name: "",
    title: "",
    load: Load::Fua,
    span: Span::Normal,
    target: None,
    cold: false,
    native_too: false,
};

/// All of them. A rate is in requests of a second; for 1-MiB requests that is MiB/s.
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
