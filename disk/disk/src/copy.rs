//! Copies a store into a new one that has another layout, redundancy or log (`tonearm relayout`).
//!
//! The copy may end at any moment, and be begun again: what both stores have alike is not written again. Until it is
//! whole, one volume ([`UNFINISHED`]) takes all space of the target, so that nobody makes a volume on parts of a copy.
//! The volume table comes last, in one commit, which also removes that volume. Each block has the same number in both
//! stores, so whatever refers to blocks by their numbers stays right.

use crate::disk::Disk;
use crate::error::DiskError;
use tonearm_base::Slice;
use tonearm_engine::{CommitChange, Engine};
use tonearm_format::{SYSTEM_BLOCKS, Uuid};
use tonearm_layout::Piece;

/// Name of the volume that takes all space of a target until the copy is whole.
pub const UNFINISHED: &str = "unfinished-copy";

/// Bytes that are read and compared at a time.
const STEP_BYTES: u64 = 1 << 20;

/// What a copy has done.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Copied {
    /// Blocks with content that the target did not have.
    pub blocks: u64,
    /// Blocks that the target had from an earlier copy, which was interrupted.
    pub same: u64,
}

impl Disk {
    /// Copies everything into `target`, a store without volumes, or one in which an earlier copy has ended before its
    /// time. Nothing else may use the two stores meanwhile. The target has to be closed then: what it knows of its
    /// volumes is out of date. `uuid` and `now` are for the volume of an unfinished copy; `progress` gets the blocks
    /// that are done, and of how many.
    ///
    /// # Errors
    /// When the target has volumes, has blocks of another size or too few, or either store fails.
    pub async fn copy_to(
        &self,
        target: &Disk,
        uuid: Uuid,
        now: u64,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Copied, DiskError> {
        self.check_target(target)?;
        if target.core().table().volumes.is_empty() {
            let all = target.free_bytes();
            target.create_volume(UNFINISHED, all, uuid, now).await?;
        }
        // Buffers in memory are charged to the source.
        self.engine().drain().await?;
        let (from, to) = (self.engine(), target.engine());
        let step = STEP_BYTES / to.block_size() as u64;
        // Half of the log's largest commit is left for holes.
        let step = step.min(to.commit_blocks_max() / 2).max(1);
        let (mut copied, end) = (Copied::default(), to.size_blocks());
        for first in (SYSTEM_BLOCKS..end).step_by(step as usize) {
            copied.add(copy(from, to, first, step.min(end - first)).await?);
            progress(first, end);
        }
        to.flush().await?;
        copy(from, to, 0, SYSTEM_BLOCKS).await?;
        to.flush().await?;
        progress(end, end);
        Ok(copied)
    }

    fn check_target(&self, target: &Disk) -> Result<(), DiskError> {
        let (from, to) = (self.engine(), target.engine());
        let refuse = |why: String| Err(DiskError::CopyTarget(why));
        if from.block_size() != to.block_size() {
            return refuse(format!(
                "its blocks have {} bytes, those of the source {}",
                to.block_size(),
                from.block_size()
            ));
        }
        if from.size_blocks() > to.size_blocks() {
            return refuse(format!(
                "it has {} blocks, the source {}",
                to.size_blocks(),
                from.size_blocks()
            ));
        }
        let volumes = self.core().table().volumes.len() as u64;
        if !to.fits(volumes, SYSTEM_BLOCKS) {
            return refuse(format!(
                "its log is too small for {volumes} volumes at once"
            ));
        }
        let table = target.core().table();
        match table.volumes.keys().find(|name| *name != UNFINISHED) {
            Some(name) => refuse(format!("it has {name:?}, and a copy would overwrite it")),
            None => Ok(()),
        }
    }
}

impl Copied {
    fn add(&mut self, more: Self) {
        self.blocks += more.blocks;
        self.same += more.same;
    }
}

/// Makes `count` blocks from `first` on alike, in one commit. Beyond the end of `from` they become holes.
async fn copy(from: &Engine, to: &Engine, first: u64, count: u64) -> Result<Copied, DiskError> {
    let block_size = to.block_size();
    let there = from.size_blocks().saturating_sub(first).min(count);
    let mut wanted = Vec::with_capacity(count as usize);
    if there > 0 {
        add_blocks(&mut wanted, from.read(first, there).await?, block_size);
    }
    wanted.resize(count as usize, None);
    let mut present = Vec::with_capacity(count as usize);
    add_blocks(&mut present, to.read(first, count).await?, block_size);
    let (mut changes, mut copied, mut holes) = (Vec::new(), Copied::default(), 0);
    for ((block, wanted), present) in (first..).zip(wanted).zip(present) {
        match (wanted, present) {
            (Some(wanted), Some(present)) if wanted[..] == present[..] => copied.same += 1,
            (Some(data), _) => {
                copied.blocks += 1;
                changes.push(CommitChange::Write { first: block, data });
            }
            (None, Some(_)) => {
                holes += 1;
                changes.push(CommitChange::Trim {
                    first: block,
                    count: 1,
                });
            }
            (None, None) => {}
        }
    }
    if changes.is_empty() {
        return Ok(copied);
    }
    let permit = to.reserve(copied.blocks * block_size as u64).await?;
    let admission = to.admit(copied.blocks, holes).await?;
    to.commit(admission, changes)?;
    // The commit has charged the buffers themselves.
    drop(permit);
    Ok(copied)
}

/// Adds the blocks of `pieces`, and none for a hole.
fn add_blocks(blocks: &mut Vec<Option<Slice>>, pieces: Vec<Piece>, block_size: usize) {
    for piece in pieces {
        match piece {
            Piece::Data(data) => {
                let starts = (0..data.len()).step_by(block_size);
                blocks.extend(starts.map(|at| Some(data.slice(at..at + block_size))));
            }
            Piece::Zero(bytes) => blocks.resize(blocks.len() + bytes / block_size, None),
        }
    }
}
