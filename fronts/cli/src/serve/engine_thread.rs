//! The thread that owns the ring, the store and its connections.
//!
//! ```text
//! opening -> serving -> closing: connections end, everything is written home, marked clean
//! ```

use super::archive::{ArchivePlan, Archives};
use super::control_handler::{self, ControlHandler, Front, Services};
use super::mailbox::{Mailbox, Message};
use super::mount::Mountpoint;
use super::watch;
use crate::cli::Members;
use crate::control::room_text;
use crate::opening;
use anyhow::bail;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use tonearm_attach::Queues;
use tonearm_base::Nanos;
use tonearm_bucket::{OwnMounts, Writer};
use tonearm_disk::{Ack, Disk, OpenOptions, Volume};
use tonearm_fs::{FsError, LeftOrphan};
use tonearm_fuse::{FuseServer, Requests};
use tonearm_nbd::transmission::{Connections, TransmissionOptions};
use tonearm_requests::Recorder;
use tonearm_rt::{Receiver, Rt};
use tonearm_store::remote::FileServer;
use tonearm_store::{Executor, ExecutorGuard, FileSystem};
use tonearm_terminal::progress::{Progress, Unit};
use tonearm_terminal::report;
use tonearm_vhost::Devices;

/// How long clients may take for their last replies at the end.
const GRACE: Nanos = Nanos::from_secs(10);

/// A warning for users whose NBD clients reconnect by themselves.
const RECONNECTING: &str = "--ack flush: what was answered and not flushed may be lost when this server is killed, \
    and a client that reconnects by itself does not know; for such clients serve with --ack write";

/// The parameters of the engine thread.
pub struct Setup {
    /// The store.
    pub path: PathBuf,
    /// Where its members are.
    pub places: Members,
    /// How it is opened.
    pub options: OpenOptions,
    /// The exports that handshakes may choose.
    pub catalog: tonearm_nbd::Catalog,
    /// The listening part, for its counters.
    pub front: Front,
    /// The archive, if there is one from the start.
    pub archive: Option<ArchivePlan>,
    /// Who writes archives.
    pub writer: Writer,
    /// The file system is to be mounted.
    pub mounts: bool,
    /// NBD clients may go on after the end of this server.
    pub outlives: bool,
    /// Volumes are to be devices of this kernel.
    pub attaches: bool,
}

/// An event for the main thread.
pub enum Event {
    /// The store is open, and the file system if it is to be mounted.
    Ready(Mailbox, Option<Mountpoint>),
    /// The engine thread has ended.
    Ended(anyhow::Result<()>),
    /// The mount has ended.
    Unmounted(std::io::Result<()>),
    /// The device at this path has ended, or could not be kept.
    Detached(PathBuf, Result<(), tonearm_attach::AttachError>),
    /// A signal has come.
    Signal(i32),
    /// A client of the control socket has asked for the end.
    Asked,
    /// The archive of the start was refused.
    NotArchived,
    /// The command of `--run` has ended, with this exit code.
    Child(u8),
}

/// Starts the thread. Its last event is `Ended`, whatever happens.
///
/// # Errors
/// When the system has no thread left.
pub fn start(setup: Setup, events: Sender<Event>) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name("engine".into())
        .spawn(move || {
            let work = std::panic::AssertUnwindSafe(|| run(&setup, &events));
            let result = std::panic::catch_unwind(work);
            let panicked = || {
                anyhow::anyhow!(
                    "the server ends because its engine has met a fault of its own (the panic above): what is in its memory \
                     may be wrong, so nothing more is written; start it again, and the store recovers what was committed"
                )
            };
            // The main thread receives until it gets this event.
            let _ = events.send(Event::Ended(result.unwrap_or_else(|_| Err(panicked()))));
        })
}

fn run(setup: &Setup, events: &Sender<Event>) -> anyhow::Result<()> {
    if setup.attaches {
        // The kernel may write to a device of ours to get memory, and must not wait for that because this thread needs some.
        // Without CAP_SYS_RESOURCE it is refused, and so is the device.
        let _ = rustix::process::configure_io_flusher_behavior(true);
        // Nor may its memory be where the kernel gets it back only through the device.
        if let Err(error) = tonearm_uring::lock_memory() {
            report::note(format_args!(
                "the memory of this server cannot be locked ({error}): it may be moved to swap space; \
                 give it CAP_IPC_LOCK or a higher limit (ulimit -l, LimitMEMLOCK=infinity)"
            ));
        }
    }
    if !setup.mounts {
        return run_on(setup, events, Executor::new()?, None);
    }
    let (executor, monitor) = Executor::with_monitor()?;
    let mut inside = monitor.enter();
    run_on(setup, events, executor, Some(&mut inside))
}

/// Runs the server. With a mount this thread is `inside` the executor's monitor. All that it has of the executor is dropped here,
/// before it leaves the monitor.
fn run_on(
    setup: &Setup,
    events: &Sender<Event>,
    executor: Executor,
    inside: Option<&mut ExecutorGuard<'_>>,
) -> anyhow::Result<()> {
    let disk = open_store(setup, &executor)?;
    let (rt, pool) = (&executor.rt, &executor.pool);
    let connections = Connections::new(
        rt,
        pool,
        TransmissionOptions {
            partial_payload_bytes_max: setup.options.memory_bytes / 4,
            ..TransmissionOptions::default()
        },
    );
    let asked = events.clone();
    let stop = move || {
        let _ = asked.send(Event::Asked);
    };
    let archives = Archives::new(&executor, disk.engine());
    if let Some(plan) = setup.archive.clone() {
        let refused = events.clone();
        // The main thread may have ended meanwhile.
        archives.start(plan, move || drop(refused.send(Event::NotArchived)))?;
    }
    let files = FileSystem::new(rt, &disk);
    let recorder = connections.recorder();
    let mount = inside
        .as_ref()
        .map(|inside| open_mount(&setup.path, &executor, inside, &disk, &files, recorder));
    let (mount, mountpoint) = mount.transpose()?.unzip();
    watch::report_stalls(&executor, &disk, recorder.under_way());
    let devices = Devices::new(rt, pool, &executor.handle, &disk, recorder);
    let queues = Queues::new(rt, pool, &executor.handle, &disk, recorder);
    let file_server = FileServer::new(rt, pool, &disk, &files);
    let control = ControlHandler::new(
        &executor,
        setup,
        &disk,
        Services {
            connections: connections.clone(),
            archives: archives.clone(),
            devices: devices.clone(),
            queues: queues.clone(),
            files: file_server.clone(),
            mount: mount.clone(),
        },
        stop,
    );
    let (mailbox, messages) = Mailbox::new(rt)?;
    let _ = events.send(Event::Ready(mailbox, mountpoint));
    let serving = Serving {
        executor: executor.clone(),
        files: file_server,
        devices,
        queues,
        disk,
        connections,
        archives,
        mount,
        control,
        warns: Cell::new(setup.outlives && setup.options.ack == Ack::Flush),
    };
    let rt = rt.clone();
    let serving = serving.until_stopped(messages);
    let result = match inside {
        Some(inside) => inside.block_on(&rt, serving),
        None => rt.block_on(serving),
    };
    // Releases the members before the control socket goes, so that the next server finds either that or a store without a lock.
    rt.shut_down();
    result
}

/// Opens the store, and reports what happens to it from then on.
fn open_store(setup: &Setup, executor: &Executor) -> anyhow::Result<Disk> {
    let rt = &executor.rt;
    rt.report_panics(|what| {
        report::note(format_args!(
            "{what} has ended by a fault of the server's own (the panic above); everything else goes on"
        ));
    });
    let disk = opening::open_disk(executor, &setup.path, &setup.places, setup.options.clone())?;
    check_members(executor, &setup.writer.own_mounts)?;
    report_recovery(&disk);
    watch::report_events(rt, &disk);
    report_missed_bounds(rt, &disk);
    report_full_log(rt, &disk);
    Ok(disk)
}

/// Serves what comes to the mount of the file system. The threads that take requests from the kernel carry them out themselves
/// while the engine's thread waits.
fn open_mount(
    path: &Path,
    executor: &Executor,
    inside: &ExecutorGuard<'_>,
    disk: &Disk,
    files: &FileSystem,
    recorder: &Recorder,
) -> anyhow::Result<(FuseServer, Mountpoint)> {
    let rt = &executor.rt;
    let opening = files.clone();
    let fs = rt.block_on(async move { opening.get().await });
    let fs = fs.map_err(|error| no_room(error, path, disk))?;
    for LeftOrphan { ino, why } in fs.orphans_left() {
        let which = ino.map_or("files without a name".into(), |ino| {
            format!("file {ino}, which has no name,")
        });
        report::note(format_args!(
            "{which} cannot be deleted: {why}; the next opening tries again, and `tonearm check` reports what is damaged"
        ));
    }
    let (waker, arrived) = inside.remote_waker(rt);
    let (requests, incoming) = Requests::new(move || waker.notify());
    let point = Mountpoint {
        requests,
        block_size: disk.block_size(),
    };
    let server = FuseServer::start(&fs, rt, &arrived, incoming, recorder.under_way());
    Ok((server, point))
}

/// Names the command that makes room for the files of a store whose volumes have all of it.
fn no_room(error: FsError, store: &Path, disk: &Disk) -> anyhow::Error {
    let largest = disk
        .volumes()
        .into_iter()
        .max_by_key(|volume| volume.size_bytes);
    match largest {
        Some(volume) if error.is_full() => {
            let store = report::shell_word(store);
            anyhow::anyhow!(
                "the volumes of {store} have all of its space, and none is left for files: `{}` makes room",
                room_text(
                    &store,
                    &volume.name,
                    volume.size_bytes,
                    disk.engine().can_grow()
                )
            )
        }
        _ => error.into(),
    }
}

/// Refuses a mount above a member: the next opening would look for it there. Called before the mount is there.
fn check_members(executor: &Executor, own_mounts: &OwnMounts) -> anyhow::Result<()> {
    for member in executor.loads.list() {
        if let Some(mount) = own_mounts.with(Path::new(&member.path)) {
            bail!(
                "the member {} lies in {}, and a mount there would hide it from the next server and all commands; mount the \
                 store on another directory",
                member.path,
                mount.display()
            );
        }
    }
    Ok(())
}

fn report_recovery(disk: &Disk) {
    let recovery = disk.recovery();
    if !recovery.clean {
        report::note(format_args!(
            "recovered {} commits from the log in {} ({})",
            report::count(recovery.commits),
            report::span(recovery.duration.0),
            recovery.end
        ));
    }
}

/// Shortest time between two reports of missed bounds.
const MISSED_EVERY: Nanos = Nanos::from_secs(1);

/// Reports writes that were not durable within `--max-delay`, for as long as the store is open.
fn report_missed_bounds(rt: &Rt, disk: &Disk) {
    let Some(max_delay) = disk.engine().options().max_delay else {
        return;
    };
    let (timer, disk) = (rt.clone(), disk.clone());
    rt.spawn(async move {
        let mut told = 0;
        loop {
            let missed = disk.engine().bound_missed();
            let stats = disk.stats();
            if stats.delays_missed == told {
                missed.await;
                continue;
            }
            report::note(format_args!(
                "--max-delay missed: {} commits were not durable within {}, the slowest for {}; the log's device is too \
                 slow for this bound",
                report::count(stats.delays_missed - told),
                report::span(max_delay.0),
                report::span(stats.delay_max_ns)
            ));
            told = stats.delays_missed;
            timer.sleep(MISSED_EVERY).await;
        }
    });
}

/// How often a log that waits for space is looked at.
const FULL_CHECK_EVERY: Nanos = Nanos::from_secs(1);

/// Reports that the log waits for space in the file system below, and that it goes on.
fn report_full_log(rt: &Rt, disk: &Disk) {
    let (timer, engine) = (rt.clone(), disk.engine().clone());
    rt.spawn(async move {
        loop {
            let wanted = engine.log_space_wanted();
            if !engine.log_waits_for_space() {
                wanted.await;
                continue;
            }
            report::note(
                "no space left for the log, and all writes wait until there is some: the file system writes each overwrite to a \
                 new place (copy-on-write: btrfs, or a file with reflinked copies or snapshots); free some space",
            );
            while engine.log_waits_for_space() {
                timer.sleep(FULL_CHECK_EVERY).await;
            }
            report::note("there is space for the log again, and writes go on");
        }
    });
}

struct Serving {
    executor: Executor,
    disk: Disk,
    files: FileServer,
    connections: Connections,
    devices: Devices,
    queues: Queues,
    archives: Archives,
    mount: Option<FuseServer>,
    control: ControlHandler,
    /// No NBD client has connected yet that the warning is for.
    warns: Cell<bool>,
}

impl Serving {
    async fn until_stopped(self, mut messages: Receiver<Message>) -> anyhow::Result<()> {
        let rt = &self.executor.rt;
        while let Some(message) = messages.recv().await {
            match message {
                Message::Connection(accepted) => {
                    // The protocol has no way for a client to announce that it reconnects.
                    if self.warns.get() && !accepted.client.read_only {
                        self.warns.set(false);
                        report::note(RECONNECTING);
                    }
                    self.serve(accepted, |volume| volume);
                }
                // The kernel goes on when this server is killed.
                Message::Attach(accepted) => self.serve(accepted, Volume::for_kernel_client),
                Message::Files(socket) => {
                    self.files.accept(self.executor.handle.add_stream(socket));
                }
                Message::Ask(request, replies) => {
                    let answer = self.control.clone().answer(request, replies.clone());
                    control_handler::spawn(rt, replies, answer);
                }
                Message::Vhost(ask) => self.devices.answer(ask),
                Message::Ublk(ask) => self.queues.answer(ask),
                Message::ClientGone => self.control.check_clients(),
                Message::Stop => break,
            }
        }
        // Threads that still ask get the end of the server as an answer at once.
        drop(messages);
        self.control.cancel_scrub();
        self.control.stop_rebuild().await;
        let done = show_closing(rt, &self.disk);
        // Both at the same time: requests of the one may need log space that the other holds.
        self.connections.stop();
        if !self.files.shut_down(GRACE).await {
            report::note("programs that use files of the store did not end in time");
        }
        self.connections.shutdown(GRACE).await;
        self.devices.shut_down().await;
        self.queues.shut_down().await;
        if let Some(mount) = &self.mount
            && !mount.shut_down(GRACE).await
        {
            report::note("requests of the mount did not end in time");
        }
        // The archiver gets what is durable.
        let archived = match self.disk.flush().await {
            Ok(()) => self.archives.stop().await.map(|_| ()),
            Err(error) => Err(error.into()),
        };
        if let Err(error) = archived {
            report::note(error);
        }
        let closed = self.disk.close().await;
        done.set(true);
        closed?;
        watch::check_members(&self.disk)
    }

    fn serve(&self, accepted: tonearm_nbd::Accepted, handle: impl FnOnce(Volume) -> Volume) {
        let tonearm_nbd::Accepted { socket, client } = accepted;
        // The volume may have been deleted since the handshake: the client sees the end of its connection.
        if let Ok(volume) = self.disk.volume(&client.export) {
            let stream = self.executor.handle.add_stream(socket);
            self.connections.add(stream, client, handle(volume));
        }
    }
}

/// Shows how much is still to be written home, until the flag is set.
fn show_closing(rt: &Rt, disk: &Disk) -> Rc<Cell<bool>> {
    let done = Rc::new(Cell::new(false));
    let (ended, timer, disk) = (done.clone(), rt.clone(), disk.clone());
    rt.spawn(async move {
        let mut bar = Progress::new("writing home", Unit::Count);
        let (mut most, mut told) = (0, false);
        while !ended.get() {
            let stats = disk.stats();
            let left = stats.pinned_blocks;
            if stats.waiting_for_space && !std::mem::replace(&mut told, true) {
                report::note(
                    "no space left below the store: waiting for some; a second signal ends at once, \
                     and what was flushed is safe in the log",
                );
            }
            most = left.max(most);
            bar.at(most - left, most);
            timer.sleep(Nanos::from_millis(200)).await;
        }
    });
    done
}
