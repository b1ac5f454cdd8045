//! The overwrite layout: every block has one fixed place.
//!
//! A member's data area is a sequence of groups; a group is two table slots and the blocks whose
//! CRC-32C the table holds (`tonearm_format::Geometry`, `tonearm_format::TableSlot`). The members are concatenated:
//! group numbers and block numbers run over all of them.
//!
//! Invariants:
//! 1. No byte of a block is returned that fails its checksum. A hole reads as zeroes without I/O.
//! 2. Between two flushes of a member a group's table is written at most once, into the slot of its generation. The
//!    other slot is the newest durable one. After a failure the slot that may be half written is written again
//!    (`write_back.rs`).
//! 3. The space of a hole reads as zeroes on the medium, so that a table which fell back to its older slot can be
//!    checked (`load.rs`).
//! 4. Tables are cached within a bound; one that is being written is never evicted. No memory grows with the size of
//!    the store.

mod batch;
mod check;
mod home;
mod interrupted;
mod load;
mod place;
mod plan;
mod repair;
mod scrub;
mod space;
mod table_cache;
mod write_back;

pub use home::Overwrite;
pub use place::OverwriteMember;
pub(crate) use space::{blocks_of, grown, members, units};

use crate::error::HomeError;
use crate::home::{
    GrowingHome, Home, HomeBlock, HomeShape, HomeStats, ParityHome, Piece, RoundOrder, ZeroRange,
};
use crate::queue::Reader;
use crate::report::{GroupReport, RepairOptions, RepairReport};
use std::collections::BTreeSet;
use std::future::ready;
use std::ops::Range;
use std::rc::Rc;
use tonearm_device::{Device, DirtyRanges, RepairOutcome};
use tonearm_format::Superblock;
use tonearm_rt::Boxed;

/// Bytes of one round. With more, readers wait longer, and that costs more than the additional adjacent blocks gain.
const ROUND_BYTES: usize = 32 << 20;

impl Home for Overwrite {
    fn shape(&self) -> HomeShape {
        HomeShape {
            block_size: self.places.block_size,
            size_blocks: self.places.size_blocks.get(),
            group_blocks: self.places.group_blocks,
            order: RoundOrder::Sweep,
        }
    }

    fn round_bytes_max(&self) -> usize {
        ROUND_BYTES
    }

    fn stats(&self) -> HomeStats {
        self.stats()
    }

    fn parity(&self) -> Option<&dyn ParityHome> {
        Some(self)
    }

    fn read(
        &self,
        first: u64,
        count: u64,
        reader: Reader,
    ) -> Boxed<'_, Result<Vec<Piece>, HomeError>> {
        Box::pin(self.read(first, count, reader))
    }

    fn status(&self, first: u64, count: u64) -> Boxed<'_, Result<Vec<(u64, bool)>, HomeError>> {
        Box::pin(self.status(first, count))
    }

    fn write_back(
        &self,
        zeroes: Vec<ZeroRange>,
        blocks: Vec<HomeBlock>,
    ) -> Boxed<'_, Result<(), HomeError>> {
        Box::pin(self.write_back(zeroes, blocks))
    }

    fn check_group(&self, group: u64) -> Boxed<'_, Result<GroupReport, HomeError>> {
        Box::pin(self.check_group(group))
    }

    fn check_map<'a>(
        &'a self,
        _: &'a mut dyn FnMut(u64, u64),
    ) -> Boxed<'a, Result<Vec<HomeError>, HomeError>> {
        Box::pin(ready(Ok(Vec::new())))
    }

    fn repair_group(
        &self,
        group: u64,
        options: RepairOptions,
    ) -> Boxed<'_, Result<RepairReport, HomeError>> {
        Box::pin(self.repair_group(group, options))
    }

    fn growing(&self) -> Option<&dyn GrowingHome> {
        Some(self)
    }

    fn close(&self) -> Boxed<'_, Result<(), HomeError>> {
        Box::pin(ready(Ok(())))
    }
}

impl GrowingHome for Overwrite {
    fn grow(&self, superblock: &Superblock) -> Boxed<'_, ()> {
        let mut data_members = superblock.members.iter();
        let last = data_members.rfind(|member| member.roles.data);
        let groups = last.expect("a store has a data member").groups;
        let size_blocks = superblock.size_blocks;
        Box::pin(async move {
            // A write-back has cut its zeroes to groups, and the last group may get more blocks.
            let _writer = self.writer.acquire(1).await;
            self.places.grow(size_blocks, groups);
        })
    }
}

impl ParityHome for Overwrite {
    fn members(&self) -> Vec<Rc<dyn Device>> {
        let members = self.places.members.iter();
        members.map(|member| member.queue.device.clone()).collect()
    }

    fn interrupted(&self, zeroes: Vec<ZeroRange>, blocks: &BTreeSet<u64>) -> Vec<DirtyRanges> {
        self.interrupted(zeroes, blocks)
    }

    fn scrub_group(&self, group: u64) -> Boxed<'_, Result<GroupReport, HomeError>> {
        Box::pin(self.scrub_group(group))
    }

    fn scrub_stripes(
        &self,
        member: usize,
        stripes: Range<u64>,
    ) -> Boxed<'_, Result<RepairOutcome, HomeError>> {
        Box::pin(self.scrub_stripes(member, stripes))
    }
}

#[cfg(test)]
mod load_test;
#[cfg(test)]
mod plan_test;
#[cfg(test)]
mod table_cache_test;
