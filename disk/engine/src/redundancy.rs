//! Arrays after a crash: the log shows where writes to an array may have been interrupted.
//!
//! A power cut while an array writes data and parity may leave parity that does not match the data. The array does not
//! know where, but the store does. Everything that is written to a member is one of these:
//! - a block, a zeroed range or a table of a write-back round: the round's blocks and ranges are in the log until the
//!   round has returned (`tonearm_layout::ParityHome::interrupted`), and a log start that frees them becomes durable only
//!   after that;
//! - a block of the hidden volume for spilled shadows, or its table (`moves.rs`);
//! - a superblock, at the opening and the end of a store;
//! - the log itself, where the array is the log member.
//!
//! So the commits that recovery replays, with that volume, the superblocks and the log, cover every interrupted stripe.
//! Recovery makes their parity right before the new epoch begins, and thus before anything leaves the log. All members are
//! needed for that: when one of them fails before, the store does not open ([`RaidError::Unrecovered`]).

use crate::error::EngineError;
use std::collections::BTreeSet;
use std::rc::Rc;
#[cfg(doc)]
use tonearm_device::raid::RaidError;
use tonearm_device::{Device, DirtyRanges, Redundancy};
use tonearm_format::{EntryKind, SECTOR, SUPERBLOCK_SLOTS, Superblock, superblock_offset};
use tonearm_layout::{Home, ZeroRange};
use tonearm_trail::RecoveredChange;

/// The blocks that the replayed commits change. Kept only for stores with an array that needs it.
pub(crate) struct Footprint {
    wanted: bool,
    blocks: BTreeSet<u64>,
    zeroes: Vec<ZeroRange>,
    /// False when a part of the log was given up: then the array must be compared whole.
    known: bool,
}

impl Footprint {
    /// Nothing yet.
    pub fn new(devices: &[Rc<dyn Device>]) -> Self {
        Self {
            wanted: devices.iter().any(|device| suspect(device).is_some()),
            blocks: BTreeSet::new(),
            zeroes: Vec::new(),
            known: true,
        }
    }

    /// Takes a change that is replayed, of blocks that the store has.
    pub fn add(&mut self, change: &RecoveredChange) {
        if !self.wanted {
            return;
        }
        let mut zero = |count, keep_space| {
            self.zeroes.push(ZeroRange {
                first: change.block,
                count,
                keep_space,
            });
        };
        match change.kind {
            EntryKind::Data { .. }
            | EntryKind::Patch { .. }
            | EntryKind::Move { .. }
            | EntryKind::Indirect { .. } => {
                self.blocks.insert(change.block);
            }
            EntryKind::Trim { count } => zero(count, false),
            EntryKind::Zero { count } => zero(count, true),
        }
    }

    /// True when it is kept.
    pub fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Takes blocks that may have been spilled into.
    pub fn add_spill(&mut self, first: u64, count: u64) {
        self.zeroes.push(ZeroRange {
            first,
            count,
            keep_space: true,
        });
    }

    /// Durable commits may be missing.
    pub fn lose(&mut self) {
        self.known = false;
    }

    /// Makes the parity of all arrays right.
    ///
    /// # Errors
    /// When an array cannot be read or written.
    pub async fn recover(
        self,
        superblock: &Superblock,
        devices: &[Rc<dyn Device>],
        home: &dyn Home,
    ) -> Result<(), EngineError> {
        if !self.wanted {
            return Ok(());
        }
        let Some(parity) = home.parity().filter(|_| self.known) else {
            for array in devices.iter().filter_map(suspect) {
                array.resync(Box::new(|_, _| {})).await?;
            }
            return Ok(());
        };
        let mut of_home = parity.interrupted(self.zeroes, &self.blocks).into_iter();
        for (index, device) in devices.iter().enumerate() {
            let mut interrupted = DirtyRanges::default();
            if superblock.members[index].roles.data {
                interrupted = of_home.next().expect("a home member for each data member");
            }
            let slots =
                (0..SUPERBLOCK_SLOTS).map(|slot| superblock_offset(slot, device.size_bytes()));
            let slots = slots.map(|offset| offset..offset + SECTOR as u64);
            interrupted.changed.extend(slots);
            let log = superblock.log_range(index);
            if !log.is_empty() {
                interrupted.changed.push(log);
            }
            if let Some(array) = suspect(device) {
                let recovered = array.recover(interrupted).await;
                recovered.map_err(|error| EngineError::Redundancy {
                    member: device.name().to_string(),
                    error,
                })?;
            }
        }
        Ok(())
    }
}

/// The redundancy of `device`, if it is suspect.
fn suspect(device: &Rc<dyn Device>) -> Option<&dyn Redundancy> {
    device.redundancy().filter(|array| array.is_suspect())
}
