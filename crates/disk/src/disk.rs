//! A store with its volumes.

use crate::error::DiskError;
use crate::map;
use crate::table::{self, SharedVolume, Table, VolumeState};
use crate::volume::Volume;
use base::BufPool;
use engine::{
    CommitChange, CreatePlan, Engine, MemberDevice, NewMember, OpenOptions, Progress,
    RecoveryReport, ScrubReport, StoreStats,
};
use format::{EXTENTS_MAX, Extent, Uuid, VOLUMES_MAX, VolumeEntry};
use rt::Rt;
use std::cell::RefCell;
use std::rc::Rc;

/// What is told of a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeInfo {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub uuid: Uuid,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// It refuses writes.
    pub read_only: bool,
    /// When it was made, in seconds since 1970.
    pub created_unix_s: u64,
}

/// An open store; cheap to clone, of one thread.
#[derive(Clone)]
pub struct Disk {
    engine: Engine,
    pool: BufPool,
    table: Rc<RefCell<Table>>,
}

/// Name of the volume that every store has from the start.
const MAIN: &str = "main";

/// Makes a store by `plan` on `members`, with the volume `main` of `main_bytes`.
///
/// # Errors
/// When a member cannot be written.
pub async fn create(
    rt: &Rt,
    pool: &BufPool,
    plan: &CreatePlan,
    members: Vec<NewMember>,
    main_bytes: u64,
    main_uuid: Uuid,
    progress: impl FnMut(u64, u64),
) -> Result<(), DiskError> {
    engine::create(pool, plan, &members, progress).await?;
    let members = members
        .into_iter()
        .map(|member| MemberDevice {
            path: member.device.name().to_string(),
            device: member.device,
        })
        .collect();
    let disk = Disk::open(rt, pool, members, OpenOptions::default(), |_| {}).await?;
    disk.create_volume(MAIN, main_bytes, main_uuid, plan.superblock.created_unix_s)
        .await?;
    disk.close().await
}

impl Disk {
    /// Opens the store of `members` (the first is the primary one), and recovers it if need be.
    ///
    /// # Errors
    /// See `Engine::open`; and when the volume table is damaged.
    pub async fn open(
        rt: &Rt,
        pool: &BufPool,
        members: Vec<MemberDevice>,
        options: OpenOptions,
        progress: impl FnMut(Progress),
    ) -> Result<Disk, DiskError> {
        let engine = Engine::open(rt, pool, members, options, progress).await?;
        let table = Table::load(&engine).await?;
        Ok(Self {
            engine,
            pool: pool.clone(),
            table: Rc::new(RefCell::new(table)),
        })
    }

    /// The engine below.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// All volumes, by name.
    pub fn volumes(&self) -> Vec<VolumeInfo> {
        let table = self.table.borrow();
        let info = |volume: &SharedVolume| {
            let entry = &volume.borrow().entry;
            VolumeInfo {
                name: entry.name.clone(),
                uuid: entry.uuid,
                size_bytes: entry.size_bytes,
                read_only: entry.read_only,
                created_unix_s: entry.created_unix_s,
            }
        };
        table.volumes.values().map(info).collect()
    }

    /// The volume `name`.
    ///
    /// # Errors
    /// When there is none.
    pub fn volume(&self, name: &str) -> Result<Volume, DiskError> {
        Ok(Volume::new(&self.engine, &self.pool, self.shared(name)?))
    }

    /// Makes a volume, durably. It reads as zeroes.
    ///
    /// # Errors
    /// When the name is taken or impossible, or there is no room.
    pub async fn create_volume(
        &self,
        name: &str,
        size_bytes: u64,
        uuid: Uuid,
        created_unix_s: u64,
    ) -> Result<(), DiskError> {
        table::check_name(name)?;
        if size_bytes == 0 {
            return Err(DiskError::BadSize);
        }
        let admission = self.engine.admit(1, 0).await?;
        let lsn = {
            let mut table = self.table.borrow_mut();
            if table.volumes.contains_key(name) {
                return Err(DiskError::VolumeExists(name.to_string()));
            }
            let slot = table
                .free_slot()
                .ok_or(DiskError::TooManyVolumes(VOLUMES_MAX))?;
            let extents = self.allocate(&table, &[], self.blocks_of(size_bytes))?;
            let entry = VolumeEntry {
                uuid,
                name: name.to_string(),
                size_bytes,
                read_only: false,
                created_unix_s,
                extents,
            };
            let lsn = self.engine.commit(
                admission,
                vec![table::put(&self.engine, &self.pool, slot, &entry)],
            )?;
            let state = VolumeState {
                slot,
                entry,
                deleted: false,
                moves: 0,
            };
            table
                .volumes
                .insert(name.to_string(), Rc::new(RefCell::new(state)));
            lsn
        };
        Ok(self.engine.wait_durable(lsn).await?)
    }

    /// Deletes a volume and gives its space back, durably. Handles on it fail from now on.
    ///
    /// # Errors
    /// When there is none, or the store is read-only.
    pub async fn delete_volume(&self, name: &str) -> Result<(), DiskError> {
        let admission = self.engine.admit(1, EXTENTS_MAX as u64).await?;
        let shared = self.shared(name)?;
        let lsn = {
            let mut state = shared.borrow_mut();
            let zeroes = self.pool.alloc_zeroed(self.engine.block_size()).share();
            let mut changes = vec![CommitChange::Write {
                first: state.slot,
                data: zeroes,
            }];
            changes.extend(state.entry.extents.iter().map(trim_of));
            let lsn = self.engine.commit(admission, changes)?;
            state.deleted = true;
            self.table.borrow_mut().volumes.remove(name);
            lsn
        };
        Ok(self.engine.wait_durable(lsn).await?)
    }

    /// Changes a volume's size, durably. What is cut off is gone; what is added reads as zeroes.
    ///
    /// # Errors
    /// When there is none, there is no room, or the store is read-only.
    pub async fn resize_volume(&self, name: &str, size_bytes: u64) -> Result<(), DiskError> {
        if size_bytes == 0 {
            return Err(DiskError::BadSize);
        }
        let admission = self.engine.admit(2, EXTENTS_MAX as u64).await?;
        let shared = self.shared(name)?;
        let volume = Volume::new(&self.engine, &self.pool, shared.clone());
        // The tail of the last block that stays must read as zeroes when the volume grows again.
        let tail = volume.cut_off(size_bytes).await?;
        let lsn = {
            let table = self.table.borrow();
            let mut state = shared.borrow_mut();
            if state.deleted {
                return Err(DiskError::Deleted);
            }
            let blocks = self.blocks_of(size_bytes);
            let (mut extents, cut) = map::split(&state.entry.extents, blocks);
            let have: u64 = extents.iter().map(|extent| extent.count).sum();
            if have < blocks {
                drop(state);
                extents = self.allocate(&table, &extents, blocks - have)?;
                state = shared.borrow_mut();
            }
            let entry = VolumeEntry {
                size_bytes,
                extents,
                ..state.entry.clone()
            };
            let mut changes = vec![table::put(&self.engine, &self.pool, state.slot, &entry)];
            changes.extend(cut.iter().map(trim_of));
            changes.extend(tail);
            let lsn = self.engine.commit(admission, changes)?;
            state.entry = entry;
            state.moves += 1;
            lsn
        };
        Ok(self.engine.wait_durable(lsn).await?)
    }

    /// Bytes that no volume has.
    pub fn free_bytes(&self) -> u64 {
        let free = self.table.borrow().free(self.engine.size_blocks());
        free.iter().map(|extent| extent.count).sum::<u64>() * self.engine.block_size() as u64
    }

    /// Bytes for volumes, used or free.
    pub fn size_bytes(&self) -> u64 {
        (self.engine.size_blocks() - format::SYSTEM_BLOCKS) * self.engine.block_size() as u64
    }

    /// Bytes of a block.
    pub fn block_size(&self) -> u32 {
        self.engine.block_size() as u32
    }

    /// Bytes of the largest write of any alignment that the log can take, a multiple of the block size.
    pub fn write_bytes_max(&self) -> u32 {
        // An unaligned write touches one block more.
        let blocks = self.engine.commit_blocks_max().saturating_sub(1);
        let bytes = blocks * u64::from(self.block_size());
        u32::try_from(bytes).unwrap_or(u32::MAX - u32::MAX % self.block_size())
    }

    /// Identity of the store.
    pub fn uuid(&self) -> Uuid {
        self.engine.superblock().store
    }

    /// What happened at the opening.
    pub fn recovery(&self) -> RecoveryReport {
        self.engine.recovery().clone()
    }

    /// Counters and gauges.
    pub fn stats(&self) -> StoreStats {
        self.engine.stats()
    }

    /// Makes every commit so far durable.
    ///
    /// # Errors
    /// When the log fails.
    pub async fn flush(&self) -> Result<(), DiskError> {
        Ok(self.engine.flush().await?)
    }

    /// Verifies every block.
    ///
    /// # Errors
    /// When a device fails; damage is in the report.
    pub async fn scrub(&self, progress: impl FnMut(u64, u64)) -> Result<ScrubReport, DiskError> {
        Ok(self.engine.scrub(progress).await?)
    }

    /// Writes everything home and marks the store clean.
    ///
    /// # Errors
    /// When something cannot be written; recovery will do it then.
    pub async fn close(&self) -> Result<(), DiskError> {
        Ok(self.engine.close().await?)
    }

    fn shared(&self, name: &str) -> Result<SharedVolume, DiskError> {
        let table = self.table.borrow();
        table
            .volumes
            .get(name)
            .cloned()
            .ok_or_else(|| DiskError::NoVolume(name.to_string()))
    }

    fn blocks_of(&self, size_bytes: u64) -> u64 {
        size_bytes.div_ceil(self.engine.block_size() as u64)
    }

    fn allocate(
        &self,
        table: &Table,
        extents: &[Extent],
        blocks: u64,
    ) -> Result<Vec<Extent>, DiskError> {
        let free = table.free(self.engine.size_blocks());
        let block_size = self.engine.block_size() as u64;
        let free_blocks: u64 = free.iter().map(|extent| extent.count).sum();
        if free_blocks < blocks {
            let (free_bytes, needed_bytes) =
                (free_blocks * block_size, blocks.saturating_mul(block_size));
            return Err(DiskError::StoreFull {
                free_bytes,
                needed_bytes,
            });
        }
        map::allocate(extents, blocks, &free).ok_or(DiskError::Fragmented)
    }
}

fn trim_of(extent: &Extent) -> CommitChange {
    CommitChange::Trim {
        first: extent.start,
        count: extent.count,
    }
}
