//! Opening the members of a store: the primary one by its path, the others where its superblock says
//! they are, or where the caller says they are now.

use crate::error::StoreError;
use crate::executor::Executor;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::RawDevice;
use tonearm_disk::{Disk, MemberDevice, OpenOptions, Progress};
use tonearm_engine::{MemberSuperblock, load_superblock};
use tonearm_uring::{Lock, MemberError, MemberOptions, open_member};

/// Where the members of a store are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Members {
    /// Present paths of members that are no longer where the store says.
    pub moved: Vec<PathBuf>,
    /// Bypass the page cache where the file system can.
    pub direct: bool,
}

impl Default for Members {
    fn default() -> Self {
        Self {
            moved: Vec::new(),
            direct: true,
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
    let store = superblock.superblock.store;
    let count = superblock.superblock.members.len();
    let mut slots: Vec<Option<(MemberDevice, MemberSuperblock)>> =
        (0..count).map(|_| None).collect();
    let index = usize::from(superblock.superblock.member_index);
    let entries = superblock.superblock.members.clone();
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
    for (index, entry) in entries.iter().enumerate() {
        if slots[index].is_none() {
            let place = folder_of(path).join(&entry.path);
            let found = opener.open(&place);
            let found = found.map_err(|cause| StoreError::MemberLost {
                path: path.to_path_buf(),
                index,
                cause: Box::new(cause),
            })?;
            slots[index] = Some(found);
        }
    }
    let (devices, superblocks) = slots.into_iter().flatten().unzip();
    Ok(Opened {
        devices,
        superblocks,
    })
}

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

/// The folder of a path.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// `path` with `.suffix` behind its name, where the server of a store puts its sockets.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

/// The process that has the store at `path` open, as far as its lock tells.
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
    fn open(&self, path: &Path) -> Result<(MemberDevice, MemberSuperblock), StoreError> {
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
        let member = device_of(self.executor, open_member(path, options)?);
        let (pool, looked_at) = (self.executor.pool.clone(), member.clone());
        let superblock = self.executor.rt.block_on(load(pool, looked_at))?;
        Ok((member, superblock))
    }
}

async fn load(
    pool: BufPool,
    member: MemberDevice,
) -> Result<MemberSuperblock, tonearm_engine::EngineError> {
    load_superblock(&pool, &member).await
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
    MemberDevice {
        device: Rc::new(device),
        path,
    }
}
