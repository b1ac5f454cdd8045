//! A volume as a device of the kernel's ublk driver.
//!
//! ```text
//! add, or take over --> engine serves the queue --> start --> wait for the end of the queue --> delete
//! ```

use super::engine_thread::Event;
use super::mailbox::{Mailbox, Message};
use anyhow::{Context, bail};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::time::{Duration, Instant};
use tonearm_attach::{
    Ask, AttachError, Device, Driver, Found, Identity, QueuePlan, Ublk, UblkShape, is_claimed,
};
use tonearm_terminal::{report, size};

/// How often it is tried to take a device over from a server that has ended, and for how long. The kernel notices the end within
/// milliseconds, or within two seconds when the server had as many requests as it can have.
const TAKE_OVER_EVERY: Duration = Duration::from_millis(5);
const TAKE_OVER_MAX: Duration = Duration::from_secs(30);

/// How long a device may take to go when its server ends.
const GOING: Duration = Duration::from_secs(10);

/// A device that this server serves.
pub struct UblkDevice {
    identity: Identity,
    index: u32,
    /// Closed when the device has gone.
    gone: Receiver<()>,
}

impl UblkDevice {
    /// Takes over the device that an earlier server has left, or makes one. Its end is an event.
    ///
    /// # Errors
    /// When the kernel or the engine refuses.
    pub fn start(
        identity: Identity,
        shape: UblkShape,
        mailbox: &Mailbox,
        events: Sender<Event>,
    ) -> anyhow::Result<Self> {
        let mut driver = Ublk::new()?;
        let (ending, ended) = channel();
        let found = match take_over(&mut driver, &identity)? {
            Some(found) => {
                report_difference(&mut driver, &found, shape)?;
                serve(&mut driver, &found, &identity, mailbox, ending)?;
                found
            }
            None => {
                let found = driver.add(shape, &identity)?;
                let served = serve(&mut driver, &found, &identity, mailbox, ending);
                if let Err(error) = served {
                    driver.abort(found.index, &identity)?;
                    driver.delete(found.index, &identity)?;
                    return Err(error);
                }
                found
            }
        };
        let index = found.index;
        if let Err(error) = driver.register(index, &identity) {
            report::note(error);
        }
        let (present, gone) = channel();
        let theirs = identity.clone();
        std::thread::Builder::new()
            .name("attach".into())
            .spawn(move || {
                // Without a word the engine's thread has ended, and the server ends with it.
                if let Ok(fault) = ended.recv() {
                    let result = forget(index, &theirs, fault);
                    let path = Device::path_of(Driver::Ublk, index);
                    // The main thread may have ended meanwhile.
                    let _ = events.send(Event::Detached(path, result));
                }
                drop(present);
            })?;
        Ok(Self {
            identity,
            index,
            gone,
        })
    }

    /// Whose it is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Path of the device.
    pub fn path(&self) -> PathBuf {
        Device::path_of(Driver::Ublk, self.index)
    }

    /// Ends the device before its server ends, unless it is in use: then its programs wait for another server. `is_served` says that the
    /// engine still serves it.
    pub fn end(&self, is_served: bool) {
        let path = self.path();
        match is_claimed(&path) {
            Ok(true) => report::note(format_args!(
                "{} is in use: its programs wait until `tonearm attach` serves it again",
                path.display(),
            )),
            Ok(false) => {
                let stopped = Ublk::new().and_then(|mut driver| {
                    if is_served {
                        driver.sync(self.index)?;
                    }
                    driver.abort(self.index, &self.identity)
                });
                if let Err(error) = stopped {
                    report::note(format_args!("{}: {error}", path.display()));
                    return;
                }
                if !is_served {
                    let deleted = Ublk::new()
                        .and_then(|mut driver| driver.delete(self.index, &self.identity));
                    deleted.unwrap_or_else(report::note);
                    return;
                }
                // Its end is the end of the channel.
                let _ = self.gone.recv_timeout(GOING);
            }
            Err(error) => report::note(error),
        }
    }
}

/// Begins to take over the device that an earlier server has left, if there is one.
fn take_over(driver: &mut Ublk, identity: &Identity) -> Result<Option<Found>, AttachError> {
    let began = Instant::now();
    while let Some(found) = driver.find(identity)? {
        if driver.take_over(&found)? {
            return Ok(Some(found));
        }
        if began.elapsed() > TAKE_OVER_MAX {
            let path = Device::path_of(Driver::Ublk, found.index);
            return Err(AttachError::Served(path));
        }
        std::thread::sleep(TAKE_OVER_EVERY);
    }
    Ok(None)
}

/// A device that is taken over is as it was made.
fn report_difference(
    driver: &mut Ublk,
    found: &Found,
    wanted: UblkShape,
) -> Result<(), AttachError> {
    let shape = driver.shape(found.index)?;
    if shape != wanted {
        report::note(format_args!(
            "{} keeps its {} in sectors of {} bytes{} until it is detached",
            Device::path_of(Driver::Ublk, found.index).display(),
            size::text(shape.size_bytes),
            shape.block_bytes,
            if shape.read_only { ", read-only," } else { "" },
        ));
    }
    Ok(())
}

/// Has the engine serve the queue, and gives the device to programs.
fn serve(
    driver: &mut Ublk,
    found: &Found,
    identity: &Identity,
    mailbox: &Mailbox,
    ended: Sender<Option<String>>,
) -> anyhow::Result<()> {
    let plan = QueuePlan {
        volume: identity.volume.clone(),
        device: driver.open(found)?,
        depth: found.depth,
        ended,
    };
    let (reply, answer) = sync_channel(1);
    mailbox.send(Message::Ublk(Ask(Box::new(plan), reply)));
    match answer.recv().context("the server is shutting down")? {
        Ok(()) => Ok(driver.start(found)?),
        Err(why) => bail!("the queue of the device cannot be served: {why}"),
    }
}

/// Deletes a device whose queue has ended because it was stopped.
fn forget(index: u32, identity: &Identity, fault: Option<String>) -> Result<(), AttachError> {
    match fault {
        None => Ublk::new()?.delete(index, identity),
        Some(why) => Err(AttachError::QueueFailed(why)),
    }
}
