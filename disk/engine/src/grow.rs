//! Growth of a store that is in use: more home blocks at the end of the last data member.
//!
//! The order, so that a power cut at any moment leaves the old size or the new one:
//! 1. The member becomes longer, by a write of its last bytes. From then on its trailer area is elsewhere, so that the copies of
//!    the superblock at its old end do not count any more. Those at its front do.
//! 2. The space that is added is cleared, because the old trailer area lies there, and the clearing is made durable.
//! 3. The superblock with the new size is made durable on all members. It has the number of this epoch, and the log of its beginning, so that
//!    recovery finds the same commits with it as with the one before.
//! 4. The home has the new blocks, and commits may change them.

use crate::create::clear;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::superblocks;
use async_recursion::async_recursion as boxed;
use std::rc::Rc;
use tonearm_device::Device;
use tonearm_format::{HeadKind, SECTOR, Superblock};
use tonearm_layout::{PlanError, layouts};
use tonearm_rt::Data;
use tonearm_trail::WriteCache;

/// Why a store with segments cannot grow.
const FIXED_SIZE: &str = "its layout has segments, and the checkpoints have no room for more; copy it into a larger store with \
                          `tonearm relayout`";

impl Engine {
    /// Adds at least `blocks` home blocks, durably.
    ///
    /// # Errors
    /// [`EngineError::CannotGrow`], and nothing has changed: the layout, or the place of the last data member, does not allow it, or an
    /// archive was started since the opening. When the member cannot be made longer, the size of the store stays what it is. When its superblocks
    /// cannot be written, the store is read-only.
    #[boxed(?Send)]
    pub async fn grow(&self, blocks: u64) -> Result<(), EngineError> {
        let engine = self.clone();
        // A task of its own: the caller may drop this future, and an update of the superblocks must be driven to its end.
        let growth = self
            .0
            .rt
            .spawn(async move { engine.grow_now(blocks).await });
        growth.await
    }

    async fn grow_now(&self, blocks: u64) -> Result<(), EngineError> {
        // One growth at a time, and none after the beginning of the end.
        let _turn = self.0.growth.acquire(1).await;
        self.0.check_writable()?;
        let superblock = self.superblock();
        let (mut larger, index, needed) = self.plan_growth(&superblock, blocks)?;
        let device = self.0.members[index].clone();
        self.lengthen(&device, needed).await?;
        let added = superblock.data_end(index)..larger.data_end(index);
        let cleared = clear(&device, added, |_| {}).await;
        cleared.map_err(|error| EngineError::Clear {
            member: device.name().to_string(),
            error,
        })?;
        larger.generation += 1;
        let flush = self.0.options.write_cache == WriteCache::Volatile;
        let stored = async {
            if flush {
                superblocks::make_durable(&[device]).await?;
            }
            superblocks::store(&self.0.pool, &self.0.members, &larger, flush).await
        };
        // The next update must not have the number of one that may be there.
        stored.await.map_err(|error| self.0.fail(error))?;
        let home = self.0.home.growing();
        let home = home.expect("a layout that plans growth has it");
        home.grow(&larger).await;
        self.0.shape.set(self.0.home.shape());
        *self.0.superblock.borrow_mut() = larger;
        Ok(())
    }

    /// True when the store can grow now.
    pub fn can_grow(&self) -> bool {
        let planned = self.plan_growth(&self.superblock(), 1);
        planned.is_ok_and(|(_, index, _)| {
            let device = &self.0.members[index];
            device.set_size_bytes(device.size_bytes())
        })
    }

    /// The superblock of the larger store, the index of the member that grows, and the bytes that it has then.
    fn plan_growth(
        &self,
        superblock: &Superblock,
        blocks: u64,
    ) -> Result<(Superblock, usize, u64), EngineError> {
        let (larger, index, needed) = match layouts::grown(superblock, blocks) {
            Err(PlanError::CannotGrow) => return Err(EngineError::CannotGrow(FIXED_SIZE)),
            planned => planned?,
        };
        if self.archive().is_some() {
            return Err(EngineError::CannotGrow(
                "it is archived, or was since the server was started; stop the server first",
            ));
        }
        let has_sheet = superblock.head != HeadKind::Sequential;
        if has_sheet && superblock.members[index].roles.log {
            return Err(EngineError::CannotGrow(
                "the member with its last blocks has the log, too, which follows the head of the drive",
            ));
        }
        Ok((larger, index, needed))
    }

    /// Makes the file of `device` at least `size_bytes` long.
    async fn lengthen(&self, device: &Rc<dyn Device>, size_bytes: u64) -> Result<(), EngineError> {
        let before = device.size_bytes();
        if !device.set_size_bytes(size_bytes.max(before)) {
            return Err(EngineError::CannotGrow("its last blocks are not in a file"));
        }
        if before >= size_bytes {
            return Ok(());
        }
        let data = Data::whole(self.0.pool.alloc_zeroed(SECTOR));
        let written = device.write(size_bytes - SECTOR as u64, data).await;
        written.map_err(|error| {
            device.set_size_bytes(before);
            EngineError::Lengthen {
                member: device.name().to_string(),
                size_bytes,
                error,
            }
        })
    }
}
