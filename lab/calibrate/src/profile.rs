//! Measures a profile for the Disk Mimic: the plan of [`tonearm_head_study::Trials`], on a device (Disk Mimic 2.2,
//! 4.1).

use crate::error::Error;
use crate::probe::{Hooks, Progress, SECTOR};
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_device::Device;
use tonearm_head::{Access, Grid, Profile, Steps};
use tonearm_head_study::Trials;
use tonearm_rt::{Data, Op, Rt};

/// Samples between two calls of `save`.
const SAVE_EVERY: u64 = 20_000;
/// Writes at the wrong time, beyond the number of samples, after which the timer is not good enough.
const LATE_MAX: u64 = 1_000;
/// The same places in every run.
const SEED: u64 = 0x7072_6f66;

/// A grid that takes minutes on the drive itself: requests of 4 to 32 KiB, think times by a millisecond up to
/// a revolution, some 128 skips around the track, three samples.
pub fn short_grid(turn: Nanos, turn_sectors: u32) -> Grid {
    let step = turn_sectors.div_ceil(128);
    Grid {
        sizes: Steps {
            first: 8,
            step: 8,
            count: 8,
        },
        thinks: Steps {
            first: 0,
            step: 1_000_000,
            count: (turn.0.div_ceil(1_000_000) + 1) as u32,
        },
        skips: Steps {
            first: 0,
            step: u64::from(step),
            count: (turn_sectors + turn_sectors / 16) / step + 1,
        },
        samples: 3,
        turn: Some(turn),
    }
}

/// How a profile is taken.
pub struct ProfilePlan {
    /// An empty profile, or one that was measured in part.
    pub profile: Profile,
    /// Sectors that may be overwritten, preferably all in one zone.
    pub range: tonearm_head::Span,
    /// Writes with FUA wait for the medium. If not, a flush follows each write.
    pub fua: bool,
}

/// Measures the rest of a profile. `save` gets the present state from time to time, and at an interruption.
///
/// # Errors
/// When the range is too small, the device fails, the host cannot keep the plan's times, or the hooks ask to stop.
pub async fn take_profile(
    rt: &Rt,
    device: Rc<dyn Device>,
    plan: ProfilePlan,
    mut hooks: Hooks,
    mut save: impl FnMut(&Profile) -> Result<(), Error>,
) -> Result<Profile, Error> {
    let mut trials = Trials::new(plan.profile, plan.range, SEED)?;
    let most = trials.profile().grid().sizes.last();
    let mut buf = Some(BufPool::new(0).alloc_zeroed((most * SECTOR) as usize));
    let (mut requests, mut ended) = (0, rt.now());
    while let Some(trial) = trials.trial() {
        if (hooks.stop)() {
            save(trials.profile())?;
            return Err(Error::Interrupted);
        }
        rt.sleep_until(ended + trial.think.0).await;
        let sent = rt.now();
        let memory = buf.take().expect("one write is under way at a time");
        let data = Data::Buf(memory, 0..(u64::from(trial.sectors) * SECTOR) as usize);
        let op = match plan.fua {
            true => Op::WriteDurable,
            false => Op::Write,
        };
        let (mut result, data) = device.io(op, trial.first * SECTOR, 0, data).await;
        buf = Some(data.into_buf());
        if result.is_ok() && !plan.fua {
            result = device.flush().await.map(|()| 0);
        }
        result.map_err(|source| Error::Io {
            what: "write",
            lba: trial.first,
            source,
        })?;
        ended = rt.now();
        trials.done(&Access {
            first: trial.first,
            sectors: trial.sectors,
            sent,
            done: ended,
        });
        requests += 1;
        let (taken, total) = trials.progress();
        if trials.late() > LATE_MAX + taken {
            save(trials.profile())?;
            return Err(Error::LateHost);
        }
        if requests % 64 == 0 {
            (hooks.progress)(Progress {
                phase: "profile",
                done: taken as f64 / total as f64,
                requests,
            });
        }
        if requests % SAVE_EVERY == 0 {
            save(trials.profile())?;
        }
    }
    Ok(trials.into_profile())
}
