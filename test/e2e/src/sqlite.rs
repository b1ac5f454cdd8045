//! The system's SQLite with the extension loaded: its shell, and Python's module.

use crate::bench::{Bench, extension};
use crate::tool::{Background, Ran, tool};
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

/// A program that reads one statement a line and answers each with one line: `ok` and the rows, or `error` and the
/// text.
const CONNECTION: &str = "
import sqlite3, sys
extension, uri = sys.argv[1:3]
if extension:
    loader = sqlite3.connect(':memory:')
    loader.enable_load_extension(True)
    loader.load_extension(extension)
try:
    db = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=0)
    print('ok', flush=True)
except sqlite3.Error as error:
    print('error', error, flush=True)
    sys.exit()
for line in sys.stdin:
    try:
        rows = db.execute(line).fetchall()
        print('ok', ';'.join('|'.join(map(str, row)) for row in rows), flush=True)
    except sqlite3.Error as error:
        print('error', error, flush=True)
";

/// When the shell cannot open a database, it continues with one in memory. These statements fail then.
const GUARD: &str = "CREATE TEMP TABLE opened(file CHECK (file <> ''));
    INSERT INTO opened SELECT file FROM pragma_database_list WHERE name = 'main'; DROP TABLE opened";

/// URI of the database `name` in the store `s.tn` of the bench. More parameters may follow the name: `app.db&batch=off`.
pub fn uri(bench: &Bench, name: &str) -> String {
    let store = bench.path("s.tn");
    let (file, more) = name.split_at(name.find('&').unwrap_or(name.len()));
    format!("file:{file}?vfs=tonearm&store={}{more}", store.display())
}

/// Runs `statements` in the system's sqlite3 on the database `name` of `s.tn`.
pub fn shell(bench: &Bench, name: &str, statements: &str) -> Ran {
    let load = format!(".load {}", extension().display());
    let open = format!(".open {}", uri(bench, name));
    let mut arguments = vec!["-bail"];
    for line in [".log stderr", &load, &open, ".log off", GUARD] {
        arguments.extend(["-cmd", line]);
    }
    bench.tool_run(
        "sqlite3",
        &[&arguments[..], &[":memory:", statements]].concat(),
    )
}

/// Runs `statements`, which must succeed, and returns what the shell printed.
#[track_caller]
pub fn sql(bench: &Bench, name: &str, statements: &str) -> String {
    let ran = shell(bench, name, statements);
    assert_eq!(ran.code, Some(0), "{statements}: {ran:?}");
    ran.out.trim_end().to_string()
}

/// Start of a Python program. It defines `connect()`, which connects to a database in a store.
const CONNECT: &str = "
import multiprocessing, os, sqlite3, sys, time
extension, uri = sys.argv[1:3]
loader = sqlite3.connect(':memory:')
loader.enable_load_extension(True)
loader.load_extension(extension)
def connect():
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=60)
";

/// A command that runs a Python program in which `connect()` connects to the database `name` of `s.tn`.
pub fn python(bench: &Bench, name: &str, program: &str) -> Command {
    let mut command = tool(bench.folder(), "python3");
    command
        .args(["-c", &format!("{CONNECT}{program}")])
        .args([extension().as_os_str(), uri(bench, name).as_ref()]);
    command
}

/// Runs sqlite3 on a file of the host and returns what it printed.
#[track_caller]
pub fn host_sql(bench: &Bench, file: &str, statements: &str) -> String {
    let out = bench.tool("sqlite3", &["-bail", file, statements]);
    out.trim_end().to_string()
}

/// A connection in a Python process of its own. It is open until it is dropped.
pub struct Connection {
    _program: Background,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Connection {
    /// Connects to the database `name` in the store `s.tn`.
    #[track_caller]
    pub fn new(bench: &Bench, name: &str) -> Self {
        Self::start(bench, &extension().to_string_lossy(), &uri(bench, name))
            .unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Connects to a file of the host.
    #[track_caller]
    pub fn of_host(bench: &Bench, file: &str) -> Self {
        let uri = format!("file:{}", bench.path(file).display());
        Self::start(bench, "", &uri).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    /// Connects to the database at `uri`.
    ///
    /// # Errors
    /// The error of SQLite.
    pub fn start(bench: &Bench, extension: &str, uri: &str) -> Result<Self, String> {
        let mut command = tool(bench.folder(), "python3");
        command
            .args(["-c", CONNECTION, extension, uri])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut program = Background::start(&mut command);
        let requests = program.child().stdin.take().expect("piped");
        let answers = BufReader::new(program.child().stdout.take().expect("piped"));
        let mut connection = Self {
            _program: program,
            requests,
            answers,
        };
        connection.answer()?;
        Ok(connection)
    }

    /// Executes one statement. Returns its rows joined by `;`, with columns joined by `|`.
    ///
    /// # Errors
    /// The error of SQLite, or that the process has ended.
    pub fn run(&mut self, statement: &str) -> Result<String, String> {
        let sent = writeln!(self.requests, "{statement}");
        sent.map_err(|error| format!("the process has ended: {error}"))?;
        self.answer()
    }

    /// Executes one statement, which must succeed.
    #[track_caller]
    pub fn ok(&mut self, statement: &str) -> String {
        let done = self.run(statement);
        done.unwrap_or_else(|error| panic!("{statement}: {error}"))
    }

    /// Sends a statement without waiting for its end.
    pub fn send(&mut self, statement: &str) {
        // If the process has ended, reading the answer gives the error.
        let _ = writeln!(self.requests, "{statement}");
    }

    fn answer(&mut self) -> Result<String, String> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        read.map_err(|error| format!("the process has ended: {error}"))?;
        let line = line.trim_end();
        match line.split_once(' ').unwrap_or((line, "")) {
            ("ok", rows) => Ok(rows.to_string()),
            ("error", text) => Err(text.to_string()),
            _ => Err(format!("the process has ended: {line}")),
        }
    }

    /// Kills the process and its children.
    pub fn kill9(self) {
        drop(self);
    }
}
