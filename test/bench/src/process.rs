//! Programs that a benchmark runs.

use anyhow::{Context, bail};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Runs a program, which must succeed, and returns its standard output.
///
/// # Errors
/// When it cannot be run, or with what it says on standard error.
pub fn run(command: &mut Command) -> anyhow::Result<Vec<u8>> {
    let ran = command.stdin(Stdio::null()).output();
    let ran = ran.with_context(|| format!("cannot run {}", command.get_program().display()))?;
    if !ran.status.success() {
        let text = String::from_utf8_lossy(&ran.stderr);
        bail!("{command:?}: {}: {}", ran.status, text.trim());
    }
    Ok(ran.stdout)
}

/// The absolute path of the `tonearm` program.
///
/// # Errors
/// When it is missing.
pub fn tonearm(path: &Path) -> anyhow::Result<PathBuf> {
    path.canonicalize().with_context(|| {
        let path = path.display();
        format!("{path} is missing: cargo build --release -p tonearm")
    })
}

/// A command that the kernel ends when this process dies, so that no server is left. `setpriv` executes the command in
/// its own process, so that the child's pid is the server's.
pub fn ending_with_us(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "--"]).arg(program);
    command
}

/// A server. It is killed when the value is dropped while it runs, which is so only after an error.
pub struct Server {
    /// Its process.
    pub child: Child,
    log: PathBuf,
}

impl Server {
    /// Starts it, with its standard error in the file `log`. With `line` waits until it prints a line that begins with this.
    ///
    /// # Errors
    /// When it does not start, with the contents of `log`.
    pub fn start(command: &mut Command, log: PathBuf, line: Option<&str>) -> anyhow::Result<Self> {
        let stdout = match line {
            Some(_) => Stdio::piped(),
            None => Stdio::null(),
        };
        command.stdin(Stdio::null()).stdout(stdout);
        let child = command.stderr(File::create(&log)?).spawn();
        let child = child.with_context(|| format!("cannot run {command:?}"))?;
        let mut server = Self { child, log };
        if let (Some(begin), Some(stdout)) = (line, server.child.stdout.take()) {
            let mut line = String::new();
            BufReader::new(stdout).read_line(&mut line)?;
            if !line.starts_with(begin) {
                bail!("{command:?} does not serve: {}", server.log()?);
            }
        }
        Ok(server)
    }

    /// What it has said on standard error.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn log(&self) -> anyhow::Result<String> {
        Ok(fs::read_to_string(&self.log)?.trim().to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
