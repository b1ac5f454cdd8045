//! A virtual machine that a shell command boots, and its serial console, as a user has them in a terminal.

use crate::bench::Bench;
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Longest time until an awaited text appears, several times what a system needs to boot on a slow machine.
const LIMIT: Duration = Duration::from_secs(300);

/// A machine and its console. It loses its power when the value is dropped.
pub struct Console {
    child: Child,
    input: ChildStdin,
    output: Receiver<Vec<u8>>,
    /// All that the machine has printed.
    text: String,
    /// How much of it a caller has waited for.
    read: usize,
}

impl Console {
    /// Boots a machine by a command for sh, in the folder of the test.
    #[track_caller]
    pub fn boot(bench: &Bench, command: &str) -> Self {
        let mut child = Command::new("sh")
            // The machine is the process that is killed.
            .args(["-c", &format!("exec {command}")])
            .current_dir(bench.folder())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(bench.path("qemu.err")).expect("a file"))
            .spawn()
            .expect("sh runs");
        let mut stdout = child.stdout.take().expect("piped");
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = stdout.read(&mut bytes) {
                if sender.send(bytes[..n].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            input: child.stdin.take().expect("piped"),
            child,
            output,
            text: String::new(),
            read: 0,
        }
    }

    /// Waits until the machine prints `text`, and returns what it printed before.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) -> String {
        let until = Instant::now() + LIMIT;
        loop {
            if let Some(at) = self.text[self.read..].find(text) {
                let before = self.text[self.read..self.read + at].to_owned();
                self.read += at + text.len();
                return before;
            }
            match self
                .output
                .recv_timeout(until.saturating_duration_since(Instant::now()))
            {
                Ok(bytes) => self.take(&bytes),
                Err(RecvTimeoutError::Timeout) => {
                    panic!("no {text:?} within {LIMIT:?}; {}", self.said())
                }
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("the machine ended before {text:?}; {}", self.said())
                }
            }
        }
    }

    /// Logs in as root, who has no password, and starts a shell in /tmp that prints nothing but the output of commands.
    #[track_caller]
    pub fn log_in(&mut self) {
        self.wait_for(" login: ");
        self.enter("root");
        self.wait_for(":~# ");
        self.enter("dmesg -n 1; cd /tmp; stty -echo; exec env PS1= PS2= LC_ALL=C sh");
        self.run("true");
    }

    /// Types a line.
    #[track_caller]
    pub fn enter(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("the machine runs");
    }

    /// Runs a command in the shell of [`Console::log_in`], which must succeed, and returns its output.
    #[track_caller]
    pub fn run(&mut self, command: &str) -> String {
        self.enter(&format!("{command}\necho \"[gave $?]\""));
        let (output, code) = loop {
            let output = self.wait_for("[gave ");
            // The command may be echoed, also in pieces. Its `$?` is no number.
            if let Ok(code) = self.wait_for("]").parse::<u8>() {
                break (output, code);
            }
        };
        assert_eq!(code, 0, "{command}: {output}");
        output.trim().to_owned()
    }

    /// Waits until the machine has ended in order.
    #[track_caller]
    pub fn ended(mut self) {
        let status = self.exit();
        assert!(status.success(), "{status}; {}", self.said());
    }

    /// Takes the power from the machine, and returns what it printed that no caller has waited for.
    pub fn cut_power(mut self) -> String {
        self.child.kill().expect("killed");
        self.exit();
        self.text[self.read..].to_owned()
    }

    fn exit(&mut self) -> ExitStatus {
        let until = Instant::now() + LIMIT;
        while let Ok(bytes) = self
            .output
            .recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            self.take(&bytes);
        }
        assert!(
            Instant::now() < until,
            "the machine runs on; {}",
            self.said()
        );
        self.child.wait().expect("an end")
    }

    /// Adds output to the text, without carriage returns. A character of several bytes may be cut; no awaited text has one.
    fn take(&mut self, bytes: &[u8]) {
        self.text
            .push_str(&String::from_utf8_lossy(bytes).replace('\r', ""));
    }

    fn said(&self) -> String {
        let lines: Vec<&str> = self.text.lines().collect();
        let last = lines.len().saturating_sub(40);
        format!("it said:\n{}", lines[last..].join("\n"))
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
