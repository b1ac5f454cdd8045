//! The block cache of the Minix file system.
//!
//! When the least recently used block has to leave and has changed, all changed blocks are written, in the order of their
//! places, one request for each and one request at a time. There is no reading ahead but the drive's own.

use super::files::{BLOCK, LoadError};
use crate::harness::Machine;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::Device;
use tonearm_rt::Data;

/// Blocks in memory.
pub struct Cache {
    device: Rc<dyn Device>,
    pool: BufPool,
    limit: usize,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    blocks: BTreeMap<u64, Cached>,
    /// Blocks by the time of their last use.
    by_use: BTreeMap<u64, u64>,
    uses: u64,
}

struct Cached {
    data: Vec<u8>,
    is_changed: bool,
    /// It has content of a file, and no metadata.
    is_content: bool,
    used: u64,
}

impl State {
    /// Notes a use of a block that is there.
    fn touch(&mut self, block: u64) -> &mut Cached {
        self.uses += 1;
        let cached = self.blocks.get_mut(&block).expect("the block is in memory");
        self.by_use.remove(&cached.used);
        cached.used = self.uses;
        self.by_use.insert(self.uses, block);
        cached
    }

    fn insert(&mut self, block: u64, data: Vec<u8>) {
        self.uses += 1;
        self.by_use.insert(self.uses, block);
        let cached = Cached {
            data,
            is_changed: false,
            is_content: false,
            used: self.uses,
        };
        self.blocks.insert(block, cached);
    }

    fn remove(&mut self, block: u64) {
        if let Some(cached) = self.blocks.remove(&block) {
            self.by_use.remove(&cached.used);
        }
    }
}

impl Cache {
    /// An empty cache of `limit` blocks over the drive of `machine`.
    pub fn new(machine: &Machine, limit: usize) -> Self {
        Self {
            device: machine.drive.clone(),
            pool: BufPool::new(1 << 20),
            limit,
            state: RefCell::default(),
        }
    }

    /// Reads a block.
    pub async fn look<T>(
        &self,
        block: u64,
        look: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<T, LoadError> {
        self.load(block).await?;
        Ok(look(&mut self.state.borrow_mut().touch(block).data))
    }

    /// Changes a block in memory.
    pub async fn edit<T>(
        &self,
        block: u64,
        edit: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<T, LoadError> {
        self.load(block).await?;
        let mut state = self.state.borrow_mut();
        let cached = state.touch(block);
        cached.is_changed = true;
        Ok(edit(&mut cached.data))
    }

    /// Makes a block zeroes, without reading it.
    pub async fn fresh(&self, block: u64) -> Result<(), LoadError> {
        if !self.state.borrow().blocks.contains_key(&block) {
            self.make_room().await?;
            self.state.borrow_mut().insert(block, vec![0; BLOCK]);
        }
        self.edit(block, |page| page.fill(0)).await
    }

    /// Drops a block that is free now.
    pub fn forget(&self, block: u64) {
        self.state.borrow_mut().remove(block);
    }

    /// Notes that a block in memory has content of a file.
    pub fn mark_content(&self, block: u64) {
        self.state.borrow_mut().touch(block).is_content = true;
    }

    /// Drops the content of files from memory. Everything has been written.
    pub fn drop_content(&self) {
        let mut state = self.state.borrow_mut();
        let content = state.blocks.iter().filter(|(_, cached)| cached.is_content);
        let content: Vec<u64> = content.map(|(block, _)| *block).collect();
        for block in content {
            state.remove(block);
        }
    }

    /// Writes all changed blocks.
    pub async fn sync(&self) -> Result<(), LoadError> {
        self.write_changed().await?;
        Ok(self.device.flush().await?)
    }

    async fn load(&self, block: u64) -> Result<(), LoadError> {
        if self.state.borrow().blocks.contains_key(&block) {
            return Ok(());
        }
        self.make_room().await?;
        let place = block * BLOCK as u64;
        let data = self.device.read(place, self.pool.alloc(BLOCK)).await?;
        self.state.borrow_mut().insert(block, data[..].to_vec());
        Ok(())
    }

    async fn make_room(&self) -> Result<(), LoadError> {
        let oldest = {
            let state = self.state.borrow();
            match state.blocks.len() < self.limit {
                true => None,
                false => state.by_use.values().next().copied(),
            }
        };
        let Some(oldest) = oldest else { return Ok(()) };
        if self.state.borrow().blocks[&oldest].is_changed {
            self.write_changed().await?;
        }
        self.state.borrow_mut().remove(oldest);
        Ok(())
    }

    async fn write_changed(&self) -> Result<(), LoadError> {
        let changed: Vec<u64> = {
            let state = self.state.borrow();
            let changed = state.blocks.iter().filter(|(_, cached)| cached.is_changed);
            changed.map(|(block, _)| *block).collect()
        };
        for block in changed {
            let data = {
                let mut state = self.state.borrow_mut();
                let cached = state.blocks.get_mut(&block).expect("no block has left");
                cached.is_changed = false;
                Data::whole(self.pool.copy_of(&cached.data))
            };
            self.device.write(block * BLOCK as u64, data).await?;
        }
        Ok(())
    }
}
