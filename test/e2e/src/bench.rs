//! A folder for one test, and functions that run commands in it.

use crate::server::Server;
use crate::tool::{Ran, tool};
use std::io::{Read, Write};
use std::ops::Deref;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use tonearm_command_rig::Program;

/// A folder that is removed when the value is dropped, and the programs that run in it.
pub struct Bench {
    rig: tonearm_command_rig::Bench,
}

impl Deref for Bench {
    type Target = tonearm_command_rig::Bench;

    fn deref(&self) -> &Self::Target {
        &self.rig
    }
}

impl Bench {
    /// A new folder, below `TONEARM_TEST_DIR` if set, otherwise below cargo's folder for tests. Both are on a real file
    /// system, so that direct I/O and sparse files work as they do for users.
    pub fn new() -> Self {
        let below = std::env::var_os("TONEARM_TEST_DIR").map_or_else(default_folder, PathBuf::from);
        let program = Program {
            name: "tonearm",
            path: binary().to_str().expect("a path in UTF-8"),
        };
        Self {
            rig: tonearm_command_rig::Bench::below(program, &below),
        }
    }

    /// Gives all later commands of `tonearm` an environment variable.
    pub fn set_env(&mut self, name: &str, value: &str) {
        self.rig.set_env(name, value);
    }

    /// A folder with a store `s.tn` made with these arguments.
    pub fn created(arguments: &[&str]) -> Self {
        let bench = Self::new();
        bench.ok(&[&["create", "s.tn"], arguments].concat());
        bench
    }

    /// A folder with a store `s.tn` of this size and a log of 8 MiB.
    pub fn with_store(size: &str) -> Self {
        Self::created(&["--size", size, "--log-size", "8MiB"])
    }

    /// A folder with a store `s.tn` of 64 MiB in a layout of [`crate::LAYOUTS`], whose volume `main` has 16 MiB, so that
    /// there is space for files.
    pub fn with_small_store(layout: &[&str]) -> Self {
        let sizes = ["--size", "64MiB", "--log-size", "8MiB"];
        let bench = Self::created(&[&sizes, layout].concat());
        bench.ok(&["volume", "resize", "s.tn", "main", "--size", "16MiB"]);
        bench
    }

    /// Names and sizes of the files in `s.tn`.
    pub fn stored_files(&self) -> Vec<(String, u64)> {
        let list = self.json(&["files", "list", "s.tn", "--json"]);
        let file = |file: &serde_json::Value| {
            let name = file["name"].as_str().expect("a name").to_owned();
            (name, file["size_bytes"].as_u64().expect("a size"))
        };
        let files = list["files"].as_array().expect("a list");
        files.iter().map(file).collect()
    }

    /// Names of the files in `s.tn`.
    pub fn stored_names(&self) -> Vec<String> {
        let files = self.stored_files().into_iter();
        files.map(|(name, _)| name).collect()
    }

    /// Runs a program of the system in the folder.
    #[track_caller]
    pub fn tool_run(&self, name: &str, arguments: &[&str]) -> Ran {
        let output = tool(self.folder(), name).args(arguments).output();
        Ran::of(&output.expect("timeout runs"))
    }

    /// Runs a program of the system, which must succeed, and returns its standard output.
    #[track_caller]
    pub fn tool(&self, name: &str, arguments: &[&str]) -> String {
        let ran = self.tool_run(name, arguments);
        assert_eq!(ran.code, Some(0), "{name} {arguments:?}: {ran:?}");
        ran.out
    }

    /// Runs a Python program in nbdsh. Every assertion in it must hold.
    #[track_caller]
    pub fn nbdsh(&self, uri: &str, program: &str) -> String {
        self.tool("nbdsh", &["-u", uri, "-c", program])
    }

    /// Serves with these arguments until the returned server is dropped. The first argument is the store.
    #[track_caller]
    pub fn serve(&self, arguments: &[&str]) -> Server {
        Server::start(self, arguments).unwrap_or_else(|ran| panic!("no server: {ran:?}"))
    }

    /// Serves `s.tn` on the socket `s.sock`.
    #[track_caller]
    pub fn serve_store(&self) -> Server {
        self.serve(&["s.tn", "--socket", "s.sock"])
    }

    /// The answer of the server whose metrics are at this Unix socket.
    #[track_caller]
    pub fn metrics(&self, socket: &str) -> String {
        let mut stream = UnixStream::connect(self.path(socket)).expect("connected");
        let get = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(get).expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("text");
        assert!(text.starts_with("HTTP/1.0 200"), "{text}");
        text
    }

    /// Content of a file.
    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).expect("a file")
    }

    /// Creates a file.
    pub fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path(name), bytes).expect("written");
    }

    /// Overwrites bytes in the middle of a file.
    pub fn overwrite(&self, name: &str, offset: u64, bytes: &[u8]) {
        let file = std::fs::File::options()
            .write(true)
            .open(self.path(name))
            .expect("a file");
        file.write_all_at(bytes, offset).expect("written");
        file.sync_all().expect("synced");
    }

    /// Bytes that a file occupies on its file system.
    pub fn allocated(&self, name: &str) -> u64 {
        self.path(name).metadata().expect("a file").blocks() * 512
    }

    /// The first offset at or after `from`, a multiple of 4 KiB, at which `needle` begins.
    pub fn find_block(&self, name: &str, from: u64, needle: &[u8]) -> Option<u64> {
        let file = std::fs::File::open(self.path(name)).expect("a file");
        let end = file.metadata().expect("a file").len();
        let mut bytes = vec![0; needle.len()];
        (from.next_multiple_of(4096)..end)
            .step_by(4096)
            .find(|&at| file.read_exact_at(&mut bytes, at).is_ok() && bytes == needle)
    }
}

impl Default for Bench {
    fn default() -> Self {
        Self::new()
    }
}

/// Cargo's folder for tests, next to the programs that cargo has built.
fn default_folder() -> PathBuf {
    let target = profile_folder().parent().map(Path::to_path_buf);
    target.expect("a target folder").join("tmp")
}

/// `target/PROFILE`: the grandparent of this test program.
fn profile_folder() -> PathBuf {
    let this = std::env::current_exe().expect("this program has a path");
    let folder = this.ancestors().nth(2).expect("target/PROFILE/deps/e2e");
    folder.to_path_buf()
}

/// The `tonearm` to test: `TONEARM_BIN`, or that of this workspace. The latter is built first, so that no outdated
/// program is tested.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(path) = std::env::var_os("TONEARM_BIN") {
            return PathBuf::from(path);
        }
        let folder = profile_folder();
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        build
            .args(["build", "--quiet", "-p", "tonearm", "-p", "tonearm-sqlite"])
            .current_dir(env!("CARGO_MANIFEST_DIR"));
        // Cargo sets them for tests. The build of `ring` depends on them, so it, and all that uses it, would be built again.
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
                build.env_remove(&*name);
            }
        }
        let profile = folder.file_name().expect("a profile");
        if profile != "debug" {
            build.arg("--profile").arg(profile);
        }
        assert!(build.status().expect("cargo runs").success());
        folder.join("tonearm")
    })
}

/// The SQLite extension to test: `TONEARM_SQLITE_SO`, or the one next to the `tonearm` program.
pub fn extension() -> PathBuf {
    let named = std::env::var_os("TONEARM_SQLITE_SO").map(PathBuf::from);
    let path = named.unwrap_or_else(|| binary().with_file_name("libtonearm_sqlite.so"));
    assert!(path.is_file(), "there is no {}", path.display());
    path
}
