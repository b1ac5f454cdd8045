//! What a new store is to be, which files and devices it gets, and what goes where on them. Nothing is made here.

use crate::place::{recorded, whole};
use rustix::fs::{FileType, Mode, OFlags, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use tonearm_base::Lsn;
use tonearm_disk::{CreateParams, CreatePlan, HeadParams, MemberSpace, plan_create};
use tonearm_engine::{ArrayParams, ArrayPlan, EngineError, HomeParams, plan_array};
use tonearm_format::{ArrayLevel, HEADER_AREA_BYTES, Roles, Uuid};

/// How a new store is to be.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// Bytes for files, volumes and lists.
    pub size_bytes: u64,
    /// Bytes of the log; chosen from the size when not given.
    pub log_bytes: Option<u64>,
    /// Bytes of a block: a power of two from 4096 on.
    pub block_size: u32,
    /// Where blocks live at home.
    pub home: HomeParams,
    /// Files or devices that have the log instead of the primary member.
    pub log: Vec<PathBuf>,
    /// How the heads of the drives in `log` are followed.
    pub head: Option<HeadParams>,
    /// Further files or devices for blocks.
    pub data: Vec<PathBuf>,
    /// Those of `data` are the members of an array of this level and stripe unit in bytes. All blocks are on it, and the log is
    /// on the primary member.
    pub array: Option<(ArrayLevel, u64)>,
    /// Make the volume `main`, which has all of the space.
    pub main_volume: bool,
    /// Take all space now instead of when it is written.
    pub preallocate: bool,
    /// Overwrite existing files, and use block devices.
    pub force: bool,
    /// The store gets the state of another store at this commit: its first own one will be the next. Until
    /// [`Engine::complete`](tonearm_engine::Engine::complete) says that it has it, it is no store for anybody else.
    pub restored: Option<Lsn>,
}

impl Default for CreateOptions {
    /// 1 GiB in blocks of 4 KiB, in one new file without volumes.
    fn default() -> Self {
        Self {
            size_bytes: 1 << 30,
            log_bytes: None,
            block_size: 4096,
            home: HomeParams::default(),
            log: Vec::new(),
            head: None,
            data: Vec::new(),
            array: None,
            main_volume: false,
            preallocate: false,
            force: false,
            restored: None,
        }
    }
}

/// A file or device of a new store.
#[derive(Clone, Debug)]
pub struct PlannedMember {
    /// Its path.
    pub path: PathBuf,
    /// Its roles, and the space that is there.
    pub space: MemberSpace,
    /// Bytes that it gets.
    pub bytes: u64,
}

/// What goes where.
pub(super) struct Planned {
    pub members: Vec<PlannedMember>,
    pub params: CreateParams,
    pub store: CreatePlan,
    pub array: Option<ArrayPlan>,
}

impl Planned {
    /// Plans the store whose primary member is `path`.
    pub fn new(path: &Path, options: &CreateOptions) -> Result<Self, EngineError> {
        let spaces = spaces(path, options)?;
        let params = CreateParams {
            size_bytes: options.size_bytes,
            log_bytes: options.log_bytes,
            track_bytes: None,
            block_size: options.block_size,
            head: options.head.clone(),
            home: options.home,
            store: new_uuid(),
            created_unix_s: now_unix_s(),
        };
        let own: Vec<MemberSpace> = spaces.iter().map(|(_, space)| space.clone()).collect();
        let (mut store, array) = match options.array {
            None => (plan_create(&params, &own)?, None),
            Some((level, _)) if !options.log.is_empty() => {
                return Err(EngineError::Create(format!(
                    "--redundancy {}: PATH itself has the log, and the --data members have the blocks; leave --log out",
                    level.name()
                )));
            }
            Some((level, stripe_bytes)) => {
                let array = ArrayParams {
                    level,
                    stripe_bytes,
                    uuid: new_uuid(),
                };
                let (store, array) = plan_array(&params, &array, &own[0], &own[1..])?;
                (store, Some(array))
            }
        };
        if let Some(lsn) = options.restored {
            store.begin_after(lsn);
        }
        let bytes = |index: usize| match &array {
            None => store.member_bytes[index],
            Some(array) if index == 0 => array.primary_bytes,
            Some(array) => array.member_bytes,
        };
        let member = |(index, (path, space))| PlannedMember {
            path,
            space,
            bytes: bytes(index),
        };
        Ok(Self {
            members: spaces.into_iter().enumerate().map(member).collect(),
            params,
            store,
            array,
        })
    }

    /// Bytes of member `index` that are filled with zeroes at once.
    pub fn filled(&self, index: usize, preallocate: bool) -> Range<u64> {
        let bytes = self.members[index].bytes;
        if preallocate {
            0..bytes
        } else if self.array.is_none() {
            self.store.superblock.log_range(index)
        } else if index == 0 {
            // A full disk must stop neither the log nor the parity records after it.
            HEADER_AREA_BYTES..bytes
        } else {
            0..0
        }
    }

    /// True when a store of `size_bytes` is possible, and none of its members has more than `member_max` bytes.
    pub fn fits(&self, size_bytes: u64, member_max: u64) -> bool {
        let params = CreateParams {
            size_bytes,
            ..self.params.clone()
        };
        let spaces = self.members.iter().map(|member| member.space.clone());
        let plan = plan_create(&params, &spaces.collect::<Vec<_>>());
        plan.is_ok_and(|plan| plan.member_bytes.iter().all(|bytes| *bytes <= member_max))
    }
}

/// The members with their roles: the primary one has blocks, and the log too unless another has it.
fn spaces(
    path: &Path,
    options: &CreateOptions,
) -> Result<Vec<(PathBuf, MemberSpace)>, EngineError> {
    let primary = Roles {
        log: options.log.is_empty(),
        data: options.array.is_none(),
    };
    let (log, data) = (
        Roles {
            log: true,
            data: false,
        },
        Roles {
            log: false,
            data: true,
        },
    );
    let mut members = vec![(path, primary)];
    members.extend(options.log.iter().map(|path| (path.as_path(), log)));
    members.extend(options.data.iter().map(|path| (path.as_path(), data)));
    let is_alone = members.len() == 1;
    let (mut seen, mut spaces) = (Vec::new(), Vec::new());
    for (path_of_member, roles) in members {
        let mut name = String::new();
        if !is_alone {
            let whole = whole(path_of_member)?;
            if seen.contains(&whole) {
                return Err(EngineError::Create(format!(
                    "{} is named twice; each member needs a file or device of its own",
                    path_of_member.display()
                )));
            }
            if !seen.is_empty() {
                name = recorded(path, &whole)?;
            }
            seen.push(whole);
        }
        let space = MemberSpace {
            roles,
            available_bytes: device_bytes(path_of_member)?,
            uuid: new_uuid(),
            path: name,
        };
        spaces.push((path_of_member.to_path_buf(), space));
    }
    Ok(spaces)
}

/// Size of a block device; `None` for anything else.
fn device_bytes(path: &Path) -> Result<Option<u64>, EngineError> {
    match rustix::fs::stat(path) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice => {
            let size = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
                .and_then(|fd| rustix::fs::seek(&fd, SeekFrom::End(0)));
            let size = size.map_err(|error| {
                let path = path.display();
                EngineError::Create(format!("cannot find the size of {path}: {error}"))
            })?;
            Ok(Some(size))
        }
        _ => Ok(None),
    }
}

/// A new identity.
pub fn new_uuid() -> Uuid {
    *uuid::Uuid::new_v4().as_bytes()
}

/// The time of day, in seconds since 1970.
pub fn now_unix_s() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}
