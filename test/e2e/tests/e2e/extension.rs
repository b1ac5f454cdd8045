//! The loadable extension in the system's SQLite, which has no batch atomic writes, and the library linked into a C
//! program.

use std::path::PathBuf;
use std::process::Command;
use tonearm_tests::sqlite::{sql, uri};
use tonearm_tests::{Bench, Ran, binary, contains, extension};

fn built(name: &str) -> PathBuf {
    let path = binary().with_file_name(name);
    assert!(
        path.exists(),
        "{} is missing: cargo build --release -p tonearm-sqlite",
        path.display()
    );
    path
}

fn store() -> Bench {
    Bench::created(&["--size", "64MiB", "--log-size", "8MiB", "--no-volume"])
}

const PYTHON: &str = "
import sqlite3, sys
loader = sqlite3.connect(':memory:')
loader.enable_load_extension(True)
loader.load_extension(sys.argv[1])
loader.close()
db = sqlite3.connect(sys.argv[2], uri=True, isolation_level=None)
db.execute('CREATE TABLE t(id INTEGER PRIMARY KEY, x)')
with db:
    db.execute('BEGIN')
    db.executemany('INSERT INTO t(x) VALUES(?)', [(n,) for n in range(1000)])
print(db.execute('SELECT sum(x) FROM t').fetchone()[0])
copy = sqlite3.connect(':memory:')
db.backup(copy)
print(copy.execute('SELECT count(*) FROM t').fetchone()[0])
";

/// Python's load_extension takes the file name without its ending.
#[test]
fn python_uses_a_database_through_the_extension() {
    let bench = store();
    let extension = extension().with_extension("");
    let extension = extension.to_str().expect("UTF-8");
    let said = bench.tool(
        "python3",
        &["-c", PYTHON, extension, &uri(&bench, "app.db")],
    );
    assert_eq!(said, "499500\n1000\n");
    assert_eq!(
        sql(
            &bench,
            "app.db",
            "SELECT count(*) FROM t; PRAGMA integrity_check"
        ),
        "1000\nok"
    );
}

#[test]
fn a_c_program_links_the_library() {
    let bench = store();
    let header = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fronts/sqlite");
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
        .arg("file:app.db?store=s.tn")
        .current_dir(bench.folder())
        .output()
        .expect("it runs");
    let ran = Ran::of(&ran);
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (Some(0), "7\nok\n"),
        "{}",
        ran.err
    );
}

#[test]
fn the_extension_imports_no_symbol_of_sqlite() {
    let bench = Bench::new();
    let library = extension();
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
