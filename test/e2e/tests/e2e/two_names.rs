//! One store under two names in one process: bind mounts of the file and of its folder.

use std::path::{Path, PathBuf};
use tonearm_tests::sqlite::sql;
use tonearm_tests::{Bench, extension, skipped, tool};

/// Two threads write at the same time, each under its own name, with a write-ahead log where that is possible.
const PROGRAM: &str = "
import sqlite3, sys, threading
extension, names = sys.argv[1], sys.argv[2:]
loader = sqlite3.connect(':memory:')
loader.enable_load_extension(True)
loader.load_extension(extension)
def connect(name):
    uri = f'file:app.db?vfs=tonearm&store={name}'
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=60)
first = connect(names[0])
print(first.execute('PRAGMA journal_mode=WAL').fetchone()[0])
first.execute('PRAGMA wal_autocheckpoint=30')
first.execute('CREATE TABLE t(who, n, filler)')
def work(who):
    db = connect(names[who])
    for n in range(300):
        db.execute('INSERT INTO t VALUES (?, ?, randomblob(300))', (who, n))
    db.close()
workers = [threading.Thread(target=work, args=(who,)) for who in range(2)]
for worker in workers: worker.start()
for worker in workers: worker.join()
print(first.execute('SELECT count(*) FROM t').fetchone()[0])
print(first.execute('PRAGMA integrity_check').fetchone()[0])
";

/// A bind mount of `from` at `to`. It is unmounted when it is dropped.
struct Bound(PathBuf);

impl Bound {
    fn new(bench: &Bench, from: &str, to: &str) -> Self {
        bench.tool("mount", &["--bind", from, to]);
        Self(bench.path(to))
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let done = tool(Path::new("/"), "umount")
            .arg("-l")
            .arg(&self.0)
            .status();
        if !done.is_ok_and(|status| status.success()) {
            eprintln!("{} stays mounted", self.0.display());
        }
    }
}

fn both_write(bench: &Bench, one: &str, two: &str) -> String {
    let extension = extension();
    let extension = extension.to_str().expect("UTF-8");
    bench.tool("python3", &["-c", PROGRAM, extension, one, two])
}

#[test]
fn a_mount_of_a_store_or_its_folder_is_the_same_store() {
    if !rustix::process::geteuid().is_root() {
        return skipped("a store under two mounts", "needs root for mount --bind");
    }
    for (from, to, two) in [
        ("here/s.tn", "again.tn", "again.tn"),
        ("here", "there", "there/s.tn"),
    ] {
        let bench = Bench::new();
        std::fs::create_dir(bench.path("here")).expect("a folder");
        bench.ok(&["create", "here/s.tn", "--size", "64MiB", "--no-volume"]);
        match from {
            "here" => std::fs::create_dir(bench.path(to)).expect("a folder"),
            _ => bench.write(to, b""),
        }
        let bound = Bound::new(&bench, from, to);
        assert_eq!(both_write(&bench, "here/s.tn", two), "wal\n600\nok\n");
        drop(bound);
    }
}

#[test]
fn two_names_of_a_served_store_lead_to_its_server() {
    let bench = Bench::created(&["--size", "64MiB", "--no-volume"]);
    let link = bench.path("link.tn");
    std::os::unix::fs::symlink("s.tn", &link).expect("a link");
    let server = bench.serve_store();
    assert_eq!(both_write(&bench, "s.tn", "link.tn"), "delete\n600\nok\n");
    assert_eq!(
        sql(&bench, "app.db", "SELECT count(DISTINCT who) FROM t"),
        "2"
    );
    server.end_ok();
}
