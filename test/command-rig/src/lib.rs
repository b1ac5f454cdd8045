//! A folder of its own for each test of a command, and the command in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A program that is to be tested.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name, which begins each line of its standard error.
    pub name: &'static str,
    /// Path of the program.
    pub path: &'static str,
}

/// A folder that is removed at the end.
pub struct Bench {
    program: Program,
    folder: TempDir,
    env: Vec<(String, String)>,
}

/// How a command ended.
#[derive(Debug)]
pub struct Ran {
    /// Exit code; none after a signal.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Bench {
    /// An empty folder.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn new(program: Program) -> Self {
        Self::below(program, &std::env::temp_dir())
    }

    /// An empty folder in the folder `place`, which is made if it is not there.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn below(program: Program, place: &Path) -> Self {
        std::fs::create_dir_all(place).expect("a folder for tests");
        Self {
            program,
            folder: TempDir::new_in(place).expect("a folder for the test"),
            env: Vec::new(),
        }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The file `name` in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Names of the files in the folder, sorted.
    ///
    /// # Panics
    /// When they cannot be listed.
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

    /// Gives all later commands an environment variable.
    pub fn set_env(&mut self, name: &str, value: &str) {
        self.env.push((name.into(), value.into()));
    }

    /// The program with these arguments, in the folder, without standard input.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.program.path);
        command
            .args(arguments)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs the program.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(&self.command(arguments).output().expect("the program runs"))
    }

    /// Runs what must succeed; its standard output.
    ///
    /// # Panics
    /// When it fails.
    #[track_caller]
    pub fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
        ran.out
    }

    /// Runs what must succeed, as JSON.
    ///
    /// # Panics
    /// When it fails, or prints something else.
    #[track_caller]
    pub fn json(&self, arguments: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.ok(arguments)).expect("JSON")
    }

    /// Runs what must fail with exit code 1 and one line of text; the line.
    ///
    /// # Panics
    /// When it ends in another way.
    #[track_caller]
    pub fn fails(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, Some(1), "{arguments:?}: {ran:?}");
        ran.line(self.program.name)
    }
}

impl Ran {
    /// The parts of `output`.
    pub fn of(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Standard output followed by standard error.
    pub fn text(&self) -> String {
        format!("{}{}", self.out, self.err)
    }

    /// The one line of standard error, without the program's name before it.
    ///
    /// # Panics
    /// When there is more or less.
    #[track_caller]
    pub fn line(&self, program: &str) -> String {
        let line = self.err.trim_end();
        let rest = line
            .strip_prefix(program)
            .and_then(|line| line.strip_prefix(": "));
        match rest {
            Some(rest) if !rest.contains('\n') => rest.to_string(),
            _ => panic!("one line: {self:?}"),
        }
    }
}

/// Fails with the whole text when `part` is not in it.
///
/// # Panics
/// When `part` is not in `text`.
#[track_caller]
pub fn contains(text: &str, part: &str) {
    assert!(text.contains(part), "{part:?} is not in: {text}");
}
