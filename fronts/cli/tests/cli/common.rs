//! The command in a folder of its own for each test, as a server too, and ways to damage its files.

use std::io::{BufRead, BufReader, Read, Write};
use std::ops::Deref;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tonearm_command_rig::{Program, Ran};

pub use tonearm_command_rig::contains;

const TONEARM: Program = Program {
    name: "tonearm",
    path: env!("CARGO_BIN_EXE_tonearm"),
};

/// A folder that is removed at the end, and `tonearm` in it.
pub struct Bench(tonearm_command_rig::Bench);

impl Deref for Bench {
    type Target = tonearm_command_rig::Bench;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Bench {
    pub fn new() -> Self {
        Self(tonearm_command_rig::Bench::new(TONEARM))
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

    /// An NBD client that has the volume `main` open at the Unix socket `name`.
    pub fn connect(&self, name: &str) -> UnixStream {
        let mut client = UnixStream::connect(self.path(name)).expect("connected");
        let mut greeting = [0; 18];
        client.read_exact(&mut greeting).expect("a greeting");
        // Fixed newstyle, no zeroes; then the option EXPORT_NAME.
        let mut wanted = vec![0, 0, 0, 3];
        wanted.extend_from_slice(b"IHAVEOPT");
        wanted.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 4]);
        wanted.extend_from_slice(b"main");
        client.write_all(&wanted).expect("sent");
        let mut size_and_flags = [0; 10];
        client.read_exact(&mut size_and_flags).expect("an export");
        client
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

    /// Where copy `slot` of the superblock begins in a file.
    pub fn superblock(&self, name: &str, slot: u64) -> usize {
        let file = std::fs::metadata(self.path(name)).expect("a file");
        tonearm_format::superblock_offset(slot, file.len()) as usize
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
    pub fn end(self, signal: &str) -> Ran {
        let pid = self.pid().to_string();
        let sent = Command::new("kill")
            .args([signal, &pid])
            .status()
            .expect("kill runs");
        assert!(sent.success());
        self.ended()
    }

    /// Waits until it ends by itself.
    pub fn ended(mut self) -> Ran {
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
