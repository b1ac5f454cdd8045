//! A folder of its own for each test, and the command in it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

const TONEARM: &str = env!("CARGO_BIN_EXE_tonearm");

/// A folder that is removed at the end.
pub struct Bench {
    folder: TempDir,
}

/// How a command ended.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Bench {
    pub fn new() -> Self {
        Self {
            folder: TempDir::new().expect("a folder for the test"),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Names of the files in the folder, sorted.
    pub fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).expect("a folder");
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(TONEARM);
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(&self.command(arguments).output().expect("tonearm runs"))
    }

    /// Runs what must succeed; its standard output.
    pub fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
        ran.out
    }

    /// Runs what must succeed, as JSON.
    pub fn json(&self, arguments: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.ok(arguments)).expect("JSON")
    }

    /// Runs what must fail with exit code 1 and one line of text; the line.
    pub fn fails(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, Some(1), "{arguments:?}: {ran:?}");
        let line = ran.err.trim_end();
        assert!(
            line.starts_with("tonearm: ") && !line.contains('\n'),
            "one line: {ran:?}"
        );
        line.strip_prefix("tonearm: ")
            .expect("just looked")
            .to_string()
    }

    /// Serves `store` until the returned guard is asked to end it.
    pub fn serve(&self, arguments: &[&str]) -> Serving {
        let mut command = self.command(&[&["serve"], arguments].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("tonearm runs");
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        out.read_line(&mut line).expect("a line");
        let uri = line.trim_end().strip_prefix("serving ").map(str::to_string);
        let Some(uri) = uri else {
            panic!("no URI: {:?}", child.wait_with_output());
        };
        Serving {
            child: Some(child),
            uri,
        }
    }

    /// Changes the byte at `offset` of a file.
    pub fn flip(&self, name: &str, offset: usize) {
        let mut bytes = part(&self.path(name), offset as u64, 1);
        bytes[0] ^= 0xff;
        self.overwrite(name, offset, &bytes);
    }

    pub fn overwrite(&self, name: &str, offset: usize, bytes: &[u8]) {
        use std::os::unix::fs::FileExt;
        let file = std::fs::File::options()
            .write(true)
            .open(self.path(name))
            .expect("a file");
        file.write_all_at(bytes, offset as u64).expect("written");
    }

    /// Where `needle` begins, in the part of a file from `from` on.
    pub fn find(&self, name: &str, from: u64, needle: &[u8]) -> usize {
        let length = self.path(name).metadata().expect("a file").len();
        let bytes = part(&self.path(name), from, (length - from) as usize);
        let at = bytes
            .windows(needle.len())
            .position(|window| window == needle);
        from as usize + at.expect("the needle is there")
    }
}

fn part(path: &Path, offset: u64, length: usize) -> Vec<u8> {
    use std::os::unix::fs::FileExt;
    let mut bytes = vec![0; length];
    std::fs::File::open(path)
        .expect("a file")
        .read_exact_at(&mut bytes, offset)
        .expect("read");
    bytes
}

impl Ran {
    fn of(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// A server; killed when it is dropped.
pub struct Serving {
    child: Option<Child>,
    pub uri: String,
}

impl Serving {
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("serving").id()
    }

    /// Asks for an orderly end by `signal`, and waits for it.
    pub fn end(mut self, signal: &str) -> Ran {
        let pid = self.pid().to_string();
        let sent = Command::new("kill")
            .args([signal, &pid])
            .status()
            .expect("kill runs");
        assert!(sent.success());
        let child = self.child.take().expect("serving");
        Ran::of(&child.wait_with_output().expect("an end"))
    }

    /// Ends it as a crash would.
    pub fn kill(mut self) {
        let mut child = self.child.take().expect("serving");
        child.kill().expect("killed");
        child.wait().expect("an end");
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Fails with the whole text when `part` is not in it.
#[track_caller]
pub fn contains(text: &str, part: &str) {
    assert!(text.contains(part), "{part:?} is not in: {text}");
}
