//! Archives of stores that programs open themselves: `archive=URL` in the name of a database.

use std::process::Output;
use tonearm_tests::sqlite::{python, shell, sql};
use tonearm_tests::{Bench, contains};

/// `connect()` with an archive in the folder of the first argument.
const ARCHIVED: &str = "
import json, signal
def archived(folder):
    return f'{uri}&archive=file://{os.getcwd()}/{folder}&archive_interval=0.02'
def connect(folder=sys.argv[3]):
    return sqlite3.connect(archived(folder), uri=True, isolation_level=None, timeout=60)
def refused(folder):
    try:
        connect(folder)
    except sqlite3.Error as error:
        return str(error)
    return 'it opens'
def archive(db):
    return json.loads(db.execute('PRAGMA tonearm_archive').fetchone()[0])
";

/// Prints the number of rows after each wait for the archive. Then it makes transactions without a wait, and is killed.
const KILLED: &str = "
db = connect()
db.execute('CREATE TABLE IF NOT EXISTS t(n INTEGER PRIMARY KEY, x)')
n = db.execute('SELECT coalesce(max(n), 0) FROM t').fetchone()[0]
def insert(rows):
    global n
    db.execute('BEGIN')
    for _ in range(rows):
        n += 1
        db.execute('INSERT INTO t VALUES (?, randomblob(3000))', (n,))
    db.execute('COMMIT')
for round in range(int(sys.argv[4])):
    insert(5)
    lsn, = db.execute('PRAGMA tonearm_lsn').fetchone()
    archived, = db.execute('PRAGMA tonearm_wait = archived').fetchone()
    assert int(archived) >= int(lsn), (archived, lsn)
    print(n, flush=True)
for round in range(40):
    insert(5)
os.kill(os.getpid(), signal.SIGKILL)
";

/// Two connections, of which one names the archive. The end of the last one archives what nothing has waited for.
const SHARED: &str = "
plain = sqlite3.connect(uri, uri=True, isolation_level=None)
assert archive(plain) is None
plain.execute('CREATE TABLE t(n)')
try:
    plain.execute('PRAGMA tonearm_wait = archived')
    print('not refused')
except sqlite3.Error as error:
    print(error)
db, again = connect(), connect()
assert refused('other') == 'unable to open database file'
assert not os.path.exists('other')
plain.execute('INSERT INTO t VALUES (1)')
plain.execute('PRAGMA tonearm_wait = archived')
seen = archive(plain)
assert seen['state'] == 'running' and seen['restorable'] and seen['gaps'] == 0, seen
assert seen['lag_commits'] == 0 and seen['archived_lsn'] > 0, seen
assert seen['url'].endswith('/backup'), seen
for n in range(2, 101):
    plain.execute('INSERT INTO t VALUES (?)', (n,))
for each in (db, again, plain):
    each.close()
";

/// A store that a server has open: its archive counts.
const SERVED: &str = "
db = sqlite3.connect(uri, uri=True, isolation_level=None)
if archive(db) is None:
    print(refused('backup'))
else:
    db = connect()
    db.execute('CREATE TABLE t(n)')
    db.execute('INSERT INTO t VALUES (7)')
    db.execute('PRAGMA tonearm_wait = archived')
    assert archive(db)['state'] == 'running'
    print(refused('other'))
";

fn store() -> Bench {
    Bench::created(&["--size", "64MiB", "--log-size", "16MiB", "--no-volume"])
}

fn url(bench: &Bench, folder: &str) -> String {
    format!("file://{}", bench.path(folder).display())
}

/// Why the shell cannot open the database with an archive in `folder`.
#[track_caller]
fn refused(bench: &Bench, folder: &str) -> String {
    let name = format!("app.db&archive={}", url(bench, folder));
    let ran = shell(bench, &name, "SELECT 1");
    assert_ne!(ran.code, Some(0), "{ran:?}");
    ran.err
}

/// Runs a Python program with arguments.
fn run(bench: &Bench, program: &str, arguments: &[&str]) -> Output {
    let mut command = python(bench, "app.db", &format!("{ARCHIVED}{program}"));
    command.args(arguments).output().expect("timeout runs")
}

/// What a Python program has printed, which must succeed.
#[track_caller]
fn said(bench: &Bench, program: &str, arguments: &[&str]) -> String {
    let output = run(bench, program, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn confirmed_commits_are_restored_after_kill_and_loss() {
    let bench = store();
    // Of the restored store the next program makes an archive of its own.
    for (round, folder) in ["one", "two", "three"].into_iter().enumerate() {
        let rounds = (3 + 10 * round).to_string();
        let output = run(&bench, KILLED, &[folder, &rounds]);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "it was killed");
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        let confirmed: Vec<u64> = lines.lines().filter_map(|line| line.parse().ok()).collect();
        assert_eq!(confirmed.len().to_string(), rounds, "{errors}");

        std::fs::remove_file(bench.path("s.tn")).expect("removed");
        bench.ok(&["restore", &url(&bench, folder), "s.tn"]);
        let found = sql(
            &bench,
            "app.db",
            "SELECT count(*), max(n) FROM t; PRAGMA integrity_check",
        );
        let (rows, sound) = found.split_once('\n').expect("two lines");
        let (count, last) = rows.split_once('|').expect("two numbers");
        assert_eq!((count, sound), (last, "ok"));
        let count: u64 = count.parse().expect("a number");
        assert!(
            Some(&count) >= confirmed.last() && count.is_multiple_of(5),
            "{rows}"
        );
        bench.ok(&["check", "s.tn"]);
    }
}

/// A kill, and no loss: the next opening of the program goes on with the archive.
#[test]
fn an_archive_goes_on_where_a_killed_program_left_it() {
    let bench = store();
    for _ in 0..3 {
        run(&bench, KILLED, &["backup", "4"]);
    }
    said(&bench, "db = connect()\ndb.close()", &["backup"]);
    let rows = sql(&bench, "app.db", "SELECT count(*) FROM t");
    let history = bench.json(&["history", &url(&bench, "backup"), "--json"]);
    assert_eq!(history["faults"], serde_json::json!([]));
    std::fs::remove_file(bench.path("s.tn")).expect("removed");
    bench.ok(&["restore", &url(&bench, "backup"), "s.tn"]);
    // The last opening has archived what the killed one had made durable.
    assert_eq!(sql(&bench, "app.db", "SELECT count(*) FROM t"), rows);
}

#[test]
fn connections_share_an_archive_and_the_last_one_ends_it() {
    let bench = store();
    contains(
        &said(&bench, SHARED, &["backup"]),
        "the store has no archive",
    );
    std::fs::remove_file(bench.path("s.tn")).expect("removed");
    bench.ok(&["restore", &url(&bench, "backup"), "s.tn"]);
    assert_eq!(sql(&bench, "app.db", "SELECT sum(n) FROM t"), "5050");
    // The restored store has an identity of its own. The opening says that it cannot have the old archive.
    contains(&refused(&bench, "backup"), "another store");
    assert_eq!(sql(&bench, "app.db", "SELECT count(*) FROM t"), "100");
}

#[test]
fn the_server_of_a_store_has_its_archive() {
    let bench = store();
    let server = bench.serve_store();
    let without = said(&bench, SERVED, &["backup"]);
    assert_eq!(without, "unable to open database file\n");
    let why = refused(&bench, "backup");
    contains(&why, "serves");
    contains(&why, "tonearm archive start");
    bench.ok(&["archive", "start", "s.tn", &url(&bench, "backup")]);
    let with = said(&bench, SERVED, &["backup"]);
    assert_eq!(with, "unable to open database file\n");
    contains(&refused(&bench, "other"), "one archive at a time");
    let stats = bench.json(&["stats", "s.tn", "--json"]);
    let stats = &stats["store"];
    let number = |name: &str| stats[name].as_u64().expect("a number");
    assert_eq!((number("archive_state"), number("archive_gaps")), (2, 0));
    assert_eq!(
        (number("archive_restorable"), number("archive_lag_commits")),
        (1, 0)
    );
    assert!(number("archive_objects") > 2 && number("archive_stored_bytes") > 0);
    contains(&bench.ok(&["stats", "s.tn"]), "running, commit ");
    bench.ok(&["archive", "stop", "s.tn"]);
    contains(
        &refused(&bench, "backup"),
        "has ended (the archive was stopped)",
    );
    contains(
        &bench.ok(&["archive", "status", "s.tn"]),
        "ended: the archive was stopped",
    );
    server.end_ok();
    assert!(!bench.path("other").exists());
}

/// A public key of age; `archive_keys.rs` has its secret key.
const RECIPIENT: &str = "age1t7rxyev2z3rw82stdlrrepyc39nvn86l5078zqkf5uasdy86jp6svpy7pa";

#[test]
fn a_program_encrypts_its_archive() {
    let bench = store();
    let address = url(&bench, "backup");
    let with = |recipient: &str| format!("app.db&archive={address}&archive_recipient={recipient}");
    let ran = shell(&bench, &with("nobody"), "SELECT 1");
    contains(&ran.err, "'nobody' is no recipient");
    sql(
        &bench,
        &with(RECIPIENT),
        "CREATE TABLE t(n); INSERT INTO t VALUES (1); PRAGMA tonearm_wait = archived",
    );
    let history = bench.json(&["history", &address, "--json"]);
    assert!(history["encrypted_ranges"].as_u64() > Some(0), "{history}");
    contains(
        &bench.fails(&["restore", &address, "new.tn"]),
        "is encrypted",
    );
}
