//! Which errors and wrong results a drive's faults excuse.
//!
//! A store keeps one copy of each block at home, and one log. The table shows what may happen after a fault:
//!
//! | the fault | while it lasts | after a restart |
//! | --- | --- | --- |
//! | slow, stuck for a while | nothing: waits | nothing |
//! | full, failed, failed flush | errors; read-only until opened again | nothing: all that was acknowledged is there |
//! | latent sector error, bit rot | errors of the blocks concerned | the same, or the opening is refused |
//! | lost, misdirected write; lying flush; stale, misdirected read | the same | the same, or blocks of an earlier version |
//!
//! The last row lists what a single copy cannot detect. A drive that returns an old version of a checksum table
//! together with the old blocks, or of the log's last record, looks exactly as it did earlier. Rot in the log's last
//! record looks like a write that a power cut tore, so it belongs to the last row too. No fault excuses content that no
//! block has ever had.

use crate::store::Shape;
use std::rc::Rc;
use tonearm_format::HEADER_AREA_BYTES;
use tonearm_world::{FaultKind, SimWorld, Struck};

/// What the faults that have struck so far excuse.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Blame {
    /// Operations may fail.
    pub errors: bool,
    /// Blocks may be unreadable, and the opening may be refused.
    pub damage: bool,
    /// Blocks may have an earlier version.
    pub stale: bool,
}

impl Blame {
    /// What the faults `struck` excuse on a store of this shape.
    pub fn of(struck: &[Struck], shape: &Shape) -> Self {
        let mut blame = Self::default();
        let log =
            HEADER_AREA_BYTES..HEADER_AREA_BYTES + shape.tracks * u64::from(shape.track_bytes);
        for one in struck {
            match one.fault.kind {
                FaultKind::Slow | FaultKind::Stuck => {}
                FaultKind::Full | FaultKind::Failed | FaultKind::FailedFlush => blame.errors = true,
                FaultKind::LatentError => (blame.errors, blame.damage) = (true, true),
                FaultKind::BitRot => {
                    (blame.errors, blame.damage) = (true, true);
                    blame.stale |= one.fault.drive == 0 && log.contains(&one.offset);
                }
                FaultKind::LostWrite
                | FaultKind::MisdirectedWrite
                | FaultKind::MisdirectedRead
                | FaultKind::StaleRead
                | FaultKind::LyingFlush => {
                    (blame.errors, blame.damage, blame.stale) = (true, true, true);
                }
            }
        }
        blame
    }
}

/// The faults that have struck a store: those of earlier generations with lasting effects, and those of this
/// generation.
#[derive(Clone)]
pub struct Faults {
    before: Rc<[Struck]>,
    world: SimWorld,
}

impl Faults {
    /// The faults of a store that was struck by `before` and now runs in `world`.
    pub fn new(before: &[Struck], world: &SimWorld) -> Self {
        let stays =
            |one: &&Struck| one.fault.kind.is_lie() || one.fault.kind == FaultKind::LatentError;
        Self {
            before: before.iter().filter(stays).copied().collect(),
            world: world.clone(),
        }
    }

    /// All faults that count now.
    pub fn struck(&self) -> Vec<Struck> {
        let mut struck = self.before.to_vec();
        struck.extend(self.world.struck());
        struck
    }
}
