//! Rebuilds a missing member's data on a replacement, while the array is in use.
//!
//! Stripes are rebuilt in ascending order, each under its lock. Below the watermark the replacement is a member like any
//! other. Above the watermark it is neither read nor written. Below the saved watermark the replacement is durable, so a
//! rebuild continues there after a crash.

use super::array::{Health, Raid5};
use super::io::JOINED_BYTES_MAX;
use super::rate::RebuildRate;
use super::read::Unreadable;
use super::state::{Missing, RaidError, is_refusal};
use crate::device::Device;
use crate::pace::Pace;
use std::ops::Range;
use std::rc::Rc;
use tonearm_base::{Buf, is_zero};
use tonearm_rt::{Data, IoError};

/// Writes `bytes`, but punches the units of zeroes among them, so that a replacement takes no more space than its
/// predecessor.
async fn restore(
    device: &Rc<dyn Device>,
    offset: u64,
    bytes: Buf,
    unit: u64,
) -> Result<(), IoError> {
    let bytes = bytes.share();
    let (mut at, unit) = (0, unit as usize);
    while at < bytes.len() {
        let zeroes = is_zero(&bytes[at..at + unit]);
        let mut end = at + unit;
        while end < bytes.len() && is_zero(&bytes[end..end + unit]) == zeroes {
            end += unit;
        }
        let place = offset + at as u64;
        let write = || device.write(place, Data::Slices(vec![bytes.slice(at..end)]));
        if zeroes {
            match device.punch(place, (end - at) as u64).await {
                // Not every device can.
                Err(error) if is_refusal(error) => write().await?,
                punched => punched?,
            }
        } else {
            write().await?
        }
        at = end;
    }
    Ok(())
}

/// Bytes of the replacement between two saves of the watermark.
const SAVE_BYTES: u64 = 64 << 20;

/// A rebuild that is running. A replacement is not replaced meanwhile.
struct Running(Raid5);

impl Running {
    fn begin(array: Raid5) -> Self {
        array.rebuilding.set(true);
        Self(array)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.rebuilding.set(false);
    }
}

impl Raid5 {
    /// Puts `device` in the place of the missing member. It is not read before [`Raid5::rebuild`] has restored the data.
    ///
    /// # Errors
    /// When no member is missing, a rebuild is running, or the device does not fit.
    pub fn replace(&self, device: Rc<dyn Device>) -> Result<(), RaidError> {
        let refuse = |why: String| RaidError::Replacement {
            member: device.name().to_string(),
            why,
        };
        let Some(missing) = self.state().missing else {
            return Err(refuse("no member is missing".into()));
        };
        if self.is_rebuilding() {
            return Err(refuse(
                "the replacement in its place is being rebuilt".into(),
            ));
        }
        let needed = self.stripes.rows * self.stripes.unit;
        if device.size_bytes() < needed {
            let found = device.size_bytes();
            return Err(refuse(format!(
                "it has {found} bytes of the {needed} that are needed"
            )));
        }
        if !self.block_size.is_multiple_of(device.block_size()) {
            let (own, array) = (device.block_size(), self.block_size);
            return Err(refuse(format!(
                "its blocks of {own} bytes do not fit those of {array}"
            )));
        }
        if self.member(missing.member).is_some() {
            return Err(refuse("another replacement is in its place".into()));
        }
        self.put_replacement(missing.member, device);
        Ok(())
    }

    /// As [`Raid5::replace`], while the array is in use. Calls `placed` when the replacement is in its place, before the
    /// state with it is saved. A save that began before `placed` has ended by then.
    ///
    /// # Errors
    /// Those of [`Raid5::replace`], and when the state cannot be saved. A replacement that cannot be saved has failed
    /// ([`Raid5::member_states`]).
    pub async fn replace_and_save(
        &self,
        device: Rc<dyn Device>,
        placed: impl FnOnce(),
    ) -> Result<(), RaidError> {
        self.change_members(|| {
            self.replace(device)?;
            placed();
            Ok(())
        })
        .await
    }

    /// True while a rebuild is running.
    pub fn is_rebuilding(&self) -> bool {
        self.rebuilding.get()
    }

    /// Rebuilds the replacement from the watermark on. `progress` gets the number of stripes done, and of all.
    ///
    /// # Errors
    /// When another rebuild is running, the replacement fails, or a stripe has a second unreadable unit. The watermark stays
    /// before that stripe, and the rebuild can be called again. With [`RebuildRate::skip_unreadable`] the rebuild goes on
    /// there, and the error at its end names what is lost.
    pub async fn rebuild(
        &self,
        rate: &RebuildRate,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<(), RaidError> {
        if self.is_rebuilding() {
            return Err(RaidError::RebuildRunning);
        }
        let _running = Running::begin(self.clone());
        let begun = self.begin_write().await;
        begun.map_err(|error| self.error(error))?;
        let Some(Missing { member, .. }) = self.state().missing else {
            return Ok(());
        };
        let unreadable = if rate.skips_unreadable() {
            Unreadable::GivenUp
        } else {
            Unreadable::Fails
        };
        let given_up = self.stats().given_up;
        self.forget_given_up();
        let step = (JOINED_BYTES_MAX / self.stripes.unit).max(1);
        let (end, mut unsaved) = (self.stripes.rows, 0);
        let mut pace = Pace::new(&self.rt, rate.bytes());
        loop {
            let at = self.rebuilding(member)?;
            if at >= end {
                break;
            }
            if rate.is_stopped() {
                self.save_watermark(at).await?;
                return Err(RaidError::RebuildStopped {
                    done: at,
                    rows: end,
                });
            }
            let rows = at..end.min(at + step);
            let bytes = (rows.end - rows.start) * self.stripes.unit;
            if let Err(error) = self.rebuild_rows(member, rows.clone(), unreadable).await {
                // What is restored is kept. The first error says more than one of this save.
                if let Ok(done) = self.rebuilding(member) {
                    self.save_watermark(done).await.ok();
                }
                return Err(error);
            }
            progress(rows.end, end);
            unsaved += bytes;
            if unsaved >= SAVE_BYTES {
                unsaved = 0;
                self.save_watermark(rows.end).await?;
            }
            pace.pause(bytes, || !rate.is_stopped()).await;
        }
        self.flush_members().await;
        self.rebuilding(member)?;
        self.change_state(|health| health.state.missing = None);
        let saved = self.publish().await;
        saved.map_err(|error| self.error(error))?;
        match self.stats().given_up - given_up {
            0 => Ok(()),
            count => Err(self.rebuilt_in_part(count)),
        }
    }

    /// The watermark, if there is a replacement.
    fn rebuilding(&self, member: usize) -> Result<u64, RaidError> {
        self.check_lost().map_err(|error| self.error(error))?;
        let watermark = match self.state().missing {
            Some(missing) if missing.member == member => missing.rebuilt_rows,
            _ => 0,
        };
        self.member(member)
            .map(|_| watermark)
            .ok_or_else(|| RaidError::RebuildFailed {
                member: self.member_name(member),
                error: IoError::EIO,
            })
    }

    async fn save_watermark(&self, rows: u64) -> Result<(), RaidError> {
        self.flush_members().await;
        self.change_state(|health| {
            // It is less if the replacement has failed in the flush.
            let missing = health.state.missing;
            health.durable_rows = rows.min(missing.map_or(0, |missing| missing.rebuilt_rows));
        });
        let saved = self.publish().await;
        saved.map_err(|error| self.error(error))
    }

    fn change_state(&self, change: impl FnOnce(&mut Health)) {
        let mut health = self.health.borrow_mut();
        change(&mut health);
        health.version += 1;
    }

    async fn rebuild_rows(
        &self,
        member: usize,
        rows: Range<u64>,
        unreadable: Unreadable,
    ) -> Result<(), RaidError> {
        let lock = self.locks.lock(rows.clone()).await;
        for row in rows.clone() {
            let repaired = self.repair_degraded_row(row).await;
            repaired.map_err(|error| self.error(error))?;
        }
        let unit = self.stripes.unit;
        let count = (rows.end - rows.start) as usize;
        let range = 0..count as u64 * unit;
        let computed = self.compute_cell(rows.start, member, range.clone());
        let bytes = match computed.await {
            Ok(bytes) => bytes,
            // One stripe at a time, to rebuild as many as possible and to name the one that fails.
            Err(_) if count == 1 => {
                let computed = self.read_cell(rows.start, member, range, unreadable);
                let computed = computed.await;
                computed.map_err(|failed| self.unreadable(failed))?
            }
            Err(_) => {
                drop(lock);
                for row in rows {
                    Box::pin(self.rebuild_rows(member, row..row + 1, unreadable)).await?;
                }
                return Ok(());
            }
        };
        let written = match self.member(member) {
            Some(device) => restore(&device, rows.start * unit, bytes, unit).await,
            None => Err(IoError::EIO),
        };
        if let Err(error) = written {
            let member_name = self.member_name(member);
            if is_refusal(error) {
                return Err(RaidError::RebuildRefused {
                    member: member_name,
                    error,
                });
            }
            self.mark_failed(member, error);
            return Err(RaidError::RebuildFailed {
                member: member_name,
                error,
            });
        }
        let mut health = self.health.borrow_mut();
        match &mut health.state.missing {
            Some(missing) if missing.member == member && missing.rebuilt_rows == rows.start => {
                missing.rebuilt_rows = rows.end;
            }
            _ => {}
        }
        Ok(())
    }
}
