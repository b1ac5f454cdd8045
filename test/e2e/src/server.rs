//! A server that ends with its guard.

use crate::bench::Bench;
use crate::nbd::Client;
use crate::tool::Ran;
use std::fs::File;
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a server may take until it serves.
const READY: Duration = Duration::from_secs(30);
/// How long a server may take to end in order.
const END: Duration = Duration::from_secs(60);

/// A `tonearm serve`; killed when dropped.
pub struct Server {
    child: Option<Child>,
    out: PathBuf,
    err: PathBuf,
    /// What it printed: `nbd+unix:///main?socket=...`.
    pub uri: String,
    /// Time from the start to the line that says that it serves.
    pub started_in: Duration,
}

impl Server {
    /// Starts one and waits until it serves; how it ended, if it does not.
    ///
    /// # Errors
    /// When it ends, or has not said within half a minute that it serves.
    pub fn start(bench: &Bench, arguments: &[&str]) -> Result<Self, Ran> {
        // Each its own files: what one says is looked at after the next has begun.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let out = bench.path(&format!("serve-{number}.out"));
        let err = bench.path(&format!("serve-{number}.err"));
        let mut command = bench.command(&[&["serve"], arguments].concat());
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
            if let Some(uri) = line.and_then(|line| line.strip_prefix("serving ")) {
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

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// The socket in its URI.
    pub fn socket(&self) -> PathBuf {
        let (_, path) = self.uri.split_once("socket=").expect("a Unix socket");
        PathBuf::from(path)
    }

    /// Its URI for the export `name`.
    pub fn uri_of(&self, name: &str) -> String {
        format!("nbd+unix:///{name}?socket={}", self.socket().display())
    }

    /// A client of the export `name`.
    #[track_caller]
    pub fn client(&self, name: &str) -> Client {
        Client::connect(&self.socket(), name).expect("connected")
    }

    /// Resident memory, KiB.
    pub fn rss_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid()));
        let status = status.expect("a process");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        number
            .and_then(|number| number.parse().ok())
            .expect("a size")
    }

    /// `kill -9`.
    pub fn kill9(mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("killed");
        child.wait().expect("an end");
    }

    /// Asks it to end in order, and waits; what it said.
    #[track_caller]
    pub fn end(mut self) -> Ran {
        let child = self.child.as_mut().expect("it runs");
        let pid = rustix::process::Pid::from_child(child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("sent");
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

    /// Ends it in order, with code 0.
    #[track_caller]
    pub fn end_ok(self) {
        let ran = self.end();
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }

    /// Whether it is still there.
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

/// Waits for `ready`; fails after `limit`.
#[track_caller]
pub fn wait_until(what: &str, limit: Duration, mut ready: impl FnMut() -> bool) {
    let started = Instant::now();
    while !ready() {
        assert!(
            started.elapsed() < limit,
            "{what} has not come within {limit:?}"
        );
        std::thread::sleep(Duration::from_millis(3));
    }
}
