//! PostgreSQL on a folder, as the user `postgres`. Its processes are killed when the value is dropped.

use crate::bench::Bench;
use crate::server::wait_until;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Where Debian has the programs of each version.
const VERSIONS: &str = "/usr/lib/postgresql";
/// The user that Debian's package makes. PostgreSQL refuses to run as root.
const USER: &str = "postgres";
/// Longest time until it takes connections: a recovery included.
const READY: Duration = Duration::from_secs(60);

/// PostgreSQL's programs, the user that runs them, and the folder of a database.
pub struct Postgres {
    programs: PathBuf,
    user: (u32, u32),
    /// Folder of the database.
    data: PathBuf,
    /// Folder of the socket and of what the programs print.
    place: PathBuf,
    child: Option<Child>,
}

impl Postgres {
    /// PostgreSQL for a database in the folder `data`, which is made and given to its user.
    ///
    /// # Panics
    /// When PostgreSQL is missing; the message names the package.
    #[track_caller]
    pub fn new(bench: &Bench, data: PathBuf) -> Self {
        let versions = fs::read_dir(VERSIONS).into_iter().flatten().flatten();
        let programs = versions.map(|version| version.path().join("bin"));
        let programs = programs.filter(|folder| folder.join("initdb").exists());
        let missing =
            "postgres is missing: apt install postgresql (this test does not run without it)";
        let programs = programs.max().expect(missing);
        let users = fs::read_to_string("/etc/passwd").expect("users");
        let user = users.lines().find_map(|line| {
            let mut fields = line.split(':');
            let is_it = fields.next() == Some(USER);
            let ids = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
            is_it.then_some(ids)
        });
        let user: (u32, u32) = user.expect(missing);
        // The folder of a test is its owner's alone.
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(bench.folder(), open).expect("opened");
        let place = bench.path("postgres");
        for folder in [&place, &data] {
            fs::create_dir(folder).expect("a folder");
            chown(folder, Some(user.0), Some(user.1)).expect("given away");
        }
        Self {
            programs,
            user,
            data,
            place,
            child: None,
        }
    }

    /// One of its programs, to be run by its user. timeout(1) ends it after ten minutes.
    pub fn program(&self, name: &str) -> Command {
        let mut command = Command::new("timeout");
        command
            .args(["--kill-after=5", "600"])
            .arg(self.programs.join(name))
            .uid(self.user.0)
            .gid(self.user.1)
            .env_clear()
            .env("LC_ALL", "C")
            .env("PATH", "/usr/bin:/bin")
            .env("PGHOST", &self.place)
            .env("PGDATABASE", "postgres")
            .env("PGUSER", USER)
            .current_dir(&self.place)
            .stdin(Stdio::null());
        command
    }

    /// Runs one of its programs, which must succeed, and returns what it prints.
    #[track_caller]
    pub fn ok(&self, name: &str, arguments: &[&str]) -> String {
        let ran = self.program(name).args(arguments).output();
        let ran = ran.expect("timeout runs");
        let text = String::from_utf8_lossy(&ran.stdout).into_owned();
        let errors = String::from_utf8_lossy(&ran.stderr);
        assert!(
            ran.status.success(),
            "{name} {arguments:?}: {}: {text}{errors}\n{}",
            ran.status,
            self.log_end()
        );
        text
    }

    /// Makes the database with more arguments of `initdb`.
    #[track_caller]
    pub fn initialise(&self, more: &[&str]) {
        let data = self.data.to_str().expect("a path in UTF-8");
        let words = ["-D", data, "-U", USER, "-A", "trust", "--no-instructions"];
        self.ok("initdb", &[&words, more].concat());
    }

    /// Starts it with more settings, and waits until it takes connections.
    #[track_caller]
    pub fn start(&mut self, settings: &[&str]) {
        let log = File::options().create(true).append(true).open(self.log());
        let log = log.expect("a log");
        let mut command = Command::new(self.programs.join("postgres"));
        command
            .arg("-D")
            .arg(&self.data)
            .arg("-k")
            .arg(&self.place)
            .args(["-c", "listen_addresses="])
            .args(settings.iter().flat_map(|setting| ["-c", setting]))
            .uid(self.user.0)
            .gid(self.user.1)
            .env_clear()
            .env("LC_ALL", "C")
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log);
        self.child = Some(command.spawn().expect("postgres runs"));
        wait_until("PostgreSQL's start", READY, || {
            let child = self.child.as_mut().expect("started");
            let ended = child.try_wait().expect("a child");
            assert!(ended.is_none(), "{ended:?}: {}", self.log_end());
            let asked = self.program("pg_isready").arg("-q").status();
            asked.expect("timeout runs").success()
        });
    }

    /// The result of a statement, unaligned and without a header.
    #[track_caller]
    pub fn query(&self, sql: &str) -> String {
        let words = ["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", sql];
        self.ok("psql", &words).trim_end().to_owned()
    }

    /// Stops it in order.
    #[track_caller]
    pub fn stop(&mut self) {
        let mut child = self.child.take().expect("it runs");
        kill_process(Pid::from_child(&child), Signal::INT).expect("sent");
        let status = child.wait().expect("an end");
        assert!(status.success(), "{status}: {}", self.log_end());
    }

    /// Kills all of its processes.
    pub fn kill9(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        let _ = child.kill();
        let _ = child.wait();
        // Each process of PostgreSQL is a group of its own, and is in the folder of the database. The link to a folder of a
        // dead mount can still be read.
        wait_until("the end of PostgreSQL's processes", READY, || {
            let left = processes_in(&self.data);
            for pid in &left {
                let _ = kill_process(*pid, Signal::KILL);
            }
            left.is_empty()
        });
    }

    /// The log of all servers of this database.
    pub fn log(&self) -> PathBuf {
        self.place.join("log")
    }

    fn log_end(&self) -> String {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill9();
    }
}

/// Processes whose working folder is `folder`.
fn processes_in(folder: &Path) -> Vec<Pid> {
    let of = |entry: fs::DirEntry| {
        let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
        let place = fs::read_link(entry.path().join("cwd")).ok()?;
        (place == folder).then_some(pid)
    };
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(of).collect()
}
