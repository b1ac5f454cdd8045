//! Volumes that the kernel has as block devices: which driver makes them, and those of the kernel's NBD client. For those of ublk see
//! `ublk.rs`.
//!
//! ```text
//! kernel's NBD client <-- socket pair --> connection of the engine
//!         ^                                   | its end: the thread makes another pair
//!         +---- netlink: connect, reconnect <-+
//! ```

use super::engine_thread::Event;
use super::mailbox::{Mailbox, Message};
use super::ublk::UblkDevice;
use crate::cli::AttachArgs;
use crate::control::{Answer, Event as Reply, Request};
use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use tonearm_attach::{
    AttachError, Device, Driver, Identity, Kernel, Shape, UblkShape, choose, load_module,
    nbd_devices,
};
use tonearm_nbd::proto::{Negotiated, transmission_flags};
use tonearm_nbd::{Accepted, Catalog, Client, Export};
use tonearm_terminal::report;

/// How often a dead socket of the kernel is looked for, and for how long. The kernel notices one within milliseconds.
const RECONNECT_EVERY: Duration = Duration::from_millis(50);
const RECONNECT_MAX: Duration = Duration::from_secs(30);

/// How long a device that has lost its socket may take to go, before it is given another one.
const GOING: Duration = Duration::from_millis(300);

/// Volumes that are to be attached.
#[derive(Clone)]
pub struct AttachPlan {
    /// The store, as devices show it.
    store: PathBuf,
    volumes: Vec<String>,
    arguments: AttachArgs,
    /// The engine's thread is the only one that enters its ring.
    alone: bool,
}

/// A device that this server serves.
pub enum Attached {
    /// By the kernel's NBD client.
    Nbd(NbdDevice),
    /// By ublk.
    Ublk(UblkDevice),
}

/// A device of the kernel's NBD client.
pub struct NbdDevice {
    link: Arc<Link>,
    device: Device,
}

/// What makes sockets for a device.
struct Link {
    identity: Identity,
    shape: Shape,
    export: Export,
    mailbox: Mailbox,
    /// The server is about to end.
    ending: AtomicBool,
}

impl AttachPlan {
    /// A plan for volumes of the store at `store`.
    ///
    /// # Errors
    /// When the path cannot be made absolute, or a volume is named twice.
    pub fn of(store: &Path, volumes: Vec<String>, arguments: &AttachArgs) -> anyhow::Result<Self> {
        let mut named = HashSet::new();
        if let Some(twice) = volumes.iter().find(|volume| !named.insert(*volume)) {
            bail!("volume {twice} is to be attached twice; it has one device");
        }
        Ok(Self {
            store: std::path::absolute(store)?,
            volumes,
            arguments: arguments.clone(),
            alone: true,
        })
    }

    /// The same in a server that has a mount, too: its threads enter the ring in turn.
    ///
    /// # Errors
    /// When the arguments demand ublk.
    pub fn with_mount(self) -> anyhow::Result<Self> {
        if self.arguments.driver == Some(Driver::Ublk) {
            bail!(AttachError::WithMount);
        }
        Ok(Self {
            alone: false,
            ..self
        })
    }

    /// Attaches all volumes, and adds their devices to `attached`. The end of a device is an event.
    ///
    /// # Errors
    /// When there is no such volume, or the kernel refuses. Devices that were made before stay in `attached`.
    pub fn start(
        &self,
        mailbox: &Mailbox,
        catalog: &Catalog,
        events: &Sender<Event>,
        attached: &mut Vec<Attached>,
    ) -> anyhow::Result<()> {
        for volume in &self.volumes {
            let link = Arc::new(self.link(volume, mailbox, catalog)?);
            let driver = choose(&link.identity, self.arguments.driver, self.alone)?;
            if driver == Driver::Ublk {
                let (identity, events) = (link.identity.clone(), events.clone());
                let device = UblkDevice::start(identity, link.ublk_shape(), mailbox, events)?;
                attached.push(Attached::Ublk(device));
                continue;
            }
            load_module("nbd");
            let (device, end) = link.establish()?;
            let (kept, events) = (link.clone(), events.clone());
            let (index, path) = (device.index, device.path());
            std::thread::Builder::new()
                .name("attach".into())
                .spawn(move || {
                    let result = kept.keep(index, end);
                    // The main thread may have ended meanwhile.
                    let _ = events.send(Event::Detached(path, result));
                })?;
            attached.push(Attached::Nbd(NbdDevice { link, device }));
        }
        Ok(())
    }

    fn link(&self, volume: &str, mailbox: &Mailbox, catalog: &Catalog) -> anyhow::Result<Link> {
        let exports = catalog.snapshot();
        let export = exports.resolve(volume).with_context(|| {
            let names: Vec<&str> = exports.iter().map(|export| export.name.as_str()).collect();
            format!(
                "there is no volume {volume}; there are: {}",
                names.join(", ")
            )
        })?;
        let sector = self.arguments.sector_size;
        if !export.size_bytes.is_multiple_of(sector.into()) {
            bail!(
                "volume {volume} is no multiple of {sector} bytes; attach it with --sector-size 512"
            );
        }
        Ok(Link {
            identity: Identity::of(
                uuid(mailbox, &export.name)?,
                export.name.clone(),
                self.store.clone(),
            )
            .with_context(|| self.store.display().to_string())?,
            shape: Shape {
                size_bytes: export.size_bytes,
                block_bytes: sector,
                flags: transmission_flags(export.read_only, false),
                patience: self.arguments.patience,
            },
            export: export.clone(),
            mailbox: mailbox.clone(),
            ending: AtomicBool::new(false),
        })
    }
}

/// UUID of a volume of the served store.
fn uuid(mailbox: &Mailbox, volume: &str) -> anyhow::Result<String> {
    for event in mailbox.ask(Request::VolumeList) {
        match event {
            Reply::Done(Answer::Volumes(all)) => {
                let found = all.volumes.into_iter().find(|info| info.name == volume);
                let found = found.with_context(|| format!("volume {volume} was deleted"))?;
                return Ok(found.uuid);
            }
            Reply::Failed(why) => bail!(why),
            Reply::Done(_) | Reply::Progress { .. } => {}
        }
    }
    bail!("the server is shutting down")
}

impl Link {
    fn ublk_shape(&self) -> UblkShape {
        UblkShape {
            size_bytes: self.export.size_bytes,
            block_bytes: self.shape.block_bytes,
            store_block_bytes: self.export.block_size_preferred,
            read_only: self.export.read_only,
        }
    }

    /// Takes over the device that an earlier server has left, or makes one. Returns it with an end of its socket to watch.
    fn establish(&self) -> Result<(Device, OwnedFd), AttachError> {
        let kernel = Kernel::new()?;
        let began = Instant::now();
        while let Some(device) = self.find()? {
            if let Some(end) = self.reconnect(&kernel, &device)? {
                return Ok((device, end));
            }
            if began.elapsed() > RECONNECT_MAX {
                return Err(AttachError::Served(device.path()));
            }
            std::thread::sleep(RECONNECT_EVERY);
        }
        let (theirs, end) = self.pair()?;
        let index = kernel.connect(theirs.as_fd(), self.shape, &self.identity)?;
        let device = self.find()?;
        let device = device.filter(|device| device.index == index);
        Ok((device.ok_or(AttachError::OldKernel)?, end))
    }

    /// The device of this volume.
    fn find(&self) -> Result<Option<Device>, AttachError> {
        let mut found = nbd_devices()?.into_iter();
        Ok(found.find(|device| device.identity.is_same(&self.identity)))
    }

    /// Gives the device another socket; none when it still has one that lives.
    fn reconnect(&self, kernel: &Kernel, device: &Device) -> Result<Option<OwnedFd>, AttachError> {
        let (theirs, end) = self.pair()?;
        kernel.reconnect(device, theirs.as_fd(), self.shape)?;
        // The kernel does not say whether it has taken the socket. If it has not, nobody has that end now.
        drop(theirs);
        Ok((!has_ended(&end, Some(Duration::ZERO))).then_some(end))
    }

    /// A socket pair, one end of which the engine serves. Returns the other one, and a copy of the engine's to watch.
    fn pair(&self) -> Result<(OwnedFd, OwnedFd), AttachError> {
        let made = socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        );
        let socket_error = |error| AttachError::Unreadable {
            path: "a socket pair".to_owned(),
            error,
        };
        let (ours, theirs) = made.map_err(|errno| socket_error(errno.into()))?;
        let end = ours.try_clone().map_err(socket_error)?;
        let client = Client {
            export: self.export.name.clone(),
            peer: "this kernel".to_owned(),
            tls: false,
            read_only: self.export.read_only,
            negotiated: Negotiated::default(),
            guard: None,
        };
        let accepted = Accepted {
            socket: ours,
            client,
        };
        self.mailbox.send(Message::Attach(accepted));
        Ok((theirs, end))
    }

    /// Replaces the socket of the device each time that it ends, until the device or the server does.
    fn keep(&self, index: u32, mut end: OwnedFd) -> Result<(), AttachError> {
        loop {
            has_ended(&end, None);
            if self.ending.load(Ordering::Relaxed) {
                return Ok(());
            }
            std::thread::sleep(GOING);
            let device = self.find()?;
            let Some(device) = device.filter(|device| device.index == index) else {
                return Ok(());
            };
            let kernel = Kernel::new()?;
            match self.reconnect(&kernel, &device) {
                Ok(Some(replaced)) => {
                    report::note(format_args!(
                        "{} had lost its connection; it has another one",
                        device.path().display()
                    ));
                    end = replaced;
                }
                Ok(None) => {}
                // It is going, but a program still has it open.
                Err(AttachError::Refused { .. }) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Waits until the other end of a socket has gone, or for `limit`. True when it has.
fn has_ended(end: &OwnedFd, limit: Option<Duration>) -> bool {
    let limit = limit.map(|limit| rustix::event::Timespec {
        tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    });
    loop {
        // POLLHUP comes without being asked for.
        let mut fds = [PollFd::new(end, PollFlags::RDHUP)];
        match poll(&mut fds, limit.as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(0) => return false,
            Ok(_) | Err(_) => return true,
        }
    }
}

impl Attached {
    /// The line that says that it is attached.
    pub fn line(&self) -> String {
        let identity = match self {
            Attached::Nbd(device) => &device.link.identity,
            Attached::Ublk(device) => device.identity(),
        };
        format!(
            "attached {} of {} as {}",
            identity.volume,
            identity.path.display(),
            self.path().display()
        )
    }

    /// Path of the device.
    pub fn path(&self) -> PathBuf {
        match self {
            Attached::Nbd(device) => device.device.path(),
            Attached::Ublk(device) => device.path(),
        }
    }

    /// Ends the device before its server ends, unless it is in use: then its programs wait for another server. `is_served` says that the
    /// engine still serves it.
    pub fn end(&self, is_served: bool) {
        match self {
            Attached::Nbd(device) => device.end(),
            Attached::Ublk(device) => device.end(is_served),
        }
    }
}

impl NbdDevice {
    /// Ends the device before its server ends, unless it is in use: then its programs wait for another server.
    fn end(&self) {
        self.link.ending.store(true, Ordering::Relaxed);
        let path = self.device.path();
        match self.device.is_claimed() {
            Ok(true) => report::note(format_args!(
                "{} is in use: its programs wait for up to {} until `tonearm attach` serves it again",
                path.display(),
                report::span(self.link.shape.patience.as_nanos() as u64)
            )),
            Ok(false) => {
                let ended = Kernel::new().and_then(|kernel| kernel.disconnect(&self.device));
                if let Err(error) = ended {
                    report::note(format_args!("{}: {error}", path.display()));
                }
            }
            Err(error) => report::note(error),
        }
    }
}
