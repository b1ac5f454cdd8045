//! Requests that change volumes: what they would take from others is checked first, on the side that has the store open.
//!
//! Invariant: no data that a volume holds and no volume below a client is lost unless the request says so.

use super::protocol::Request;
use anyhow::bail;
use tonearm_disk::{Disk, DiskError};
use tonearm_engine::EngineError;
use tonearm_terminal::size;

/// Most clients that an error names one by one.
const NAMED_MAX: usize = 3;

/// Checks that `request` takes nothing from the `users` of its volume, and no data, unless it says that it may.
///
/// # Errors
/// When it does.
pub async fn check_change(disk: &Disk, request: &Request, users: &[String]) -> anyhow::Result<()> {
    match request {
        Request::VolumeDelete { name, force }
            if !users.is_empty() && !force && is_writable(disk, name) =>
        {
            bail!(
                "volume {name} is in use by {}; end that first, or use --force: requests of clients fail then",
                users_text(users)
            );
        }
        Request::VolumeResize {
            name,
            size_bytes,
            shrink,
            force,
        } => {
            let Ok(volume) = disk.volume(name) else {
                return Ok(());
            };
            let (old, new) = (volume.size_bytes(), *size_bytes);
            if new >= old || !is_writable(disk, name) {
                return Ok(());
            }
            if !users.is_empty() && !force {
                bail!(
                    "volume {name} is in use by {}, and would become smaller below it; end that first, or use --force: \
                     requests beyond {} fail then",
                    users_text(users),
                    size::text(new)
                );
            }
            if !shrink && has_data(&volume, new, old).await? {
                bail!(
                    "volume {name} has data beyond {}, which would be lost; use --shrink if you mean it",
                    size::text(new)
                );
            }
        }
        _ => {}
    }
    Ok(())
}

/// Whether the volume takes changes. The change of another one fails, and says why.
fn is_writable(disk: &Disk, name: &str) -> bool {
    disk.volume(name).is_ok_and(|volume| !volume.read_only())
}

/// Whether a block from byte `from` to byte `to` is allocated.
async fn has_data(volume: &tonearm_disk::Volume, from: u64, to: u64) -> Result<bool, DiskError> {
    let mut at = from;
    while at < to {
        let runs = volume.status(at, to - at).await?;
        let seen: u64 = runs.iter().map(|(bytes, _)| bytes).sum();
        if seen == 0 || runs.iter().any(|(_, allocated)| *allocated) {
            return Ok(true);
        }
        at += seen;
    }
    Ok(false)
}

/// The users of a volume, for a sentence.
pub fn users_text(users: &[String]) -> String {
    let named = &users[..users.len().min(NAMED_MAX)];
    match (users.len() - named.len(), named) {
        (0, [first @ .., last]) if !first.is_empty() => {
            format!("{} and {last}", first.join(", "))
        }
        (0, _) => named.join(", "),
        (more, _) => format!("{} and {more} more", named.join(", ")),
    }
}

/// The command that makes room for files, half of the size of a volume: beside it if the store can grow, and else in it.
pub fn room_text(store: &str, volume: &str, size_bytes: u64, can_grow: bool) -> String {
    let half = size::argument((size_bytes / 2).next_multiple_of(4096));
    if can_grow {
        format!("tonearm grow {store} --by {half}")
    } else {
        format!("tonearm volume resize {store} {volume} --size {half}")
    }
}

/// Changes volumes or the size of the store as `request` asks; other requests change nothing. When the store has too little space, it
/// becomes larger first, if it can.
///
/// # Errors
/// When the disk refuses.
pub async fn change_volumes(disk: &Disk, request: &Request) -> anyhow::Result<()> {
    let (free, needed) = match carry_out(disk, request).await {
        Err(DiskError::StoreFull {
            free_bytes,
            needed_bytes,
        }) => (free_bytes, needed_bytes),
        other => return Ok(other?),
    };
    match disk.grow(needed - free).await {
        Ok(()) => Ok(carry_out(disk, request).await?),
        Err(DiskError::Engine(EngineError::CannotGrow(why))) => bail!(
            "the store has {free} bytes free, {needed} are needed; shrink or delete a volume or file: it cannot grow, because {why}"
        ),
        Err(error) => Err(error.into()),
    }
}

async fn carry_out(disk: &Disk, request: &Request) -> Result<(), DiskError> {
    match request {
        Request::Grow { bytes } => disk.grow(*bytes).await,
        Request::VolumeCreate { name, size_bytes } => create_volume(disk, name, *size_bytes).await,
        Request::VolumeDelete { name, .. } => disk.delete_volume(name).await,
        Request::VolumeResize {
            name, size_bytes, ..
        } => disk.resize_volume(name, *size_bytes).await,
        Request::VolumeSet { name, read_only } => disk.set_read_only(name, *read_only).await,
        _ => Ok(()),
    }
}

/// Makes a volume with a new identity, now.
///
/// # Errors
/// Those of `Disk::create_volume`.
pub async fn create_volume(disk: &Disk, name: &str, size_bytes: u64) -> Result<(), DiskError> {
    let (uuid, now) = (tonearm_store::new_uuid(), tonearm_store::now_unix_s());
    disk.create_volume(name, size_bytes, uuid, now).await
}

#[cfg(test)]
#[path = "change_test.rs"]
mod change_test;
