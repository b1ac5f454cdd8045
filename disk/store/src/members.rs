//! Opening the members of a store: the primary one by its path, the others where its superblock says
//! they are, or where the caller says they are now.

mod array;
mod identity;

use crate::error::StoreError;
use crate::executor::Executor;
use crate::loads::Load;
use crate::place::store_folder;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::{Device, DeviceIo, RawDevice, stack};
use tonearm_disk::{Disk, MemberDevice, OpenOptions, Progress};
use tonearm_engine::{EngineError, MemberSuperblock, StoreArray, load_descriptor, load_superblock};
use tonearm_format::{MemberEntry, Uuid};
use tonearm_rt::{Data, DeviceId, Op, Rt};
use tonearm_uring::{Lock, MemberError, MemberKind, MemberOptions, open_member};

/// Where the members of a store are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Members {
    /// Present paths of members that are no longer where the store says.
    pub moved: Vec<PathBuf>,
    /// Bypass the page cache where the file system can.
    pub direct: bool,
    /// Open an array for writing without a member that is missing, although it was not closed in order. Blocks of that
    /// member that lie in a stripe with blocks that were being written may be lost then
    /// ([`EngineError::ArrayUnclean`]).
    pub degraded: bool,
}

impl Default for Members {
    fn default() -> Self {
        Self {
            moved: Vec::new(),
            direct: true,
            degraded: false,
        }
    }
}

/// How members are opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// For writing; no other process may open the member.
    Write,
    /// For reading; no other process may write to the member.
    Read,
    /// For a look at a member that another process may be changing.
    Peek,
}

/// Opened members: first the primary one, then the others in the store's order.
pub struct Opened {
    /// For `Disk::open`.
    pub devices: Vec<MemberDevice>,
    /// What their superblock slots hold, in the same order.
    pub superblocks: Vec<MemberSuperblock>,
    /// The array that is the second member, if the store has one.
    pub array: Option<StoreArray>,
}

/// Opens the members of the store at `path`.
///
/// # Errors
/// When one is missing, in use, or no member of this store.
pub fn open_members(
    executor: &Executor,
    path: &Path,
    places: &Members,
    access: Access,
) -> Result<Opened, StoreError> {
    let opener = Opener {
        executor,
        access,
        direct: places.direct,
    };
    let (primary, superblock) = opener.open(path)?;
    if superblock.superblock.array.is_some() {
        return opener.open_array(path, primary, superblock, places);
    }
    let store = superblock.superblock.store;
    let entries = superblock.superblock.members.clone();
    let mut slots: Slots = entries.iter().map(|_| None).collect();
    let index = usize::from(superblock.superblock.member_index);
    slots[index] = Some((primary, superblock));
    for place in &places.moved {
        let (device, superblock) = opener.open(place)?;
        let index = usize::from(superblock.superblock.member_index);
        if superblock.superblock.store != store {
            return Err(StoreError::OtherStore {
                member: place.clone(),
                path: path.to_path_buf(),
            });
        }
        match slots.get_mut(index) {
            Some(slot @ None) => *slot = Some((device, superblock)),
            _ => return Err(StoreError::NamedTwice(place.clone())),
        }
    }
    if slots[0].is_none() {
        return Err(StoreError::NotPrimary {
            path: path.to_path_buf(),
            index,
        });
    }
    opener.open_named(path, store, &entries, &mut slots)?;
    let (devices, superblocks) = slots.into_iter().flatten().unzip();
    Ok(Opened {
        devices,
        superblocks,
        array: None,
    })
}

/// The members that are open, each with its superblock, in the store's order.
type Slots = Vec<Option<(MemberDevice, MemberSuperblock)>>;

/// Opens the store at `path` for use, and recovers it if need be.
///
/// # Errors
/// When its members cannot be opened, or recovery fails.
pub fn open_disk(
    executor: &Executor,
    path: &Path,
    places: &Members,
    options: OpenOptions,
    progress: impl FnMut(Progress) + 'static,
) -> Result<Disk, StoreError> {
    let access = if options.read_only {
        Access::Read
    } else {
        Access::Write
    };
    let members = open_members(executor, path, places, access)?.devices;
    let (rt, pool) = (executor.rt.clone(), executor.pool.clone());
    let opening = async move { Disk::open(&rt, &pool, members, options, progress).await };
    Ok(executor.rt.block_on(opening)?)
}

/// The process that has the store at `path` open, as far as its lock shows.
pub fn holder(path: &Path) -> Option<u32> {
    let options = MemberOptions {
        read_only: true,
        lock: Lock::Shared,
        ..MemberOptions::default()
    };
    match open_member(path, options) {
        Err(MemberError::InUse { holder, .. }) => holder,
        _ => None,
    }
}

struct Opener<'a> {
    executor: &'a Executor,
    access: Access,
    direct: bool,
}

impl Opener<'_> {
    /// Opens the members of `store` that are not open yet: where its `entries` say, or among the block devices.
    fn open_named(
        &self,
        path: &Path,
        store: Uuid,
        entries: &[MemberEntry],
        slots: &mut Slots,
    ) -> Result<(), StoreError> {
        let named: Vec<bool> = slots.iter().map(Option::is_some).collect();
        let (folder, mut others) = (store_folder(path), Vec::new());
        for (index, entry) in entries.iter().enumerate().filter(|(at, _)| !named[*at]) {
            let found = self.open(&folder.join(&entry.path));
            // Two devices may have each other's name now.
            let own = found
                .as_ref()
                .ok()
                .and_then(|(_, found)| index_in(store, found));
            match (own.and_then(|own| slots.get_mut(own)), found) {
                (Some(slot @ None), Ok(found)) => *slot = Some(found),
                (_, found) => others.push((index, found)),
            }
        }
        for (index, other) in others {
            let lost = |cause| StoreError::MemberLost {
                path: path.to_path_buf(),
                index,
                cause: Box::new(cause),
            };
            if slots[index].is_none() {
                let found = self.find_device(|peek, device| {
                    let found = peek.superblock_of(device).ok()?;
                    (index_in(store, &found) == Some(index)).then_some(found)
                });
                slots[index] = found.map_err(lost)?;
            }
            match (&slots[index], other) {
                (None, other) => slots[index] = Some(other.map_err(lost)?),
                // What has the member's name now is another device.
                (Some(_), Ok((other, _))) => other.device.release(),
                (Some(_), Err(_)) => {}
            }
        }
        Ok(())
    }

    fn open(&self, path: &Path) -> Result<(MemberDevice, MemberSuperblock), StoreError> {
        let member = self.open_member(path)?;
        let superblock = self.superblock_of(&member)?;
        Ok((member, superblock))
    }

    fn superblock_of(&self, member: &MemberDevice) -> Result<MemberSuperblock, EngineError> {
        let loading = load(self.executor.pool.clone(), member.clone());
        self.executor.rt.block_on(loading)
    }

    fn open_member(&self, path: &Path) -> Result<MemberDevice, StoreError> {
        let options = MemberOptions {
            create: None,
            read_only: self.access != Access::Write,
            direct: self.direct,
            lock: match self.access {
                Access::Write => Lock::Exclusive,
                Access::Read => Lock::Shared,
                Access::Peek => Lock::None,
            },
        };
        Ok(device_of(self.executor, open_member(path, options)?))
    }
}

/// Which member of the store `store` has this superblock.
fn index_in(store: Uuid, found: &MemberSuperblock) -> Option<usize> {
    let superblock = &found.superblock;
    (superblock.store == store).then_some(usize::from(superblock.member_index))
}

async fn load(pool: BufPool, member: MemberDevice) -> Result<MemberSuperblock, EngineError> {
    let loaded = load_superblock(&pool, &member).await;
    if let Err(EngineError::NotAStore { .. }) = &loaded
        && let Ok(Some(_)) = load_descriptor(&pool, &member).await
    {
        return Err(EngineError::WrongMember {
            member: member.path,
            why: "is a member of a store's array; name the path of the store, where its log is"
                .into(),
        });
    }
    loaded
}

/// An opened member as a device of the executor.
pub fn device_of(executor: &Executor, member: tonearm_uring::Member) -> MemberDevice {
    let path = member.path.display().to_string();
    let id = executor.handle.add_file(member.fd);
    let device = RawDevice::new(
        &executor.rt,
        id,
        member.size_bytes,
        member.logical_block_size,
        &path,
    );
    let device: Rc<dyn Device> = Rc::new(device);
    MemberDevice::new(Rc::new(OpenMember {
        is_file: member.kind == MemberKind::File,
        load: executor.loads.add(&executor.rt, id, &path),
        device: if member.direct {
            device
        } else {
            stack::through_cache(device)
        },
        rt: executor.rt.clone(),
        id,
    }))
}

/// A member with the file that it holds open and locked.
struct OpenMember {
    is_file: bool,
    device: Rc<dyn Device>,
    load: Rc<Load>,
    rt: Rt,
    id: DeviceId,
}

impl Device for OpenMember {
    fn name(&self) -> &str {
        self.device.name()
    }

    fn size_bytes(&self) -> u64 {
        self.device.size_bytes()
    }

    fn block_size(&self) -> u32 {
        self.device.block_size()
    }

    fn set_size_bytes(&self, size_bytes: u64) -> bool {
        self.is_file && self.device.set_size_bytes(size_bytes)
    }

    fn io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo {
        self.load.measured(self.device.io(op, offset, len, data))
    }

    fn release(&self) {
        // The file is closed when the operations on it have ended, and nothing depends on that.
        drop(self.rt.stream(self.id, Op::Close, Data::None));
    }
}
