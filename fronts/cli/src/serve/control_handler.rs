//! Answers requests of the control socket, on the engine thread.

use super::archive::{ArchivePlan, Archives};
use super::engine_thread::Setup;
use super::mailbox::Replies;
use super::watch;
use crate::control::{
    Answer, ArchiveStart, ArrayInfo, Counted, Event, HotBlocks, Info, LogInfo, Mark, MarksInfo,
    MemberInfo, MemberStats, MountStats, NbdStats, Request, ScrubResult, ServerStats, SpaceInfo,
    SpaceStats, TraceBatch, TraceStart, UblkStats, UnderWayStats, VhostStats, Volumes, Waited,
    change_volumes, check_change, head_text, layout_text, used_bytes,
};
use crate::vacancy::{Vacancy, no_array};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use tonearm_attach::Queues;
use tonearm_base::{Lsn, Nanos};
use tonearm_bucket::{Variables, Writer};
use tonearm_device::raid::{ArrayStatus, RebuildRate};
use tonearm_disk::{ByteRate, Disk, Scrub};
use tonearm_engine::ArchiveState;
use tonearm_fuse::FuseServer;
use tonearm_nbd::transmission::Connections;
use tonearm_nbd::{Catalog, Export, Exports};
use tonearm_rt::{Contained, Notify, Rt, channel};
use tonearm_store::remote::FileServer;
use tonearm_store::{Executor, new_uuid};
use tonearm_terminal::report;
use tonearm_vhost::Devices;

/// Commands that copy a volume, in words.
fn copies_text(count: usize) -> Option<String> {
    (count > 0).then(|| "`tonearm volume put` or `get`".to_owned())
}

/// The answer to a request that has ended without one.
const PANICKED: &str =
    "the request has met a fault of the server, which goes on; its output says where";

/// Starts the `answer` to a request. When it panics outside of the engine, that is the last event of `replies`.
pub fn spawn(rt: &Rt, replies: Replies, answer: impl Future<Output = ()> + 'static) {
    let contained = Contained::new("a request by the control socket", move || {
        // The client may have disconnected.
        let _ = replies.send(Event::Failed(PANICKED.into()));
    });
    rt.spawn_contained(&contained, answer);
}

/// Shortest time between two reports of progress.
const PROGRESS_EVERY: Nanos = Nanos::from_millis(100);

/// The error of a request whose client has gone. No client gets it.
const CLIENT_GONE: &str = "the client has gone";

/// How long the start of an archive waits until the archive is taken over.
const TAKE_OVER: Nanos = Nanos::from_secs(10);

/// The listening part of the server, once it has started.
pub type Front = Arc<Mutex<Option<tonearm_nbd::Server>>>;

/// The server that requests are about; clones are handles on the same.
#[derive(Clone)]
pub struct ControlHandler(Rc<State>);

/// The progress of the scrub. At most one runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scrubbing {
    None,
    Running,
    Cancelled,
}

/// What the server gives to clients.
pub struct Services {
    /// To NBD clients.
    pub connections: Connections,
    /// To archives.
    pub archives: Archives,
    /// To virtual machines.
    pub devices: Devices,
    /// To programs on devices of ublk.
    pub queues: Queues,
    /// To programs that use files, or copy volumes.
    pub files: FileServer,
    /// To programs of this machine, if the file system is mounted.
    pub mount: Option<FuseServer>,
}

struct State {
    rt: Rt,
    executor: Executor,
    path: PathBuf,
    direct: bool,
    writer: Writer,
    disk: Disk,
    connections: Connections,
    catalog: Catalog,
    front: Front,
    started: Nanos,
    scrub: Cell<Scrubbing>,
    /// The speed of the rebuild that is running.
    rebuild: RefCell<Option<RebuildRate>>,
    rebuild_ended: Notify,
    /// A member is being replaced.
    replacing: Cell<bool>,
    archives: Archives,
    devices: Devices,
    queues: Queues,
    files: FileServer,
    mount: Option<FuseServer>,
    /// A client has gone that had a request.
    client_gone: Notify,
    asked_to_stop: Box<dyn Fn()>,
}

impl ControlHandler {
    /// A handler of requests about an open store. Brings the catalog in step with the store.
    pub fn new(
        executor: &Executor,
        setup: &Setup,
        disk: &Disk,
        services: Services,
        asked_to_stop: impl Fn() + 'static,
    ) -> Self {
        let rt = &executor.rt;
        let Services {
            connections,
            archives,
            devices,
            queues,
            files,
            mount,
        } = services;
        let handler = Self(Rc::new(State {
            rt: rt.clone(),
            executor: executor.clone(),
            path: setup.path.clone(),
            direct: !setup.places.no_direct,
            writer: setup.writer.clone(),
            disk: disk.clone(),
            connections,
            catalog: setup.catalog.clone(),
            front: setup.front.clone(),
            started: rt.now(),
            scrub: Cell::new(Scrubbing::None),
            rebuild: RefCell::new(None),
            rebuild_ended: Notify::new(rt),
            replacing: Cell::new(false),
            archives,
            devices,
            queues,
            files,
            mount,
            client_gone: Notify::new(rt),
            asked_to_stop: Box::new(asked_to_stop),
        }));
        handler.publish();
        handler
    }

    /// Carries out `request`. All events go to `events`.
    pub async fn answer(self, request: Request, events: Replies) {
        let only_looks = matches!(
            request,
            Request::Stats | Request::Info { .. } | Request::VolumeList | Request::ArchiveStatus
        );
        let answer = self.dispatch(request, &events);
        let answer = if only_looks {
            answer.await
        } else {
            // What it changes is the engine's.
            self.0.rt.engine(answer).await
        };
        let event = match answer {
            Ok(answer) => Event::Done(answer),
            Err(error) => Event::Failed(error.to_string()),
        };
        // The client may have disconnected.
        events.send(event);
    }

    async fn dispatch(&self, request: Request, events: &Replies) -> anyhow::Result<Answer> {
        match request {
            Request::Stats => Ok(Answer::Stats(Box::new(self.stats()))),
            Request::Info { used } => Ok(Answer::Info(Box::new(self.info(used, events).await?))),
            Request::VolumeList => Ok(Answer::Volumes(self.volumes())),
            Request::Scrub {
                no_repair,
                bytes_per_second,
            } => {
                let scrub = if no_repair {
                    Scrub::Look
                } else {
                    Scrub::Repair
                };
                let rate = ByteRate::new(bytes_per_second);
                self.scrub(&rate, scrub, events).await
            }
            Request::ScrubCancel => {
                anyhow::ensure!(self.cancel_scrub(), "no scrub is running");
                Ok(Answer::ScrubCancelled)
            }
            Request::MemberReplace { path, force } => self.replace(Path::new(&path), force).await,
            Request::MemberRebuild {
                bytes_per_second,
                skip_unreadable,
            } => {
                let mut rate = RebuildRate::new(bytes_per_second);
                if skip_unreadable {
                    rate = rate.skip_unreadable();
                }
                self.rebuild(rate, events).await
            }
            Request::Checkpoint => self.checkpoint().await,
            Request::Wait {
                mark,
                lsn,
                timeout_ms,
            } => {
                let outcome = self.wait_for(mark, Lsn(lsn), timeout_ms, events).await?;
                let marks = self.marks();
                Ok(Answer::Waited { outcome, marks })
            }
            Request::TraceStart { volume } => self.start_trace(volume),
            Request::TraceTake => recorded(self.0.connections.recorder().take()),
            Request::TraceStop => recorded(self.0.connections.recorder().stop()),
            Request::ArchiveStart(start) => self.start_archive(start).await,
            Request::ArchiveReload { variables } => {
                self.reload_archive(Variables::from_iter(variables)).await
            }
            Request::ArchiveStop => {
                let info = self.archive()?;
                let stopped = self.0.archives.stop().await?;
                anyhow::ensure!(stopped, "the archive has ended already");
                Ok(info)
            }
            Request::ArchiveStatus => self.archive(),
            Request::Mark { name } => self.mark(name, events).await,
            Request::Shutdown => {
                (self.0.asked_to_stop)();
                Ok(Answer::ShuttingDown)
            }
            change => self.change(change).await,
        }
    }

    /// Makes, deletes or changes a volume.
    async fn change(&self, change: Request) -> anyhow::Result<Answer> {
        let disk = &self.0.disk;
        if let Request::VolumeDelete { name, .. } = &change
            && self.0.queues.serves(name)
        {
            anyhow::bail!(
                "volume {name} is a block device of this kernel; `tonearm detach` ends it, then it can be deleted"
            );
        }
        if let Request::VolumeDelete { name, .. } | Request::VolumeResize { name, .. } = &change {
            let mut users = self.users(name);
            users.extend(copies_text(self.0.files.volume_users(name)));
            check_change(disk, &change, &users).await?;
        }
        let result = change_volumes(disk, &change).await;
        if let (Ok(()), Request::VolumeDelete { name, .. }) = (&result, &change) {
            self.0.connections.stop_export(name);
        }
        self.publish();
        result?;
        Ok(Answer::Volumes(self.volumes()))
    }

    async fn checkpoint(&self) -> anyhow::Result<Answer> {
        let disk = &self.0.disk;
        let Lsn(lsn) = disk.checkpoint().await?;
        Ok(Answer::Checkpoint {
            lsn,
            replayed_from: disk.stats().replayed_from_lsn,
        })
    }

    fn archive(&self) -> anyhow::Result<Answer> {
        match self.0.disk.engine().archive() {
            Some(info) => Ok(Answer::Archive(info)),
            None => anyhow::bail!(
                "the store is not archived; start with `tonearm archive start`, or `tonearm serve --archive`"
            ),
        }
    }

    /// Begins to archive, and waits until the archive is taken over or its bucket does not answer.
    async fn start_archive(&self, start: ArchiveStart) -> anyhow::Result<Answer> {
        let writer = self.0.writer.clone();
        let plan = move || ArchivePlan::of(&start, writer);
        let plan = apart(&self.0.rt, "open-archive", plan).await?;
        self.0.archives.start(plan, || {})?;
        let engine = self.0.disk.engine();
        engine.archive_begun(self.0.rt.now() + TAKE_OVER.0).await;
        match engine.archive() {
            Some(info) if info.state == ArchiveState::Ended => {
                anyhow::bail!("{}", info.why.unwrap_or_default())
            }
            _ => self.archive(),
        }
    }

    async fn reload_archive(&self, variables: Variables) -> anyhow::Result<Answer> {
        let bucket = self.0.archives.bucket()?;
        let reload = move || Ok(bucket.reload(&variables)?);
        apart(&self.0.rt, "reload-archive", reload).await?;
        self.archive()
    }

    /// Gives the last commit a name in the archive.
    async fn mark(&self, name: String, events: &Replies) -> anyhow::Result<Answer> {
        let engine = self.0.disk.engine();
        let lsn = engine.marks().appended;
        engine.wait_durable(lsn).await?;
        let mut result = self.0.archives.mark(name, lsn)?;
        match self.unless_client_gone(events, result.recv()).await? {
            Some(done) => done.map_err(anyhow::Error::msg)?,
            None => anyhow::bail!("the archive has ended"),
        }
        Ok(Answer::Marked { lsn: lsn.0 })
    }

    /// Ends the waits of requests whose clients have gone.
    pub fn check_clients(&self) {
        self.0.client_gone.notify();
    }

    /// The result of `wait`, unless the client of `events` goes before.
    async fn unless_client_gone<T>(
        &self,
        events: &Replies,
        wait: impl Future<Output = T>,
    ) -> anyhow::Result<T> {
        let mut wait = pin!(wait);
        poll_fn(|context| {
            if let Poll::Ready(result) = wait.as_mut().poll(context) {
                return Poll::Ready(Ok(result));
            }
            if events.is_client_gone() {
                return Poll::Ready(Err(anyhow::anyhow!(CLIENT_GONE)));
            }
            // Registers this task. No notification can come while it is polled.
            let _noted = Pin::new(&mut self.0.client_gone.wait()).poll(context);
            Poll::Pending
        })
        .await
    }

    /// The volumes as they are now, with the clients of each.
    fn volumes(&self) -> Volumes {
        let mut volumes = Volumes::of(&self.0.disk, &self.0.executor);
        for volume in &mut volumes.volumes {
            volume.users = self.users(&volume.name);
            volume.clients = volume.users.len() as u64;
        }
        volumes
    }

    /// The clients that use the volume `name`, for people. Commands that copy it are not among them.
    fn users(&self, name: &str) -> Vec<String> {
        let connections = self.0.connections.list().into_iter();
        let connections = connections.filter(|connection| connection.export == name);
        let mut users: Vec<String> = connections
            .map(|connection| format!("the NBD client {}", connection.peer))
            .collect();
        let machines = self.0.devices.clients(name);
        users.extend((0..machines).map(|_| "a virtual machine (vhost-user)".to_owned()));
        if self.0.queues.serves(name) {
            users.push("a block device of this kernel (see `tonearm devices`)".to_owned());
        }
        users
    }

    /// Updates the list of exports that handshakes offer.
    fn publish(&self) {
        let disk = &self.0.disk;
        let read_only = disk.engine().options().read_only;
        let export = |volume: tonearm_disk::VolumeInfo| Export {
            name: volume.name,
            description: "a Tonearm volume".to_string(),
            size_bytes: volume.size_bytes,
            read_only: read_only || volume.read_only,
            block_size_preferred: disk.block_size(),
            block_size_max: disk.write_bytes_max(),
        };
        let exports = disk.volumes().into_iter().map(export).collect();
        self.0
            .catalog
            .replace(Exports::new(exports, Some("main".to_string())));
    }

    async fn wait_for(
        &self,
        mark: Mark,
        lsn: Lsn,
        timeout_ms: Option<u64>,
        events: &Replies,
    ) -> anyhow::Result<Waited> {
        let (disk, rt) = (&self.0.disk, &self.0.rt);
        if lsn > disk.marks().appended {
            return Ok(Waited::NotCommitted);
        }
        let deadline = timeout_ms.map(|ms| rt.now() + ms.saturating_mul(1_000_000));
        let reached = async {
            let engine = disk.engine();
            let durable = match deadline {
                Some(deadline) => engine.wait_durable_until(lsn, deadline).await?,
                None => engine.wait_durable(lsn).await.map(|()| true)?,
            };
            let waits = durable && mark == Mark::Archived;
            anyhow::Ok(if waits {
                engine.wait_archived(lsn, deadline).await?
            } else {
                durable
            })
        };
        let reached = self.unless_client_gone(events, reached).await??;
        Ok(if reached {
            Waited::Reached
        } else {
            Waited::TimedOut
        })
    }

    fn marks(&self) -> MarksInfo {
        let marks = self.0.disk.marks();
        MarksInfo {
            appended: marks.appended.0,
            flushed: marks.flushed.0,
            durable: marks.durable.0,
            archived: self.0.disk.engine().archived().0,
            epoch: self.0.disk.engine().superblock().epoch,
        }
    }

    fn start_trace(&self, volume: Option<String>) -> anyhow::Result<Answer> {
        if let Some(name) = &volume
            && !self
                .volumes()
                .volumes
                .iter()
                .any(|known| known.name == *name)
        {
            anyhow::bail!(
                "there is no volume '{name}' in this store; `tonearm volume list` names them"
            );
        }
        if !self.0.connections.recorder().start(volume) {
            anyhow::bail!(
                "another `tonearm trace record` is recording this store; wait until it has ended, or end it"
            );
        }
        Ok(Answer::TraceStarted(TraceStart {
            store: report::uuid(self.0.disk.engine().superblock().store),
            version: env!("CARGO_PKG_VERSION").to_string(),
        }))
    }

    /// Ends the running scrub with its present group; false when none is running.
    pub fn cancel_scrub(&self) -> bool {
        let running = self.0.scrub.get() != Scrubbing::None;
        if running {
            self.0.scrub.set(Scrubbing::Cancelled);
        }
        running
    }

    async fn scrub(
        &self,
        rate: &ByteRate,
        scrub: Scrub,
        events: &Replies,
    ) -> anyhow::Result<Answer> {
        if self.0.scrub.get() != Scrubbing::None {
            anyhow::bail!(
                "a scrub is running already; wait until it has ended, or end it with --cancel"
            );
        }
        self.0.scrub.set(Scrubbing::Running);
        let mut next = Nanos(0);
        let goes_on = |done, total| {
            let now = self.0.rt.now();
            if now >= next {
                next = now + PROGRESS_EVERY.0;
                // Without a client the result has no reader.
                if !events.send(Event::Progress { done, total }) {
                    self.cancel_scrub();
                }
            }
            self.0.scrub.get() != Scrubbing::Cancelled
        };
        let result = self.0.disk.scrub_at(rate, scrub, goes_on).await;
        self.0.scrub.set(Scrubbing::None);
        Ok(Answer::Scrub(ScrubResult::of(&result?, &self.0.disk)))
    }

    async fn replace(&self, new: &Path, force: bool) -> anyhow::Result<Answer> {
        if self.0.replacing.replace(true) {
            anyhow::bail!("a member is being replaced already; wait until that has ended");
        }
        let replaced = self.put_member(new, force).await;
        self.0.replacing.set(false);
        replaced
    }

    /// Checks come before the file is made or emptied.
    async fn put_member(&self, new: &Path, force: bool) -> anyhow::Result<Answer> {
        let (engine, executor) = (self.0.disk.engine(), &self.0.executor);
        if engine.options().read_only {
            anyhow::bail!("the store is served with --read-only; serve it without, first");
        }
        if let Some(reason) = engine.failure() {
            anyhow::bail!("the store is read-only since a failure: {reason}");
        }
        if self.0.rebuild.borrow().is_some() {
            anyhow::bail!(
                "the replacement of a member is being rebuilt; wait until that has ended, or stop the server, \
                 before another takes its place"
            );
        }
        let Some(array) = engine.array() else {
            anyhow::bail!(no_array(&self.0.path));
        };
        let (vacancy, opened) = self.open_apart(array, new, force).await?;
        let device = tonearm_store::device_of(executor, opened);
        let recorded = vacancy.recorded.clone();
        let replaced = engine.replace_member(device.clone(), recorded, new_uuid());
        if let Err(error) = replaced.await {
            device.device.release();
            let new = new.to_path_buf();
            let undo = move || {
                vacancy.undo(&new);
                Ok(())
            };
            // Without another thread the file stays, and can be overwritten with --force.
            let _ = apart(&executor.rt, "undo-member", undo).await;
            return Err(error.into());
        }
        Ok(Answer::MemberReplaced {
            index: vacancy.index,
            old: vacancy.old,
        })
    }

    /// Looks for the place of the new member and opens it, on a thread of its own: both wait for the file system, and
    /// clients are served meanwhile.
    async fn open_apart(
        &self,
        array: ArrayStatus,
        new: &Path,
        force: bool,
    ) -> anyhow::Result<(Vacancy, tonearm_uring::Member)> {
        let (store, new, direct) = (self.0.path.clone(), new.to_path_buf(), self.0.direct);
        let own_mounts = self.0.writer.own_mounts.clone();
        apart(&self.0.rt, "open-member", move || {
            if let Some(mount) = own_mounts.with(&new) {
                anyhow::bail!(
                    "{} is on the store's own mount at {}, which would wait for itself; name a file or device elsewhere",
                    new.display(),
                    mount.display()
                );
            }
            let vacancy = Vacancy::of(&array, &store, &new)?;
            let member = vacancy.open(&new, force, direct)?;
            Ok((vacancy, member))
        })
        .await
    }

    async fn rebuild(&self, rate: RebuildRate, events: &Replies) -> anyhow::Result<Answer> {
        if self.0.rebuild.borrow().is_some() {
            anyhow::bail!(
                "a rebuild is running already; `tonearm member list` shows how far it is"
            );
        }
        *self.0.rebuild.borrow_mut() = Some(rate.clone());
        let (clock, events, mut next) = (self.0.rt.clone(), events.clone(), Nanos(0));
        let progress = Box::new(move |done, total| {
            let now = clock.now();
            if now >= next {
                next = now + PROGRESS_EVERY.0;
                // The client may have disconnected; the rebuild goes on.
                events.send(Event::Progress { done, total });
            }
        });
        let result = self.0.disk.engine().rebuild_array(rate, progress).await;
        *self.0.rebuild.borrow_mut() = None;
        self.0.rebuild_ended.notify();
        result?;
        Ok(Answer::MemberRebuilt)
    }

    /// Ends the running rebuild where it is, and waits for its end. The next rebuild goes on from there.
    pub async fn stop_rebuild(&self) {
        loop {
            let ended = self.0.rebuild_ended.wait();
            match &*self.0.rebuild.borrow() {
                Some(rate) => rate.stop(),
                None => return,
            }
            ended.await;
        }
    }

    fn stats(&self) -> ServerStats {
        // Another thread holds the lock only while the server starts or stops. The engine thread does not wait for it.
        let front = self.0.front.try_lock().ok();
        let counts = front
            .as_ref()
            .and_then(|front| front.as_ref().map(tonearm_nbd::Server::counts));
        let (now, members) = (self.0.rt.now(), self.0.executor.loads.list());
        let under_way = self.0.connections.recorder().under_way();
        ServerStats {
            version: env!("CARGO_PKG_VERSION").to_string(),
            pid: std::process::id(),
            uptime_s: now.since(self.0.started).0 as f64 / 1e9,
            store: self.0.disk.stats(),
            space: self.space(),
            events: watch::kept(&self.0.disk),
            under_way: UnderWayStats {
                requests: under_way.count() as u64,
                oldest_ns: under_way.oldest().map_or(0, |arrived| now.since(arrived).0),
            },
            members: members.into_iter().map(MemberStats::of).collect(),
            nbd: NbdStats::collect(
                self.0.connections.metrics(),
                counts.unwrap_or_default(),
                now,
            ),
            vhost: VhostStats::of(&self.0.devices, now),
            ublk: UblkStats::of(&self.0.queues, now),
            mount: self.0.mount.as_ref().map(MountStats::of),
        }
    }

    fn space(&self) -> SpaceStats {
        let disk = &self.0.disk;
        SpaceStats {
            size_bytes: disk.size_bytes(),
            free_bytes: disk.free_bytes(),
            used_bytes: Volumes::of(disk, &self.0.executor).used_bytes,
        }
    }

    /// Describes the store, and counts what holds data if `used` says so.
    async fn info(&self, used: bool, events: &Replies) -> anyhow::Result<Info> {
        if !used {
            let mut info = self.description();
            info.set_space(&self.0.disk.reserved(), Counted::No);
            return Ok(info);
        }
        let mut next = Nanos(0);
        let mut goes_on = |done, total| {
            let now = self.0.rt.now();
            if now < next {
                return !events.is_client_gone();
            }
            next = now + PROGRESS_EVERY.0;
            // Without a client the result has no reader.
            events.send(Event::Progress { done, total })
        };
        let Some(usage) = self.0.disk.usage(&mut goes_on).await? else {
            anyhow::bail!(CLIENT_GONE);
        };
        let mut info = self.description();
        info.set_space(&usage, Counted::Yes);
        Ok(info)
    }

    /// The store, without its space.
    fn description(&self) -> Info {
        let disk = &self.0.disk;
        let (superblock, stats) = (disk.engine().superblock(), disk.stats());
        let state = match &stats.failure {
            Some(reason) => format!("read-only since a failure: {reason}"),
            None => "in use".to_string(),
        };
        let members = MemberInfo::all(&superblock, &disk.engine().member_paths());
        let array = disk.engine().array().as_ref().map(ArrayInfo::of);
        Info {
            used_bytes: used_bytes(&self.0.executor, array.as_ref()),
            store: report::uuid(superblock.store),
            format_version: tonearm_format::FORMAT_VERSION,
            layout: layout_text(superblock.layout).to_string(),
            state: "served".to_string(),
            pid: Some(std::process::id()),
            size_bytes: disk.size_bytes(),
            free_bytes: disk.free_bytes(),
            files: SpaceInfo::default(),
            units: SpaceInfo::default(),
            counted: None,
            block_size: disk.block_size(),
            created_unix_s: superblock.created_unix_s,
            epoch: superblock.epoch,
            members,
            log: LogInfo {
                size_bytes: superblock.log_size_bytes(),
                track_bytes: superblock.track_bytes,
                head: head_text(&superblock),
                used_bytes: Some(stats.log_used_bytes),
                commits: None,
                blocks: Some(stats.pinned_blocks),
                state,
            },
            volumes: self.volumes().volumes,
            array,
            hot: HotBlocks::of(&stats),
            problems: Vec::new(),
        }
    }
}

/// Does what waits for a file system on a thread of its own. Clients are served meanwhile.
async fn apart<T: Send + 'static>(
    rt: &Rt,
    name: &str,
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    let (sender, mut done) = channel(rt, 1)?;
    let thread = std::thread::Builder::new().name(name.into());
    // The server may have ended meanwhile.
    thread.spawn(move || sender.send(work()))?;
    let result = done.recv().await;
    result.unwrap_or_else(|| Err(anyhow::anyhow!(PANICKED)))
}

fn recorded(recorded: Option<tonearm_requests::Recorded>) -> anyhow::Result<Answer> {
    match recorded {
        Some(recorded) => Ok(Answer::Trace(TraceBatch::of(recorded))),
        None => anyhow::bail!("nothing is being recorded"),
    }
}

#[cfg(test)]
#[path = "control_handler_test.rs"]
mod control_handler_test;
