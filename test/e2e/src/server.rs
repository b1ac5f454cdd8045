//! A server process that ends when its value is dropped.

use crate::bench::Bench;
use crate::nbd::Client;
use crate::tool::Ran;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Longest time until a server serves.
const READY: Duration = Duration::from_secs(30);
/// Longest time until a server has ended in order.
const END: Duration = Duration::from_secs(60);

/// A `tonearm serve` process. It is killed when it is dropped.
pub struct Server {
    child: Option<Child>,
    out: PathBuf,
    err: PathBuf,
    /// What the server printed when it was ready: the URI `nbd+unix:///main?socket=...`, or what is mounted where.
    pub uri: String,
    /// Time from the start to the line that says that the server serves.
    pub started_in: Duration,
}

impl Server {
    /// Starts a server and waits until it serves.
    ///
    /// # Errors
    /// The result of the process, when it ends or does not serve within half a minute.
    pub fn start(bench: &Bench, arguments: &[&str]) -> Result<Self, Ran> {
        Self::start_with(bench, &[&["serve"], arguments].concat(), "serving ")
    }

    /// Starts a command that serves, and waits until it says so in a line that begins with `ready`.
    ///
    /// # Errors
    /// As for [`Server::start`].
    pub fn start_with(bench: &Bench, words: &[&str], ready: &str) -> Result<Self, Ran> {
        // Each server writes to its own files, because a test may read the output of one after it has started another.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let out = bench.path(&format!("serve-{number}.out"));
        let err = bench.path(&format!("serve-{number}.err"));
        let mut command = bench.command(words);
        command
            .stdout(File::create(&out).expect("a file"))
            .stderr(File::create(&err).expect("a file"));
        let started = Instant::now();
        let mut server = Self {
            child: Some(command.spawn().expect("tonearm runs")),
            out,
            err,
            uri: String::new(),
            started_in: Duration::ZERO,
        };
        loop {
            let text = std::fs::read_to_string(&server.out).expect("a file");
            let line = text.split_once('\n').map(|(line, _)| line);
            if let Some(uri) = line.and_then(|line| line.strip_prefix(ready)) {
                server.uri = uri.to_string();
                server.started_in = started.elapsed();
                return Ok(server);
            }
            let child = server.child.as_mut().expect("started");
            let ended = child.try_wait().expect("a child");
            if ended.is_some() || started.elapsed() > READY {
                let code = ended.and_then(|status| status.code());
                return Err(server.said(code));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Id of the process.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// Path of the socket in the URI.
    pub fn socket(&self) -> PathBuf {
        let (_, path) = self.uri.split_once("socket=").expect("a Unix socket");
        PathBuf::from(path)
    }

    /// URI of the export `name`.
    pub fn uri_of(&self, name: &str) -> String {
        format!("nbd+unix:///{name}?socket={}", self.socket().display())
    }

    /// A client of the export `name`.
    #[track_caller]
    pub fn client(&self, name: &str) -> Client {
        Client::connect(&self.socket(), name).expect("connected")
    }

    /// Resident memory in KiB.
    pub fn rss_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()));
        let status = status.expect("a process");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        number
            .and_then(|number| number.parse().ok())
            .expect("a size")
    }

    /// Kills the server with SIGKILL and waits for its end.
    pub fn kill9(mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("killed");
        child.wait().expect("an end");
    }

    /// Sends SIGTERM, waits for the end, and returns the result.
    #[track_caller]
    pub fn end(self) -> Ran {
        self.signal(Signal::TERM);
        self.ended()
    }

    /// Waits until the server has printed `text` to standard error.
    #[track_caller]
    pub fn wait_for_note(&self, text: &str) {
        let printed = || std::fs::read_to_string(&self.err).is_ok_and(|err| err.contains(text));
        wait_until(text, READY, printed);
    }

    /// Sends a signal.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(self.child.as_ref().expect("it runs"));
        kill_process(pid, signal).expect("sent");
    }

    /// Waits for the end, and returns the result.
    #[track_caller]
    pub fn ended(mut self) -> Ran {
        let child = self.child.as_mut().expect("it runs");
        let pid = Pid::from_child(child);
        let mut status = None;
        let asked = Instant::now();
        wait_until("an orderly end", END, || {
            status = child.try_wait().expect("a child");
            status.is_some()
        });
        self.child = None;
        if asked.elapsed() > Duration::from_secs(5) {
            println!(
                "slow end of {}: {:?}",
                pid.as_raw_nonzero(),
                asked.elapsed()
            );
        }
        self.said(status.and_then(|status| status.code()))
    }

    /// Ends the server in order, which must give code 0.
    #[track_caller]
    pub fn end_ok(self) {
        let ran = self.end();
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }

    /// True while the process runs.
    pub fn runs(&mut self) -> bool {
        let child = self.child.as_mut().expect("not ended by the test");
        child.try_wait().expect("a child").is_none()
    }

    fn said(&self, code: Option<i32>) -> Ran {
        Ran {
            code,
            out: std::fs::read_to_string(&self.out).unwrap_or_default(),
            err: std::fs::read_to_string(&self.err).unwrap_or_default(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
            if std::thread::panicking() {
                eprintln!("the server said: {:?}", self.said(None));
            }
        }
    }
}

/// Waits until `ready` returns true. Fails after `limit`.
#[track_caller]
pub fn wait_until(what: &str, limit: Duration, mut ready: impl FnMut() -> bool) {
    let started = Instant::now();
    while !ready() {
        assert!(
            started.elapsed() < limit,
            "{what} did not happen within {limit:?}"
        );
        std::thread::sleep(Duration::from_millis(3));
    }
}
