//! The system's own SQLite, which has no batch atomic writes, with the loadable extension: the shell, Python, and a
//! C program that the library is linked into.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tonearm_tests::{Bench, binary, contains, tool};

fn built(name: &str) -> PathBuf {
    let path = binary().parent().expect("a folder").join(name);
    assert!(
        path.exists(),
        "{} is missing: cargo build --release -p tonearm-sqlite",
        path.display()
    );
    path
}

fn store() -> Bench {
    let bench = Bench::new();
    bench.ok(&[
        "create",
        "app.tn",
        "--size",
        "64MiB",
        "--log-size",
        "8MiB",
        "--no-volume",
    ]);
    bench
}

const URI: &str = "file:app.db?vfs=tonearm&store=app.tn";

/// Runs SQL in the shell, on a database of the store.
fn shell(bench: &Bench, sql: &str) -> tonearm_tests::Ran {
    let mut command = tool(bench.folder(), "sqlite3");
    command.args(["-batch", "-bail", "-cmd", ".log stderr"]);
    command.args([
        "-cmd",
        &format!(".load {}", built("libtonearm_sqlite.so").display()),
    ]);
    command.args(["-cmd", &format!(".open '{URI}'")]);
    command.args([":memory:", sql]);
    tonearm_tests::Ran::of(&command.output().expect("sqlite3 runs"))
}

fn shell_ok(bench: &Bench, sql: &str) -> String {
    let ran = shell(bench, sql);
    assert_eq!(ran.code, Some(0), "{}", ran.text());
    ran.out.trim().to_owned()
}

/// A Python that talks to the database until it is told to end, or killed.
struct Python {
    child: Child,
}

impl Python {
    const START: &'static str = "
import sqlite3, sys
loader = sqlite3.connect(':memory:')
loader.enable_load_extension(True)
loader.load_extension(sys.argv[1])
loader.close()
def connect(**more):
    return sqlite3.connect(sys.argv[2], uri=True, isolation_level=None, **more)
def say(text):
    print(text, flush=True)
";

    /// Starts it; it runs `program` line by line as it comes to it.
    fn start(bench: &Bench, program: &str) -> Self {
        let mut command = tool(bench.folder(), "python3");
        command.args(["-c", &format!("{}{program}", Self::START)]);
        command
            .arg(built("libtonearm_sqlite.so").with_extension(""))
            .arg(URI);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        Self {
            child: command.spawn().expect("python3 runs"),
        }
    }

    /// The next line that it says.
    fn hear(&mut self) -> String {
        let out = self.child.stdout.as_mut().expect("a pipe");
        let mut line = String::new();
        // One byte at a time: what follows belongs to the next call.
        let mut reader = BufReader::with_capacity(1, out);
        reader.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    /// Lets it go on where it waits for a line.
    fn go_on(&mut self) {
        let input = self.child.stdin.as_mut().expect("a pipe");
        input.write_all(b"\n").expect("it listens");
    }

    /// Kills it as `kill -9` does; `timeout`, which runs it, hands no signals on then.
    fn kill9(mut self) {
        let parent = self.child.id().to_string();
        let found = Command::new("pgrep")
            .args(["-P", &parent])
            .output()
            .expect("pgrep runs");
        let python = String::from_utf8_lossy(&found.stdout).trim().to_owned();
        let killed = Command::new("kill")
            .args(["-9", &python])
            .status()
            .expect("kill runs");
        assert!(killed.success());
        self.child.wait().expect("it has ended");
    }

    fn end_ok(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().expect("it has ended").success());
    }
}

#[test]
fn the_shell_does_its_work() {
    let bench = store();
    shell_ok(&bench, "CREATE TABLE t(x); INSERT INTO t VALUES(1), (2);");
    shell_ok(
        &bench,
        "PRAGMA cache_size = 2; BEGIN; INSERT INTO t SELECT zeroblob(5000) FROM t, t; COMMIT; VACUUM;",
    );
    assert_eq!(
        shell_ok(&bench, "SELECT count(*) FROM t; PRAGMA integrity_check;"),
        "6\nok"
    );
    for mode in ["truncate", "persist", "memory", "off", "wal", "delete"] {
        let sql = format!(
            "PRAGMA journal_mode = {mode}; INSERT INTO t VALUES('{mode}'); SELECT count(*) > 6 FROM t;"
        );
        assert_eq!(shell_ok(&bench, &sql), format!("{mode}\n1"));
    }
    assert_eq!(
        shell_ok(&bench, "SELECT count(*) FROM t; PRAGMA integrity_check;"),
        "12\nok"
    );
    let attach = "ATTACH 'file:second.db?vfs=tonearm&store=app.tn' AS second; CREATE TABLE second.u(x);
         BEGIN; INSERT INTO t VALUES(0); INSERT INTO second.u VALUES(0); COMMIT; SELECT count(*) FROM second.u;";
    assert_eq!(shell_ok(&bench, attach), "1");
    let ran = shell(
        &bench,
        "PRAGMA user_version; ATTACH 'file:other.db?store=none.tn' AS other;",
    );
    assert_ne!(ran.code, Some(0));
    contains(&ran.text(), "none.tn");
}

#[test]
fn python_does_its_work() {
    let bench = store();
    let mut python = Python::start(
        &bench,
        "
db = connect()
db.execute('CREATE TABLE t(id INTEGER PRIMARY KEY, x)')
with db:
    db.execute('BEGIN')
    db.executemany('INSERT INTO t(x) VALUES(?)', [(n,) for n in range(1000)])
say(db.execute('SELECT sum(x) FROM t').fetchone()[0])
copy = sqlite3.connect(':memory:')
db.backup(copy)
say(copy.execute('SELECT count(*) FROM t').fetchone()[0])
",
    );
    assert_eq!(python.hear(), "499500");
    assert_eq!(python.hear(), "1000");
    python.end_ok();
    assert_eq!(
        shell_ok(&bench, "SELECT count(*) FROM t; PRAGMA integrity_check;"),
        "1000\nok"
    );
}

/// In the middle of a transaction that has spilled, in every journal mode: it is as if it had never begun.
#[test]
fn a_killed_program_leaves_whole_transactions() {
    for mode in ["DELETE", "MEMORY", "OFF", "WAL"] {
        let bench = store();
        shell_ok(
            &bench,
            &format!("PRAGMA journal_mode = {mode}; CREATE TABLE t(x); INSERT INTO t VALUES(1);"),
        );
        let mut python = Python::start(
            &bench,
            &format!(
                "
db = connect()
db.execute('PRAGMA journal_mode = {mode}')
db.execute('INSERT INTO t VALUES(2)')
db.execute('PRAGMA cache_size = 2')
db.execute('BEGIN')
db.execute('UPDATE t SET x = 0')
db.execute('INSERT INTO t SELECT zeroblob(9000) FROM t, t, t')
say('within')
sys.stdin.readline()
"
            ),
        );
        assert_eq!(python.hear(), "within");
        let ran = shell(&bench, "SELECT 1 FROM t;");
        assert_ne!(ran.code, Some(0), "{mode}: another process has the store");
        contains(&ran.text(), "tonearm serve");
        python.kill9();
        assert_eq!(
            shell_ok(&bench, "SELECT sum(x) FROM t; PRAGMA integrity_check;"),
            "3\nok",
            "{mode}"
        );
    }
}

#[test]
fn processes_share_a_served_store() {
    let bench = store();
    let server = bench.serve(&["app.tn"]);
    shell_ok(&bench, "CREATE TABLE t(x); INSERT INTO t VALUES(1);");
    let mut writer = Python::start(
        &bench,
        "
db = connect()
db.execute('PRAGMA cache_size = 2')
db.execute('BEGIN EXCLUSIVE')
db.execute('UPDATE t SET x = 0')
db.execute('INSERT INTO t SELECT zeroblob(90000) FROM t')
say('within')
sys.stdin.readline()
db.execute('COMMIT')
db.execute('BEGIN EXCLUSIVE')
db.execute('DELETE FROM t')
db.execute('INSERT INTO t VALUES(zeroblob(90000))')
say('again')
sys.stdin.readline()
",
    );
    assert_eq!(writer.hear(), "within");
    contains(
        &shell(&bench, "SELECT x FROM t;").text(),
        "database is locked",
    );
    writer.go_on();
    assert_eq!(writer.hear(), "again");
    writer.kill9();
    assert_eq!(
        shell_ok(
            &bench,
            "PRAGMA busy_timeout = 5000; SELECT count(*), min(x) FROM t; PRAGMA integrity_check;"
        ),
        "5000\n2|0\nok",
        "the first transaction is there, the second one is not, and its lock is gone"
    );
    // Without memory that processes share, a write-ahead log is for one at a time.
    assert_eq!(shell_ok(&bench, "PRAGMA journal_mode = WAL;"), "delete");
    assert_eq!(
        shell_ok(
            &bench,
            "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; INSERT INTO t VALUES(3); PRAGMA journal_mode = DELETE; SELECT count(*) FROM t;"
        ),
        "exclusive\nwal\ndelete\n3"
    );
    server.end_ok();
    assert_eq!(shell_ok(&bench, "SELECT count(*) FROM t;"), "3");
}

#[test]
fn a_c_program_links_the_library() {
    let bench = store();
    let header = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/sqlite");
    bench.write(
        "app.c",
        br#"
#include "tonearm_sqlite.h"
#include <stdio.h>
static int show(void *unused, int columns, char **values, char **names) {
  (void)unused; (void)names;
  for (int column = 0; column < columns; column++) printf("%s\n", values[column]);
  return 0;
}
int main(int count, char **words) {
  sqlite3 *db;
  if (count != 2 || tonearm_sqlite_register_linked(1) || tonearm_sqlite_register_linked(1)) return 1;
  if (sqlite3_auto_extension((void (*)(void))sqlite3_tonearm_init)) return 2;
  if (sqlite3_open_v2(words[1], &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI, 0)) return 3;
  if (sqlite3_exec(db, "CREATE TABLE t(x); INSERT INTO t VALUES(7); SELECT x FROM t; PRAGMA integrity_check", show, 0, 0)) return 4;
  return sqlite3_close(db);
}
"#,
    );
    let library = built("libtonearm_sqlite.a");
    let library = library.to_str().expect("UTF-8");
    let include = format!("-I{header}");
    bench.tool(
        "cc",
        &[
            "-Wall",
            "-Wextra",
            "-Werror",
            &include,
            "app.c",
            library,
            "-lsqlite3",
            "-lpthread",
            "-ldl",
            "-lm",
            "-o",
            "app",
        ],
    );
    let ran = Command::new(bench.path("app"))
        .arg("file:app.db?store=app.tn")
        .current_dir(bench.folder())
        .output()
        .expect("it runs");
    let ran = tonearm_tests::Ran::of(&ran);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (Some(0), "7\nok\n"),
        "{}",
        ran.err
    );
}

#[test]
fn the_extension_asks_nothing_of_its_host_but_the_table_of_functions() {
    let bench = Bench::new();
    let library = built("libtonearm_sqlite.so");
    let library = library.to_str().expect("UTF-8");
    let asked = bench.tool("nm", &["-D", "--undefined-only", library]);
    assert!(!asked.contains("sqlite3_"), "{asked}");
    let given = bench.tool("nm", &["-D", "--defined-only", library]);
    for name in [
        "sqlite3_extension_init",
        "sqlite3_tonearmsqlite_init",
        "sqlite3_tonearm_init",
    ] {
        contains(&given, name);
    }
}
