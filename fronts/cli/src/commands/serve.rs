//! `tonearm serve`, and the order of start and stop of every server, on the main thread.
//!
//! ```text
//! open the store -> control, files, mount, listeners -> "serving URI" -> wait -> stop listening, unmount -> close
//! ```

use crate::cli::{Hosting, Members, Serve, TlsMode};
use crate::control::ArchiveStart;
use crate::opening;
use crate::serve::archive::ArchivePlan;
use crate::serve::attach::{AttachPlan, Attached};
use crate::serve::control_handler::Front;
use crate::serve::engine_thread::{self, Event, Setup};
use crate::serve::mailbox::{Mailbox, Message};
use crate::serve::metrics::{Address, Responder};
use crate::serve::mount::{self, MountPlan, Mountpoint};
use crate::serve::service::{self, ServiceManager};
use crate::serve::socket_file::SocketFile;
use crate::serve::vhost::VhostUser;
use crate::serve::{control_socket, socket_file, swaps, uri};
use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::sync::PoisonError;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use tonearm_attach::AttachError;
use tonearm_base::Nanos;
use tonearm_bucket::{OwnMounts, Writer};
use tonearm_disk::OpenOptions;
use tonearm_fuse::Session;
use tonearm_nbd::listen::{ListenAddress, ListenConfig, Listener};
use tonearm_nbd::tls::{Tls, TlsFiles, server_config};
use tonearm_nbd::{Catalog, Server};
use tonearm_terminal::report;

/// How long TLS connections may take for their last bytes.
const LAST_BYTES: Duration = Duration::from_secs(5);

/// How long changes that no program waits for may stay in this process, where there is a mount. A stream of small changes then makes
/// one write of the log in this time instead of one for each change or two. Only `kill -9` of the server loses them.
const LINGER: Nanos = Nanos::from_millis(1);

/// Serves until a signal, the end of `--run`, a request at the control socket, or a failure.
///
/// # Errors
/// When it cannot start, or the store fails.
pub fn run(arguments: Serve) -> anyhow::Result<ExitCode> {
    // Checks that do not need the store come first.
    let (dir, lists) = (arguments.mount.as_deref(), &arguments.mount_args.options);
    mount::check_options(dir, lists)?;
    let listening = Listening::of(&arguments)?;
    let mut plan = Plan::of(arguments.path.clone(), &arguments.hosting)?;
    let mount = dir.map(|dir| MountPlan::of(&arguments.path, dir, lists));
    plan.mount = mount.transpose()?;
    if arguments.read_only {
        plan.options.read_only = true;
        plan.mount = plan.mount.map(MountPlan::read_only);
    }
    plan.vhost = arguments.vhost_user;
    if !arguments.attach.is_empty() {
        let attach = AttachPlan::of(&arguments.path, arguments.attach, &arguments.attach_args)?;
        plan.attach = Some(if plan.mount.is_some() {
            attach.with_mount()?
        } else {
            attach
        });
    }
    plan.listening = Some(listening);
    plan.command = arguments.run;
    serve(plan)
}

/// Serves as `plan` says.
///
/// # Errors
/// When it cannot start, or the store fails.
pub fn serve(mut plan: Plan) -> anyhow::Result<ExitCode> {
    let (sender, events) = channel();
    watch_signals(&sender)?;
    let front = Front::default();
    let catalog = Catalog::default();
    if plan.mount.is_some() {
        plan.options.commit_delay = LINGER;
    }
    let writer = Writer {
        own_mounts: OwnMounts::new(plan.mount.iter().map(MountPlan::dir).collect()),
        ..Writer::of_store(&plan.path)
    };
    let archive = plan.archive.take();
    let archive = archive.map(|start| ArchivePlan::of(&start, writer.clone()));
    let setup = Setup {
        path: plan.path.clone(),
        places: plan.members.clone(),
        options: plan.options.clone(),
        catalog: catalog.clone(),
        front: front.clone(),
        archive: archive.transpose()?,
        writer,
        mounts: plan.mount.is_some(),
        // A command of --run ends with the server.
        outlives: plan.command.is_none(),
        attaches: plan.attach.is_some(),
    };
    let engine = engine_thread::start(setup, sender.clone())?;
    let mut is_archived = true;
    let (mailbox, mountpoint) = loop {
        match events.recv()? {
            Event::Ready(mailbox, mountpoint) => break (mailbox, mountpoint),
            Event::Ended(result) => {
                result?;
                bail!("the engine thread has ended before it began");
            }
            // Recovery may be interrupted at any point: the next one does it all again.
            Event::Signal(signal) => std::process::exit(128 + signal),
            Event::NotArchived => is_archived = false,
            Event::Asked | Event::Child(_) | Event::Unmounted(_) | Event::Detached(..) => {
                unreachable!("nothing runs yet that could say so")
            }
        }
    };
    let mut started = Running::start(plan, catalog, &front, &mailbox, mountpoint, sender);
    let manager = ServiceManager::of_environment();
    if started.is_ok() {
        manager.ready();
    }
    let (code, ended) = match &mut started {
        Ok(running) if is_archived => running.wait(&events),
        Ok(_) => (1, None),
        Err(_) => (0, None),
    };
    manager.stopping();
    let server = front.lock().unwrap_or_else(PoisonError::into_inner).take();
    let session = started
        .as_mut()
        .ok()
        .and_then(|running| running.mount.take());
    let devices = started
        .as_mut()
        .map(|running| std::mem::take(&mut running.attached));
    for device in devices.unwrap_or_default() {
        device.end(ended.is_none());
    }
    let ended = stop(server, session, &mailbox, &events, ended);
    // The thread has sent its last event, and only unwinds its stack now.
    let _ = engine.join();
    let mut running = started?;
    running.reap();
    ended?;
    Ok(ExitCode::from(code))
}

fn nanos(span: Duration) -> Nanos {
    Nanos(span.as_nanos() as u64)
}

/// The arguments of a server, checked.
pub struct Plan {
    path: PathBuf,
    members: Members,
    options: OpenOptions,
    archive: Option<ArchiveStart>,
    metrics: Option<Address>,
    control: PathBuf,
    files: PathBuf,
    listening: Option<Listening>,
    mount: Option<MountPlan>,
    vhost: Vec<VhostUser>,
    attach: Option<AttachPlan>,
    command: Option<String>,
}

impl Plan {
    /// A server of the store at `path` that neither listens nor mounts.
    ///
    /// # Errors
    /// When an argument cannot be used.
    pub fn of(path: PathBuf, hosting: &Hosting) -> anyhow::Result<Self> {
        let archive = hosting.archive.as_deref();
        let archive = archive.map(|url| hosting.archive_options.start(url));
        let control = hosting
            .control
            .clone()
            .unwrap_or_else(|| tonearm_store::socket_of(&path, "ctl"));
        let metrics = hosting.metrics.as_deref().map(str::parse).transpose()?;
        Ok(Self {
            members: hosting.members.clone(),
            options: OpenOptions {
                write_back_on_recovery: hosting.write_back_on_recovery,
                map_cache_bytes: hosting.map_cache as usize,
                separation_interval: Nanos::from_secs(hosting.separation_interval),
                writes_while_reading: hosting.writes_while_reading,
                large_commit_bytes: hosting.large_commit,
                track_threshold_percent: hosting.track_threshold,
                max_delay: hosting.max_delay.map(nanos),
                checkpoint_every: hosting.checkpoint_every.map(nanos),
                ..opening::open_options(hosting.memory, hosting.ack, hosting.write_cache)
            },
            archive,
            metrics,
            control,
            files: tonearm_store::files_socket(&path),
            listening: None,
            mount: None,
            vhost: Vec::new(),
            attach: None,
            command: None,
            path,
        })
    }

    /// Mounts the file system, too, and makes changes durable within `max_delay` unless the arguments have another bound.
    pub fn with_mount(mut self, mount: MountPlan, max_delay: Duration) -> Self {
        self.options.read_only |= mount.is_read_only();
        self.options.max_delay = self.options.max_delay.or(Some(nanos(max_delay)));
        self.mount = Some(mount);
        self
    }

    /// Makes volumes devices of this kernel, too.
    pub fn with_devices(mut self, attach: AttachPlan) -> Self {
        self.attach = Some(attach);
        self
    }
}

/// Where NBD clients are served.
struct Listening {
    sockets: Vec<PathBuf>,
    tcp: Vec<SocketAddr>,
    inherited: Vec<OwnedFd>,
    tls: Tls,
}

impl Listening {
    fn of(arguments: &Serve) -> anyhow::Result<Self> {
        let inherited = tonearm_uring::inherited_listeners();
        let mut sockets = arguments.socket.clone();
        if sockets.is_empty() && arguments.listen.is_empty() && inherited.is_empty() {
            sockets.push(tonearm_store::socket_of(&arguments.path, "sock"));
        }
        let mut tcp = Vec::new();
        for text in &arguments.listen {
            tcp.push(address_of(text)?);
        }
        let tls = tls_of(arguments)?;
        if matches!(tls, Tls::Off) && !arguments.insecure {
            refuse_open(&tcp, &inherited)?;
        }
        Ok(Self {
            sockets,
            tcp,
            inherited,
            tls,
        })
    }

    fn listeners(&mut self) -> anyhow::Result<Vec<Listener>> {
        let mut listeners = Vec::new();
        for path in &self.sockets {
            listeners.push(Listener::unix(path)?);
        }
        for address in &self.tcp {
            listeners.push(Listener::tcp(*address)?);
        }
        for fd in self.inherited.drain(..) {
            listeners.push(Listener::inherited(fd)?);
        }
        Ok(listeners)
    }

    fn start(mut self, catalog: Catalog, connections: Mailbox) -> anyhow::Result<Server> {
        let listeners = self.listeners()?;
        let config = ListenConfig {
            tls: self.tls,
            ..ListenConfig::new(catalog)
        };
        let on_accept = move |accepted| {
            connections.send(Message::Connection(accepted));
        };
        Ok(Server::start(
            config,
            listeners,
            on_accept,
            |_peer, _why| {},
        )?)
    }
}

fn address_of(text: &str) -> anyhow::Result<SocketAddr> {
    let found = text
        .to_socket_addrs()
        .ok()
        .and_then(|mut found| found.next());
    found.with_context(|| {
        format!(
            "--listen {text}: write an address and a port, such as 127.0.0.1:10809 or [::1]:10809"
        )
    })
}

/// Refuses addresses on which other machines would read and write the volumes, for lack of TLS.
fn refuse_open(tcp: &[SocketAddr], inherited: &[OwnedFd]) -> anyhow::Result<()> {
    let addresses = inherited.iter().filter_map(|socket| {
        let address = rustix::net::getsockname(socket).ok()?;
        SocketAddr::try_from(address).ok()
    });
    let mut addresses = tcp.iter().copied().chain(addresses);
    match addresses.find(|address| !address.ip().to_canonical().is_loopback()) {
        Some(address) => bail!(
            "{address}: without TLS each machine that reaches this address could read and write every volume; give --tls-cert \
             and --tls-key, listen on 127.0.0.1, or use --insecure if you trust the whole network"
        ),
        None => Ok(()),
    }
}

fn tls_of(arguments: &Serve) -> anyhow::Result<Tls> {
    let (Some(certificate), Some(key)) = (&arguments.tls_cert, &arguments.tls_key) else {
        return Ok(Tls::Off);
    };
    let files = TlsFiles {
        certificate: certificate.clone(),
        key: key.clone(),
        client_ca: arguments.tls_ca.clone(),
    };
    let config = server_config(&files)?;
    Ok(match arguments.tls.unwrap_or(TlsMode::Require) {
        TlsMode::Require => Tls::Require(config),
        TlsMode::Allow => Tls::Allow(config),
    })
}

/// The parts that run beside the engine thread, apart from the listening part.
struct Running {
    _control: SocketFile,
    _files: Option<SocketFile>,
    _vhost: Vec<SocketFile>,
    metrics: Option<Responder>,
    mount: Option<Session>,
    attached: Vec<Attached>,
    /// The server ends with its mount or its last device.
    serves_nothing_else: bool,
    child: Option<ChildProcess>,
}

impl Running {
    fn start(
        mut plan: Plan,
        catalog: Catalog,
        front: &Front,
        mailbox: &Mailbox,
        mountpoint: Option<Mountpoint>,
        events: Sender<Event>,
    ) -> anyhow::Result<Self> {
        let control = control_socket::start(&plan.control, mailbox.clone())?;
        socket_file::watch(&control);
        let sessions = mailbox.clone();
        let files = SocketFile::listen(&plan.files, "files", move |stream| {
            sessions.send(Message::Files(stream.into()));
        });
        // Clients find this socket by the store's path alone. Volumes can be served without it.
        let files = files
            .inspect_err(|error| report::note(format_args!("files are not served: {error:#}")))
            .ok();
        let metrics = plan.metrics.take();
        let metrics = metrics
            .map(|address| Responder::start(&address, mailbox.clone()))
            .transpose()?;
        let vhost = plan.vhost.iter().map(|socket| socket.start(mailbox));
        let vhost = vhost.collect::<anyhow::Result<_>>()?;
        let mount = match (&plan.mount, mountpoint) {
            (Some(plan), Some(point)) => Some(plan.start(point, events.clone())?),
            _ => None,
        };
        let mut running = Self {
            _control: control,
            _files: files,
            _vhost: vhost,
            metrics,
            mount,
            attached: Vec::new(),
            serves_nothing_else: plan.listening.is_none(),
            child: None,
        };
        if let Err(error) = running.show(plan, catalog, front, mailbox, events) {
            mount::end(running.mount.take());
            for device in &running.attached {
                device.end(true);
            }
            return Err(error);
        }
        Ok(running)
    }

    /// Listens, says what is served, and starts the command of `--run`.
    fn show(
        &mut self,
        plan: Plan,
        catalog: Catalog,
        front: &Front,
        mailbox: &Mailbox,
        events: Sender<Event>,
    ) -> anyhow::Result<()> {
        let exports = catalog.clone();
        let mut addresses = Vec::new();
        let mut requires_tls = false;
        if let Some(listening) = plan.listening {
            requires_tls = matches!(listening.tls, Tls::Require(_));
            let server = listening.start(catalog, mailbox.clone())?;
            addresses = server.addresses().to_vec();
            *front.lock().unwrap_or_else(PoisonError::into_inner) = Some(server);
            report_serving(&addresses, requires_tls)?;
        }
        match &plan.mount {
            Some(mount) if addresses.is_empty() => report::line(mount.mounted())?,
            Some(mount) => report::note(mount.mounted()),
            None => {}
        }
        if let Some(plan) = &plan.attach {
            plan.start(mailbox, &exports, &events, &mut self.attached)?;
        }
        for device in &self.attached {
            if addresses.is_empty() {
                report::line(device.line())?
            } else {
                report::note(device.line())
            }
        }
        if !self.attached.is_empty() {
            swaps::watch(self.attached.iter().map(Attached::path).collect());
        }
        if let Some(metrics) = &self.metrics {
            report::note(format_args!("metrics at {}", metrics.url));
        }
        if let Some(command) = &plan.command {
            let child = ChildProcess::start(command, &addresses, requires_tls, events);
            self.child = Some(child?);
        }
        Ok(())
    }

    /// Waits until something ends the server. Returns the exit code, and the engine's result if that has ended already.
    fn wait(&mut self, events: &Receiver<Event>) -> (u8, Option<anyhow::Result<()>>) {
        loop {
            match events.recv() {
                Ok(Event::Ended(result)) => return (1, Some(result)),
                Ok(Event::Child(code)) => return (code, None),
                Ok(Event::Asked) => return (0, None),
                // Whoever asks for an archive has reasons, and does not look at a server that runs.
                Ok(Event::NotArchived) => return (1, None),
                Ok(Event::Signal(signal)) => match &self.child {
                    // The command decides when the server ends.
                    Some(child) => child.signal(signal),
                    None => {
                        report::note("shutting down; a second signal ends at once");
                        return (0, None);
                    }
                },
                Ok(Event::Unmounted(result)) => {
                    let code = self.after_mount(result);
                    if self.serves_nothing_else {
                        return (code, None);
                    }
                }
                Ok(Event::Detached(path, result)) => {
                    let code = self.after_device(&path, result);
                    if self.serves_nothing_else && self.attached.is_empty() {
                        return (code, None);
                    }
                }
                Ok(Event::Ready(..)) => {}
                Err(_) => return (1, None),
            }
        }
    }

    /// Clears up after a mount that has ended. Returns the exit code of a server that ends with it.
    fn after_mount(&mut self, result: std::io::Result<()>) -> u8 {
        let session = self.mount.take();
        match result {
            Ok(()) => {
                if let Some(session) = session {
                    session.join();
                }
                if !self.serves_nothing_else {
                    report::note("the file system was unmounted; volumes are still served");
                }
                0
            }
            Err(error) => {
                report::note(format_args!("the mount has failed: {error}"));
                mount::end(session);
                1
            }
        }
    }

    /// Forgets a device that has ended. Returns the exit code of a server that ends with it.
    fn after_device(&mut self, path: &Path, result: Result<(), AttachError>) -> u8 {
        let at = self
            .attached
            .iter()
            .position(|device| device.path() == path);
        let Some(at) = at else {
            return 0;
        };
        self.attached.swap_remove(at);
        match result {
            Ok(()) => {
                report::note(format_args!("{} was detached", path.display()));
                0
            }
            Err(error) => {
                report::note(format_args!("{} cannot be kept: {error}", path.display()));
                1
            }
        }
    }

    /// The command may outlive the store if the store has failed.
    fn reap(&mut self) {
        if let Some(child) = &self.child {
            child.signal(SIGTERM);
        }
    }
}

/// One line for the first address on standard output, the others beside it.
fn report_serving(addresses: &[ListenAddress], tls: bool) -> anyhow::Result<()> {
    let mut uris = addresses
        .iter()
        .map(|address| uri::of(address, "main", tls).unwrap_or_else(|| address.to_string()));
    let first = uris.next().context("there is nothing to listen on")?;
    report::line(format_args!("serving {first}"))?;
    for uri in uris {
        report::note(format_args!("also serving {uri}"));
    }
    Ok(())
}

/// Stops in order, and returns the engine's result.
fn stop(
    server: Option<Server>,
    mount: Option<Session>,
    mailbox: &Mailbox,
    events: &Receiver<Event>,
    ended: Option<anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let mut server = server;
    if let Some(server) = &mut server {
        server.stop();
    }
    // Programs' last changes come while the kernel unmounts, so the engine thread still serves.
    mount::end(mount);
    mailbox.send(Message::Stop);
    let result = match ended {
        Some(result) => result,
        None => loop {
            match events.recv() {
                Ok(Event::Ended(result)) => break result,
                Ok(_) => {}
                Err(_) => bail!("the engine thread has gone"),
            }
        },
    };
    if let Some(server) = &server {
        server.wait_connections(LAST_BYTES);
    }
    result
}

/// Signals this soon after the first one belong to it: `timeout`, a shell and a terminal send one to the process and
/// one to its group.
const ONE_SIGNAL: Duration = Duration::from_secs(1);

/// The first signal is an event. A later one ends the process at once.
fn watch_signals(events: &Sender<Event>) -> anyhow::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    let events = events.clone();
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            let mut first: Option<Instant> = None;
            for signal in signals.forever() {
                match first {
                    None => {
                        first = Some(Instant::now());
                        if events.send(Event::Signal(signal)).is_err() {
                            return;
                        }
                    }
                    Some(first) if first.elapsed() < ONE_SIGNAL => {}
                    // All commits that are not at home are in the log.
                    Some(_) => std::process::exit(128 + signal),
                }
            }
        })?;
    Ok(())
}

/// The command of `--run`.
struct ChildProcess {
    pid: Option<Pid>,
}

impl ChildProcess {
    fn start(
        command: &str,
        addresses: &[ListenAddress],
        tls: bool,
        events: Sender<Event>,
    ) -> anyhow::Result<Self> {
        let uri = addresses
            .iter()
            .find_map(|address| uri::of(address, "main", tls));
        let socket = addresses.iter().find_map(uri::socket_path);
        let mut shell = Command::new("sh");
        shell
            .arg("-c")
            .arg(command)
            .env_remove(service::SOCKET_VARIABLE)
            .env("uri", uri.unwrap_or_default());
        shell.env("unixsocket", socket.unwrap_or_default());
        let child = shell.spawn().context("cannot run sh for --run")?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        std::thread::Builder::new()
            .name("run".into())
            .spawn(move || events.send(Event::Child(wait(child))))?;
        Ok(Self { pid })
    }

    fn signal(&self, signal: i32) {
        let signal = if signal == SIGINT {
            Signal::INT
        } else {
            Signal::TERM
        };
        if let Some(pid) = self.pid {
            // It may have ended meanwhile.
            let _ = kill_process(pid, signal);
        }
    }
}

/// The exit code of the command, as the shell would give it.
fn wait(mut child: Child) -> u8 {
    let Ok(status) = child.wait() else { return 1 };
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
