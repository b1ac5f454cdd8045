//! A run as plain data. Everything that happens in a run follows from its script. A script can be shortened, printed,
//! stored, and run again.

mod text;

use crate::store::Shape;
use serde::{Deserialize, Serialize};
use tonearm_base::Nanos;
use tonearm_world::Fault;

/// A whole run.
#[derive(Clone, PartialEq, Debug)]
pub struct Script {
    /// The store.
    pub shape: Shape,
    /// The storage has an ordered write cache, and the store is opened for one.
    pub ordered: bool,
    /// The model of the drives. None: drives with random latencies.
    pub model: Option<Model>,
    /// The generations. Each starts from the result of the one before.
    pub generations: Vec<Generation>,
}

/// A model of the drives.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Model {
    /// Name of a drive of the library.
    pub name: String,
    /// The write caches of the drives are on.
    pub write_cache: bool,
}

/// The run of a store from its opening to its end.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Generation {
    /// Seed of the world's latencies and of the power cuts.
    pub seed: u64,
    /// Memory budget in bytes.
    pub memory_bytes: u64,
    /// Recovery writes everything home before the store is served.
    pub write_back_on_recovery: bool,
    /// Age at which blocks are written home.
    #[serde(rename = "write_back_after_ns", with = "tonearm_world::nanos")]
    pub write_back_after: Nanos,
    /// Writes are acknowledged only when they are durable.
    pub ack_write: bool,
    /// Time for which commits that are not awaited are delayed.
    #[serde(rename = "commit_delay_ns", with = "tonearm_world::nanos")]
    pub commit_delay: Nanos,
    /// The faults of the drives.
    #[serde(skip)]
    pub faults: Vec<Fault>,
    /// The operations of each client, in order.
    #[serde(skip)]
    pub clients: Vec<Vec<Op>>,
    /// How the generation ends.
    pub end: End,
}

/// How a generation ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// The store is closed in order.
    Close,
    /// The power is cut at this step of its I/O, or, if there are fewer steps, when all clients have ended.
    Cut(u64),
}

/// One operation of a client. Volumes are given by number, see [`volume_name`]. Offsets, lengths and sizes are in
/// bytes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // the fields' names say all
pub enum Op {
    /// Writes the content of the stamp.
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
    /// Reads a range and compares it with the model.
    Read { volume: u8, offset: u64, len: u64 },
    /// Makes all commits durable.
    Flush,
    /// Creates a volume.
    Create { volume: u8, size: u64 },
    /// Deletes a volume.
    Delete { volume: u8 },
    /// Changes a volume's size.
    Resize { volume: u8, size: u64 },
    /// Sleeps for some microseconds.
    Sleep { us: u64 },
    /// Scrubs the store.
    Scrub,
}

/// Name of volume `number`. Number 0 is the volume that every store has.
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
    /// Number of operations of all clients in all generations.
    pub fn operations(&self) -> usize {
        let clients = self.generations.iter().flat_map(|g| &g.clients);
        clients.map(Vec::len).sum()
    }

    /// True when a drive may lie in this run. The model then keeps every content that a block has had.
    pub fn has_lies(&self) -> bool {
        let mut faults = self.generations.iter().flat_map(|g| &g.faults);
        faults.any(|fault| fault.kind.is_lie())
    }
}
