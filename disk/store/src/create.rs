//! Making a store in one file.

use crate::error::StoreError;
use crate::executor::Executor;
use crate::members::device_of;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use tonearm_base::Lsn;
use tonearm_disk::{CreateParams, CreatePlan, MemberSpace, NewMember, plan_create};
use tonearm_engine::{EngineError, HomeParams};
use tonearm_format::Roles;
use tonearm_uring::{Create, MemberOptions, open_member};

/// Parameters of a new store. The command `tonearm create` has more: several members, log drives, devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreateOptions {
    /// Bytes for files, volumes and lists.
    pub size_bytes: u64,
    /// Bytes of the log; chosen from the size when not given.
    pub log_bytes: Option<u64>,
    /// Bytes of a block: a power of two from 4096 on.
    pub block_size: u32,
}

impl Default for CreateOptions {
    /// 1 GiB in blocks of 4 KiB.
    fn default() -> Self {
        Self {
            size_bytes: 1 << 30,
            log_bytes: None,
            block_size: 4096,
        }
    }
}

/// Makes an empty store, without volumes, in a new file at `path`.
///
/// # Errors
/// When `path` exists, or the sizes do not work. Nothing is left at `path` then, except what was there before.
pub fn create(path: &Path, options: &CreateOptions) -> Result<(), StoreError> {
    create_behind(path, options, HomeParams::default(), None)
}

/// As [`create`], with the layout of `home`. The first commit of the store will be the one behind `lsn`, because the store
/// gets the state of another store at that commit.
///
/// # Errors
/// As for [`create`].
pub fn create_behind(
    path: &Path,
    options: &CreateOptions,
    home: HomeParams,
    restored: Option<Lsn>,
) -> Result<(), StoreError> {
    let params = CreateParams {
        size_bytes: options.size_bytes,
        log_bytes: options.log_bytes,
        track_bytes: None,
        block_size: options.block_size,
        head: None,
        home,
        store: new_uuid(),
        created_unix_s: now_unix_s(),
    };
    let member = MemberSpace {
        roles: Roles {
            log: true,
            data: true,
        },
        available_bytes: None,
        uuid: new_uuid(),
        path: String::new(),
    };
    let mut plan = plan_create(&params, &[member])?;
    if let Some(lsn) = restored {
        plan.begin_behind(lsn);
    }
    let executor = Executor::new()?;
    let create = Create {
        size_bytes: plan.member_bytes[0],
        written: plan.superblock.log_range(0),
        force: false,
        progress: None,
    };
    let options = MemberOptions {
        create: Some(create),
        ..MemberOptions::default()
    };
    let member = NewMember {
        device: device_of(&executor, open_member(path, options)?).device,
        blank: true,
        log_written: true,
    };
    let written = write(&executor, plan, member);
    executor.rt.shut_down();
    if written.is_err() {
        // This function made the file.
        let _ = std::fs::remove_file(path);
    }
    Ok(written?)
}

fn write(executor: &Executor, plan: CreatePlan, member: NewMember) -> Result<(), EngineError> {
    let (rt, pool) = (executor.rt.clone(), executor.pool.clone());
    let making =
        async move { tonearm_engine::create(&rt, &pool, &plan, &[member], |_, _| {}).await };
    executor.rt.block_on(making)
}

/// A new identity.
pub fn new_uuid() -> tonearm_format::Uuid {
    *uuid::Uuid::new_v4().as_bytes()
}

/// The time of day, in seconds since 1970.
pub fn now_unix_s() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}
