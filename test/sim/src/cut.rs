//! One power cut: the store is recovered and compared with the model.

use crate::blame::Blame;
use crate::found::Found;
use crate::model::{Model, Verdict};
use crate::store::StoreImage;
use tonearm_base::BufPool;
use tonearm_disk::{MemberDevice, OpenOptions};
use tonearm_engine::{Inspection, Scrub};
use tonearm_rt::Rt;
use tonearm_trail::WriteCache;
use tonearm_world::{Crash, DiskImage};

/// Result of recovery after a power cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Everything up to this commit is there and can be read.
    Whole(u64),
    /// Everything up to this commit is there, but some blocks cannot be read.
    Damaged(u64),
    /// Some blocks have an earlier version, because a drive has lied.
    Stale,
    /// The store could not be opened.
    Refused,
}

/// At every eighth cut the offline check runs before recovery, and a scrub after it.
const CHECK_EVERY: u64 = 8;

/// Opens a store after a power cut and compares it with `model`.
///
/// # Errors
/// When a promise does not hold and `blame` does not excuse it.
pub fn recover(
    image: StoreImage,
    model: &Model,
    cut: u64,
    ordered: bool,
    blame: Blame,
) -> Result<Ending, String> {
    let checked = cut.is_multiple_of(CHECK_EVERY);
    let sound = match checked {
        true => Some(inspect(&image, cut, blame)?),
        false => None,
    };
    let options = options(cut, ordered);
    let (found, _) = image.within_time(cut, |_, rt, image| async move {
        let disk = match image.open_disk(&rt, options).await {
            Ok(disk) => disk,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let found = Found::read(&disk).await?;
        if checked && !blame.damage {
            let report = disk
                .scrub(Scrub::Repair, |_, _| true)
                .await
                .map_err(|error| error.to_string())?;
            if let Some(damaged) = report.damaged.first() {
                return Err(format!("a scrub after recovery finds {damaged:?}"));
            }
        }
        Ok(Ok(found))
    });
    let found = match found? {
        Ok(found) => found,
        Err(error) if blame.damage && error.len() > 20 => return Ok(Ending::Refused),
        Err(error) => return Err(format!("the opening was refused: {error}")),
    };
    if sound == Some(false) {
        return Err("the offline check finds the log damaged, and recovery does not".into());
    }
    if let Some(error) = found.error.as_ref().filter(|_| !blame.damage) {
        return Err(format!("a block cannot be read after recovery: {error}"));
    }
    match model.judge(&found, blame.stale)? {
        Verdict::Prefix(number) if found.is_whole() => Ok(Ending::Whole(number)),
        Verdict::Prefix(number) => Ok(Ending::Damaged(number)),
        Verdict::Stale => Ok(Ending::Stale),
    }
}

/// What the power cut `cut` leaves on the drives.
pub fn images(crash: &Crash, cut: u64, ordered: bool) -> Vec<DiskImage> {
    match ordered {
        true => crash.images_ordered(cut),
        false => crash.images(cut),
    }
}

/// The options with which a store is recovered after the power cut `cut`.
pub fn options(cut: u64, ordered: bool) -> OpenOptions {
    OpenOptions {
        write_cache: cache(ordered),
        write_back_on_recovery: cut.is_multiple_of(2),
        memory_bytes: if cut.is_multiple_of(3) {
            128 << 10
        } else {
            64 << 20
        },
        writes_while_reading: [8, 64][(cut / 2 % 2) as usize],
        ..OpenOptions::default()
    }
}

/// The setting of the store for the write cache of its storage.
pub fn cache(ordered: bool) -> WriteCache {
    match ordered {
        true => WriteCache::Ordered,
        false => WriteCache::Volatile,
    }
}

/// Runs the offline check. Without a fault it must find nothing wrong. Returns false when it finds the log damaged;
/// recovery must find that too.
pub(crate) fn inspect(image: &StoreImage, seed: u64, blame: Blame) -> Result<bool, String> {
    let examined = image.within_time(seed, |_, rt, image| async move {
        examine(&rt, image.members(&rt), blame).await
    });
    examined.0
}

/// Runs the offline check on `members`, as [`inspect`] does.
pub(crate) async fn examine(
    rt: &Rt,
    members: Vec<MemberDevice>,
    blame: Blame,
) -> Result<bool, String> {
    let pool = BufPool::new(1 << 20);
    let look = Inspection::start(rt, &pool, members, |_, _| {}).await;
    let look = match look {
        Ok(look) => look,
        Err(_) if blame.damage => return Ok(true),
        Err(error) => return Err(format!("the offline check was refused: {error}")),
    };
    let damage = look.log().damage.clone();
    if let Some(error) = damage {
        return match blame.damage {
            true => Ok(false),
            false => Err(format!("the offline check finds damage: {error}")),
        };
    }
    for group in 0..look.groups() {
        match look.check_group(group).await {
            Ok(report) if report.is_sound() || blame.damage => {}
            Ok(report) => return Err(format!("the offline check finds {report:?}")),
            Err(_) if blame.damage => {}
            Err(error) => return Err(format!("the offline check fails: {error}")),
        }
    }
    Ok(true)
}
