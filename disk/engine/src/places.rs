//! What the log names by its place alone: the content of indirect writes, as a recovery finds it.

use crate::error::EngineError;
use std::iter::Peekable;
use tonearm_base::{Lsn, Slice};
use tonearm_format::EntryKind;
use tonearm_layout::Home;
use tonearm_trail::RecoveredChange;

/// Most blocks of one read.
const RUN_MAX: usize = 256;

/// Blocks whose contents lie side by side.
pub(crate) struct Run {
    place: u64,
    /// Number and CRC-32C of each.
    pub blocks: Vec<(u64, u32)>,
}

impl Run {
    /// `first` and the changes that follow at once and whose contents lie after it, which are taken out of `rest`. `None` when
    /// `first` is no indirect write.
    pub fn of(
        first: &RecoveredChange,
        rest: &mut Peekable<impl Iterator<Item = RecoveredChange>>,
    ) -> Option<Self> {
        let placed = |change: &RecoveredChange| match change.kind {
            EntryKind::Indirect { place, crc } => Some((place, (change.block, crc))),
            _ => None,
        };
        let (place, block) = placed(first)?;
        let mut blocks = vec![block];
        let follows = |next: &RecoveredChange, count: usize| {
            placed(next).is_some_and(|(at, _)| at == place + count as u64)
        };
        while blocks.len() < RUN_MAX
            && let Some(next) = rest.next_if(|next| follows(next, blocks.len()))
        {
            blocks.extend(placed(&next).map(|(_, block)| block));
        }
        Some(Self { place, blocks })
    }

    /// The blocks one by one.
    pub fn singly(self) -> impl Iterator<Item = Self> {
        let blocks = (self.place..).zip(self.blocks);
        blocks.map(|(place, block)| Self {
            place,
            blocks: vec![block],
        })
    }

    /// Their content.
    ///
    /// # Errors
    /// When it is damaged or cannot be read ([`EngineError::IndirectLost`]), or the home has no such places.
    pub async fn content(&self, home: &dyn Home, lsn: Lsn) -> Result<Slice, EngineError> {
        let Some(indirect) = home.indirect() else {
            let (block, size_blocks) = (self.blocks[0].0, home.shape().size_blocks);
            return Err(EngineError::ForeignCommit { block, size_blocks });
        };
        let content = indirect.read(self.place, self.blocks.clone()).await;
        content.map_err(|error| EngineError::IndirectLost { lsn, error })
    }
}
