//! A run as plain data: everything that happens in it follows from its script, and the script can be made
//! shorter, printed, kept, and run again.

mod text;

use crate::store::Shape;
use tonearm_base::Nanos;
use tonearm_world::{Fault, FaultKind};

/// A whole run.
#[derive(Clone, PartialEq, Debug)]
pub struct Script {
    /// The store.
    pub shape: Shape,
    /// The storage keeps what it has taken, and the store knows it.
    pub ordered: bool,
    /// The model of the drives; without it they have random latencies.
    pub model: Option<Model>,
    /// Runs in a row, each on what the one before has left.
    pub generations: Vec<Generation>,
}

/// Drives of a model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Model {
    /// Name of a drive of the library.
    pub name: String,
    /// Their write caches are on.
    pub write_cache: bool,
}

/// One opening of the store to its end.
#[derive(Clone, PartialEq, Debug)]
pub struct Generation {
    /// Seed of the world's times and of the power cuts.
    pub seed: u64,
    /// Bound of memory, in bytes.
    pub memory_bytes: u64,
    /// Everything is written home before the store is served.
    pub write_back_on_recovery: bool,
    /// Age at which blocks are written home.
    pub write_back_after: Nanos,
    /// Writes are acknowledged when they are durable.
    pub ack_write: bool,
    /// How long commits that nobody waits for stay in memory.
    pub linger: Nanos,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// What each client does, in turn.
    pub clients: Vec<Vec<Op>>,
    /// How it ends.
    pub end: End,
}

/// How a generation ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// In order.
    Close,
    /// By a power cut at this step of its I/O, or, if there are fewer, when all clients are done.
    Cut(u64),
}

/// One operation of a client. Volumes are numbers: see [`volume_name`].
/// Offsets, lengths and sizes are in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // the fields' names say all
pub enum Op {
    /// Writes bytes that follow from the stamp.
    Write {
        volume: u8,
        offset: u64,
        len: u64,
        stamp: u64,
        durable: bool,
    },
    /// Zeroes a range.
    Zero {
        volume: u8,
        offset: u64,
        len: u64,
        keep: bool,
        durable: bool,
    },
    /// Trims a range.
    Trim {
        volume: u8,
        offset: u64,
        len: u64,
        durable: bool,
    },
    /// Reads and compares.
    Read { volume: u8, offset: u64, len: u64 },
    /// Makes everything durable.
    Flush,
    /// Makes a volume.
    Create { volume: u8, size: u64 },
    /// Deletes a volume.
    Delete { volume: u8 },
    /// Changes a volume's size.
    Resize { volume: u8, size: u64 },
    /// Waits, in microseconds.
    Sleep { us: u64 },
    /// Verifies every block.
    Scrub,
}

/// Name of volume `number`; 0 is the one that every store has.
pub fn volume_name(number: u8) -> String {
    match number {
        0 => "main".into(),
        _ => format!("v{number}"),
    }
}

/// Number of the volume `name`.
pub fn volume_number(name: &str) -> Option<u8> {
    match name {
        "main" => Some(0),
        _ => name.strip_prefix('v')?.parse().ok().filter(|n| *n > 0),
    }
}

impl Script {
    /// Operations of all clients in all generations.
    pub fn operations(&self) -> usize {
        let clients = self.generations.iter().flat_map(|g| &g.clients);
        clients.map(Vec::len).sum()
    }

    /// True when a drive may lie in this run: the model keeps every content that a block has had.
    pub fn has_lies(&self) -> bool {
        let mut faults = self.generations.iter().flat_map(|g| &g.faults);
        faults.any(|fault| fault.kind.is_lie())
    }

    /// True when one of the faults is of `kind`.
    pub fn has(&self, kind: FaultKind) -> bool {
        let mut faults = self.generations.iter().flat_map(|g| &g.faults);
        faults.any(|fault| fault.kind == kind)
    }
}
