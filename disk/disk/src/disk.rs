//! A store with its volumes.

use crate::aru::Aru;
use crate::changes::Changes;
use crate::core::Core;
use crate::error::DiskError;
use crate::map;
use crate::state::Life;
use crate::table::{self, Table};
use crate::tree::{self, TreePages, TreeStop};
use crate::volume::Volume;
use async_recursion::async_recursion as boxed;
use std::rc::Rc;
use tonearm_base::{AlignedMemory, BufPool, Lsn};
use tonearm_engine::{
    ByteRate, CreatePlan, Engine, Marks, MemberDevice, NewMember, OpenOptions, Progress,
    RecoveryReport, Scrub, ScrubReport, StoreStats,
};
use tonearm_format::{EXTENTS_MAX, Uuid, VolumeEntry, VolumeKind};
use tonearm_rt::Rt;

/// Name, identity and size of a volume.
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

/// An open store; cheap to clone. One thread uses it.
///
/// A store on a simulated drive, in virtual time, and recovery units ([`Aru`]):
///
/// ```
/// use tonearm_base::BufPool;
/// use tonearm_device::RawDevice;
/// use tonearm_world::{DiskImage, SimOptions, SimWorld};
/// use tonearm_rt::{DeviceId, Rt};
/// use std::rc::Rc;
/// use tonearm_disk::{
///     CreateParams, Disk, DiskError, MemberDevice, MemberSpace, NewMember, OpenOptions, create, plan_create,
/// };
///
/// let params = CreateParams {
///     log_bytes: Some(2 << 20),
///     track_bytes: Some(64 << 10),
///     ..CreateParams::new(8 << 20, *b"simulated store!")
/// };
/// let plan = plan_create(&params, &[MemberSpace::alone([1; 16])]).expect("sizes that work");
/// let bytes = plan.member_bytes[0];
/// let world = SimWorld::new(SimOptions::default(), vec![DiskImage::new(bytes)]);
/// let rt = Rt::new(world.driver());
/// let pool = BufPool::new(1 << 20);
/// let device = Rc::new(RawDevice::new(&rt, DeviceId(0), bytes, 512, "member"));
///
/// let done: Result<(), DiskError> = rt.clone().block_on(async move {
///     let member = NewMember::blank(device.clone());
///     create(&rt, &pool, &plan, vec![member], 1 << 20, [2; 16], |_, _| {}).await?;
///
///     let member = MemberDevice { device, path: "member".into() };
///     let disk = Disk::open(&rt, &pool, vec![member], OpenOptions::default(), |_| {}).await?;
///     // Two recovery units at a time.
///     let (mut kept, mut given_up) = (disk.begin(), disk.begin());
///     let accounts = kept.create_volume("accounts", 1 << 16, [3; 16], 0).await?;
///     kept.write(&accounts, 0, b"balance 100").await?;
///     let list = kept.new_list().await?;
///     let first = kept.new_block(list, None).await?;
///     let second = kept.new_block(list, Some(first)).await?;
///     kept.write_block(second, &[7; 4096]).await?;
///     let other = given_up.new_list().await?;
///     assert!(disk.list_blocks(list).await.is_err(), "nobody else sees it yet");
///     let lsn = kept.end().await?; // the file, the list and its blocks at once
///     given_up.abort();
///     disk.wait_durable(lsn).await?; // survives any crash from here on
///     assert_eq!(disk.list_blocks(list).await?, [first, second]);
///     assert!(disk.list_blocks(other).await.is_err(), "nothing is left of it");
///
///     // Simple operations are units of their own.
///     disk.delete_block(first).await?;
///     assert_eq!(disk.list_blocks(list).await?, [second]);
///     disk.close().await
/// });
/// done.expect("a drive without faults");
/// ```
#[derive(Clone)]
pub struct Disk(Rc<Core>);

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
    tonearm_engine::create(rt, pool, plan, &members, progress).await?;
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
        let disk = Self(Rc::new(Core::new(rt, pool, engine, table)));
        if !disk.engine().options().read_only {
            disk.0.shadows.spill.drop_all().await?;
        }
        Ok(disk)
    }

    /// The engine below.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Begins a recovery unit (BeginARU).
    pub fn begin(&self) -> Aru {
        Aru::begin(&self.0)
    }

    /// Free memory for a write of `len` bytes, if there is any, for `LooseBuf::copy_to`.
    pub fn spare_memory(&self, len: usize) -> Option<AlignedMemory> {
        self.0.pool.spare(len)
    }

    /// How far the commits have come. Waits for nothing.
    pub fn marks(&self) -> Marks {
        self.0.engine.marks()
    }

    /// Begins to write the commits that no caller waits for, and that would stay in memory for a while
    /// ([`OpenOptions::commit_delay`]).
    pub fn write_now(&self) {
        self.0.engine.write_now();
    }

    /// Waits until commit `lsn` is durable.
    ///
    /// # Errors
    /// When there is no such commit yet, or the log has failed.
    pub async fn wait_durable(&self, lsn: Lsn) -> Result<(), DiskError> {
        Ok(self.0.engine.wait_durable(lsn).await?)
    }

    /// Waits until commit `lsn` is durable and archived.
    ///
    /// # Errors
    /// As for [`Disk::wait_durable`]; when the store has no archive, or it has ended.
    pub async fn wait_archived(&self, lsn: Lsn) -> Result<(), DiskError> {
        self.wait_durable(lsn).await?;
        self.0.engine.wait_archived(lsn, None).await?;
        Ok(())
    }

    /// Bytes that open recovery units hold in memory.
    pub fn shadow_bytes(&self) -> u64 {
        self.0.shadows.used()
    }

    /// Bytes of memory that open recovery units may hold together.
    pub fn shadow_bytes_max(&self) -> u64 {
        self.0.shadows.limit()
    }

    /// Bytes of home space for the parts of recovery units that do not fit in memory.
    pub fn spill_bytes(&self) -> u64 {
        self.0.shadows.spill.bytes()
    }

    /// Counts the commits that make, delete or rename volumes and files. The file system of the store notes its own.
    pub fn names(&self) -> Changes {
        self.0.table().names.clone()
    }

    /// The volumes of users, by name.
    pub fn volumes(&self) -> Vec<VolumeInfo> {
        let table = self.0.table();
        let mut found = Vec::new();
        for volume in table.volumes.values() {
            let entry = &volume.borrow().entry;
            if entry.kind == VolumeKind::Plain {
                found.push(VolumeInfo {
                    name: entry.name.clone(),
                    uuid: entry.uuid,
                    size_bytes: entry.size_bytes,
                    read_only: entry.read_only,
                    created_unix_s: entry.created_unix_s,
                });
            }
        }
        found
    }

    /// The volume `name`.
    ///
    /// # Errors
    /// When there is none.
    pub fn volume(&self, name: &str) -> Result<Volume, DiskError> {
        self.0.volume(name)
    }

    /// Makes a volume, durably. It reads as zeroes.
    ///
    /// # Errors
    /// When the name is taken or impossible, or there is no room.
    #[boxed(?Send)]
    pub async fn create_volume(
        &self,
        name: &str,
        size_bytes: u64,
        uuid: Uuid,
        created_unix_s: u64,
    ) -> Result<(), DiskError> {
        let mut aru = self.begin();
        aru.create_volume(name, size_bytes, uuid, created_unix_s)
            .await?;
        match aru.end().await {
            Ok(lsn) => self.wait_durable(lsn).await,
            Err(DiskError::Conflict(_)) => Err(DiskError::VolumeExists(name.to_string())),
            Err(error) => Err(error),
        }
    }

    /// Deletes a volume and gives its space back, durably. Handles on it fail from now on.
    ///
    /// # Errors
    /// When there is none, or the volume or the store is read-only.
    #[boxed(?Send)]
    pub async fn delete_volume(&self, name: &str) -> Result<(), DiskError> {
        let mut aru = self.begin();
        aru.delete_volume(name).await?;
        match aru.end().await {
            Ok(lsn) => self.wait_durable(lsn).await,
            Err(DiskError::Conflict(_)) => Err(DiskError::NoVolume(name.to_string())),
            Err(error) => Err(error),
        }
    }

    /// Changes a volume's size, durably. Content beyond the new end is lost; a volume that grows reads as zeroes there.
    ///
    /// # Errors
    /// When there is none, there is no room, or the volume or the store is read-only.
    #[boxed(?Send)]
    pub async fn resize_volume(&self, name: &str, size_bytes: u64) -> Result<(), DiskError> {
        if size_bytes == 0 {
            return Err(DiskError::BadSize);
        }
        let admission = self.0.engine.admit(2, EXTENTS_MAX as u64).await?;
        let volume = self.0.volume(name)?;
        let shared = volume.shared();
        shared.borrow().check_mode()?;
        // The tail of the last block that stays must read as zeroes when the volume grows again. Unlike in a recovery
        // unit, changes that others commit to the block meanwhile are kept.
        let tail = volume.cut_off(size_bytes).await?;
        let lsn = {
            let mut table = self.0.table();
            let state = shared.borrow();
            if state.life != Life::Live {
                return Err(DiskError::Deleted);
            }
            state.check_mode()?;
            let (size_blocks, block_size) = (self.0.engine.size_blocks(), self.0.block_size());
            let blocks = size_bytes.div_ceil(block_size);
            let (mut extents, cut) = map::split(&state.entry.extents, blocks);
            drop(state);
            let have = map::blocks(&extents);
            let mut held = Vec::new();
            if have < blocks {
                let more = blocks - have;
                held = table.hold_blocks(&extents, more, more, size_blocks, block_size)?;
                extents = map::append(extents, &held);
            }
            let mut state = shared.borrow_mut();
            let entry = VolumeEntry {
                size_bytes,
                extents,
                ..state.entry.clone()
            };
            let mut changes = vec![table::put(&self.0.engine, &self.0.pool, state.slot, &entry)];
            changes.extend(cut.iter().map(map::trim_of));
            changes.extend(tail);
            let committed = self.0.engine.commit(admission, changes);
            table.release_blocks(&held);
            let lsn = committed?;
            state.change(entry, size_bytes);
            lsn
        };
        self.wait_durable(lsn).await
    }

    /// Makes the store larger by at least `bytes`, durably, while it is in use.
    ///
    /// # Errors
    /// As for [`Engine::grow`].
    #[boxed(?Send)]
    pub async fn grow(&self, bytes: u64) -> Result<(), DiskError> {
        let blocks = bytes.div_ceil(self.0.block_size());
        Ok(self.0.engine.grow(blocks).await?)
    }

    /// Makes a volume refuse every change, or take changes again, durably. The volume then has all writes that
    /// were answered before. Recovery units that have changed it and not ended cannot end any more.
    ///
    /// # Errors
    /// When there is none, or the store is read-only.
    #[boxed(?Send)]
    pub async fn set_read_only(&self, name: &str, read_only: bool) -> Result<(), DiskError> {
        let admission = self.0.engine.admit(1, 0).await?;
        let volume = self.0.volume(name)?;
        let lsn = {
            let mut state = volume.shared().borrow_mut();
            let entry = VolumeEntry {
                read_only,
                ..state.entry.clone()
            };
            let put = table::put(&self.0.engine, &self.0.pool, state.slot, &entry);
            let lsn = self.0.engine.commit(admission, vec![put])?;
            let size_bytes = entry.size_bytes;
            state.change(entry, size_bytes);
            lsn
        };
        self.wait_durable(lsn).await
    }

    /// All entries of the volume table, those of the disk's own volumes too.
    pub fn entries(&self) -> Vec<VolumeEntry> {
        let table = self.0.table();
        let volumes = table.volumes.values();
        volumes
            .map(|volume| volume.borrow().entry.clone())
            .collect()
    }

    /// Bytes that no volume has.
    pub fn free_bytes(&self) -> u64 {
        self.0.free_bytes()
    }

    /// Bytes for volumes, used or free.
    pub fn size_bytes(&self) -> u64 {
        (self.0.engine.size_blocks() - tonearm_format::SYSTEM_BLOCKS)
            * self.0.engine.block_size() as u64
    }

    /// Bytes of a block.
    pub fn block_size(&self) -> u32 {
        self.0.engine.block_size() as u32
    }

    /// Bytes of the largest write of any alignment that the log can take, a multiple of the block size.
    pub fn write_bytes_max(&self) -> u32 {
        // An unaligned write touches one block more.
        let blocks = self.0.engine.commit_blocks_max().saturating_sub(1);
        let bytes = blocks * u64::from(self.block_size());
        u32::try_from(bytes).unwrap_or(u32::MAX - u32::MAX % self.block_size())
    }

    /// Identity of the store.
    pub fn uuid(&self) -> Uuid {
        self.0.engine.superblock().store
    }

    /// What happened at the opening.
    pub fn recovery(&self) -> RecoveryReport {
        self.0.engine.recovery().clone()
    }

    /// Counters and gauges.
    pub fn stats(&self) -> StoreStats {
        self.0.engine.stats()
    }

    /// Makes every commit so far durable.
    ///
    /// # Errors
    /// When the log fails.
    #[boxed(?Send)]
    pub async fn flush(&self) -> Result<(), DiskError> {
        Ok(self.0.engine.flush().await?)
    }

    /// Brings everything that is committed now home, and makes a log start beyond it durable; as [`Engine::checkpoint`].
    ///
    /// # Errors
    /// When the store takes no changes, fails meanwhile, or is full.
    #[boxed(?Send)]
    pub async fn checkpoint(&self) -> Result<Lsn, DiskError> {
        Ok(self.0.engine.checkpoint().await?)
    }

    /// Verifies every block, and the parity of an array, at most at `rate`; as [`Engine::scrub_at`].
    ///
    /// # Errors
    /// When a device fails; damage is in the report.
    pub async fn scrub_at(
        &self,
        rate: &ByteRate,
        scrub: Scrub,
        progress: impl FnMut(u64, u64) -> bool,
    ) -> Result<ScrubReport, DiskError> {
        Ok(self.0.engine.scrub_at(rate, scrub, progress).await?)
    }

    /// As [`Disk::scrub_at`], as fast as clients leave time for it.
    ///
    /// # Errors
    /// When a device fails; damage is in the report.
    pub async fn scrub(
        &self,
        scrub: Scrub,
        progress: impl FnMut(u64, u64) -> bool,
    ) -> Result<ScrubReport, DiskError> {
        Ok(self.0.engine.scrub(scrub, progress).await?)
    }

    /// Writes everything home and marks the store clean.
    ///
    /// # Errors
    /// When something cannot be written; recovery will do it then.
    #[boxed(?Send)]
    pub async fn close(&self) -> Result<(), DiskError> {
        Ok(self.0.engine.close().await?)
    }

    /// Sets what is called when there is no free block: it ends an open unit that holds space ([`Aru::holds_space`]) and
    /// returns true, or returns false when there is none.
    pub fn set_reclaim(&self, reclaim: impl Fn() -> bool + 'static) {
        *self.0.reclaim.borrow_mut() = Some(Box::new(reclaim));
    }

    /// Runs `look` over the committed pages of the tree. What it changes is dropped.
    ///
    /// # Errors
    /// When a page cannot be read, or the function refuses.
    pub async fn look_at_tree(
        &self,
        look: impl FnMut(&mut TreePages<'_>) -> Result<(), TreeStop>,
    ) -> Result<(), DiskError> {
        tree::run(&self.0, false, look).await.map(drop)
    }

    /// True when the store has a tree.
    pub fn has_tree(&self) -> bool {
        self.0.tree.volume().is_some()
    }

    pub(crate) fn core(&self) -> &Rc<Core> {
        &self.0
    }
}
