//! Databases in a served store: the store becomes full, or its server is restarted.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tonearm_tests::sqlite::{python, sql, uri};
use tonearm_tests::{Background, Bench, contains, extension, wait_until};

/// A transaction that is larger than the store and than the cache, then one that fits.
const FILLS: &str = "
db = connect()
db.execute('CREATE TABLE t(x)')
db.execute('INSERT INTO t VALUES (1)')
db.execute('PRAGMA cache_size = 10')
for statement in ['INSERT INTO t VALUES (randomblob(100000))', 'INSERT INTO t SELECT randomblob(3000) FROM many']:
    db.execute('CREATE TEMP TABLE IF NOT EXISTS many AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000) SELECT i FROM n')
    db.execute('BEGIN')
    try:
        for n in range(2000):
            db.execute(statement)
        db.execute('COMMIT')
        print('it fits')
    except sqlite3.Error as error:
        print(error)
    if db.in_transaction:
        db.execute('ROLLBACK')
    db.execute('INSERT INTO t VALUES (2)')
print(db.execute('SELECT sum(x), count(*) FROM t').fetchall())
print(db.execute('PRAGMA integrity_check').fetchall())
";

/// Inserts numbered rows without gaps while the file `go` exists, and reconnects when the connection fails.
const GOES_ON: &str = "
db, n, errors = connect(), 0, 0
db.execute('CREATE TABLE t(n INTEGER PRIMARY KEY)')
print('ready', flush=True)
while os.path.exists('go'):
    try:
        if db is None:
            db = connect()
            n = db.execute('SELECT coalesce(max(n), 0) FROM t').fetchone()[0]
        db.execute('INSERT INTO t VALUES (?)', (n + 1,))
        n += 1
    except sqlite3.Error:
        errors += 1
        if db is not None:
            db.close()
            db = None
if db is None:
    db = connect()
n = db.execute('SELECT max(n) FROM t').fetchone()[0]
assert errors > 0 and db.execute('SELECT count(*) FROM t').fetchone()[0] == n, (errors, n)
print('over', flush=True)
";

/// A pool of connections, as programs have them: all of them go on after the restart, and none is opened again.
const POOL: &str = "
pool = [connect() for _ in range(5)]
pool[0].execute('CREATE TABLE t(x)')
for db in pool:
    db.execute('INSERT INTO t VALUES (1)')
print('ready', flush=True)
input()
for n in range(20):
    pool[n % 5].execute('INSERT INTO t VALUES (2)')
print(pool[3].execute('SELECT sum(x), count(*) FROM t').fetchone(), flush=True)
";

/// A batch with `synchronous=NORMAL` and one wait at its end, then one with `FULL`. Python keeps the statements.
const BATCHES: &str = "
db = connect()
db.execute('CREATE TABLE t(x)')
def batch(synchronous):
    db.execute('PRAGMA synchronous = ' + synchronous)
    for n in range(100):
        db.execute('INSERT INTO t VALUES (?)', (n,))
    lsn, = db.execute('PRAGMA tonearm_lsn').fetchone()
    if synchronous == 'NORMAL':
        durable, = db.execute('PRAGMA tonearm_wait = durable').fetchone()
        assert int(durable) >= int(lsn), (durable, lsn)
    durable, = db.execute('PRAGMA tonearm_durable').fetchone()
    assert int(durable) >= int(lsn), (durable, lsn)
    print(lsn, flush=True)
    input()
for round in range(2):
    batch('NORMAL')
batch('FULL')
";

fn store() -> Bench {
    Bench::created(&["--size", "64MiB", "--no-volume"])
}

#[test]
fn one_wait_after_a_batch_takes_one_flush() {
    let bench = store();
    let server = bench.serve_store();
    let flushes = || {
        let stats = bench.json(&["stats", "s.tn", "--json"]);
        let number = |name: &str| stats["store"][name].as_u64().expect("a number");
        number("log_flushes") + number("log_durable_writes")
    };
    let mut command = python(&bench, "app.db", BATCHES);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("timeout runs");
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut go_on = child.stdin.take().expect("piped");
    let (mut taken, mut before) = (Vec::new(), flushes());
    for _ in 0..3 {
        let mut lsn = String::new();
        out.read_line(&mut lsn).expect("a line");
        let lsn = lsn.trim();
        assert_eq!(
            bench.ok(&["wait", "s.tn", "--durable", lsn]).trim(),
            format!("commit {lsn} is durable")
        );
        let now = flushes();
        taken.push(now - before);
        before = now;
        go_on.write_all(b"\n").expect("sent");
    }
    assert!(child.wait().expect("an end").success());
    // The write-back may flush, too.
    assert!(
        taken[0] < 25 && taken[1] < 25 && taken[2] >= 100,
        "{taken:?}"
    );
    server.end_ok();
}

#[test]
fn transaction_that_fills_the_store_is_rolled_back() {
    for served in [false, true] {
        let bench = store();
        let server = served.then(|| bench.serve_store());
        let output = python(&bench, "app.db", FILLS)
            .output()
            .expect("timeout runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let wanted = "database or disk is full\ndatabase or disk is full\n[(5, 3)]\n[('ok',)]\n";
        assert_eq!(said, wanted, "{}", String::from_utf8_lossy(&output.stderr));
        if let Some(server) = server {
            server.end_ok();
        }
    }
}

#[test]
fn a_transaction_that_the_log_cannot_take_names_the_limit() {
    for served in [false, true] {
        let bench = Bench::created(&["--size", "1GiB", "--log-size", "1MiB", "--no-volume"]);
        let server = served.then(|| bench.serve_store());
        let large = "CREATE TABLE t(x); BEGIN;
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
            INSERT INTO t SELECT zeroblob(1000000) FROM n; COMMIT";
        let mut arguments = vec!["-bail"];
        let load = format!(".load {}", extension().display());
        let open = format!(".open {}", uri(&bench, "app.db"));
        for line in [".log stderr", &load, &open] {
            arguments.extend(["-cmd", line]);
        }
        arguments.extend([":memory:", large]);
        let ran = bench.tool_run("sqlite3", &arguments);
        contains(&ran.text(), "larger than the log allows");
        contains(&ran.text(), "--log-size");
        contains(&ran.text(), "database or disk is full");
        assert_eq!(
            sql(
                &bench,
                "app.db",
                "SELECT count(*) FROM t; PRAGMA integrity_check"
            ),
            "0\nok"
        );
        drop(server);
    }
}

/// A program that waits for a server that is down. What it prints goes into the file `client.out`.
fn client(bench: &Bench, program: &str) -> Background {
    let out = std::fs::File::create(bench.path("client.out")).expect("a file");
    let mut command = python(bench, "app.db", program);
    Background::start(command.env("TONEARM_SERVER_WAIT", "60").stdout(out))
}

fn said(bench: &Bench, word: &str) -> bool {
    String::from_utf8_lossy(&bench.read("client.out")).contains(word)
}

#[test]
fn a_server_that_is_started_again_finds_its_store_free() {
    let bench = store();
    let mut server = bench.serve_store();
    bench.write("go", b"");
    let client = client(&bench, GOES_ON);
    wait_until("the client", Duration::from_secs(20), || {
        said(&bench, "ready")
    });
    for round in 0..6 {
        match round % 2 {
            0 => server.kill9(),
            _ => server.end_ok(),
        }
        // This leaves the client time to notice and to reconnect.
        std::thread::sleep(Duration::from_millis(300));
        server = bench.serve_store();
        std::thread::sleep(Duration::from_millis(200));
    }
    std::fs::remove_file(bench.path("go")).expect("removed");
    wait_until("the client's end", Duration::from_secs(60), || {
        said(&bench, "over")
    });
    drop(client);
    server.end_ok();
}

/// The program was never a client of the server. It waits because the killed server has left its socket.
#[test]
fn pooled_connections_continue_after_a_server_kill() {
    let bench = store();
    let server = bench.serve_store();
    let mut command = python(&bench, "app.db", POOL);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("timeout runs");
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    server.kill9();
    let server = bench.serve_store();
    let mut go_on = child.stdin.take().expect("piped");
    go_on.write_all(b"\n").expect("sent");
    line.clear();
    out.read_line(&mut line).expect("a line");
    assert_eq!(line, "(45, 25)\n");
    assert!(child.wait().expect("an end").success());
    server.end_ok();
}

/// Most programs show nothing but "unable to open database file".
#[test]
fn store_in_use_error_on_stderr_mentions_serve() {
    let bench = store();
    let mut command = python(
        &bench,
        "app.db",
        "connect()\nprint('ready', flush=True)\ninput()",
    );
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut first = command.spawn().expect("timeout runs");
    let mut out = BufReader::new(first.stdout.take().expect("piped"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    for (debug, is_notified) in [(None, true), (Some("1"), true), (Some("0"), false)] {
        let mut second = python(&bench, "app.db", "connect()");
        debug.map(|debug| second.env("TONEARM_DEBUG", debug));
        let ran = second.output().expect("timeout runs");
        let err = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(
            err.contains("tonearm serve"),
            is_notified,
            "{debug:?}: {err}"
        );
    }
    drop(first.stdin.take());
    first.wait().expect("an end");
}

#[test]
fn new_client_waits_for_a_killed_server() {
    let bench = store();
    bench.serve_store().kill9();
    assert!(bench.path("s.tn.files").exists());
    let newcomer = "db = connect(); db.execute('CREATE TABLE t(x)'); print('over', flush=True)";
    let client = client(&bench, newcomer);
    std::thread::sleep(Duration::from_secs(1));
    assert!(!said(&bench, "over"));
    let server = bench.serve_store();
    wait_until("the newcomer", Duration::from_secs(60), || {
        said(&bench, "over")
    });
    drop(client);
    server.kill9();
    // With TONEARM_SERVER_WAIT=0 a program does not wait.
    let started = Instant::now();
    let mut command = python(
        &bench,
        "app.db",
        "print(connect().execute('SELECT count(*) FROM t').fetchall())",
    );
    let output = command.env("TONEARM_SERVER_WAIT", "0").output();
    assert_eq!(output.expect("timeout runs").stdout, b"[(0,)]\n");
    assert!(started.elapsed() < Duration::from_secs(50));
}

/// `info` shows the bytes of a member that hold blocks, in each layout.
#[test]
fn info_shows_the_space_of_a_member_for_blocks() {
    for layout in tonearm_tests::LAYOUTS {
        let sizes = ["--size", "512MiB", "--log-size", "16MiB"];
        let bench = Bench::created(&[&sizes, layout].concat());
        let info = bench.json(&["info", "s.tn", "--json"]);
        let bytes = info["members"][0]["data_bytes"].as_u64().expect("a size");
        let member = bench.path("s.tn").metadata().expect("a file").len();
        assert!(
            (512 << 20..member).contains(&bytes),
            "{bytes} of {member}: {layout:?}"
        );
    }
}

#[test]
fn names_with_spaces_and_copies_out_of_the_store_work() {
    let bench = store();
    let fill = "CREATE TABLE t(x); INSERT INTO t VALUES (7)";
    sql(&bench, "my%20app.db", fill);
    let listed = bench.json(&["files", "list", "s.tn", "--json"]);
    assert_eq!(listed["files"][0]["name"], "my app.db");
    let copy = bench.path("a copy.db");
    // A plain path is a name in the store, because VACUUM INTO uses the VFS of the database.
    let plain = format!("VACUUM INTO '{}'", copy.display());
    let ran = tonearm_tests::sqlite::shell(&bench, "my%20app.db", &plain);
    assert_ne!(ran.code, Some(0), "{ran:?}");
    assert!(!copy.exists());
    let escaped = copy.display().to_string().replace(' ', "%20");
    sql(
        &bench,
        "my%20app.db",
        &format!("VACUUM INTO 'file:{escaped}?vfs=unix'"),
    );
    assert_eq!(
        tonearm_tests::sqlite::host_sql(&bench, "a copy.db", "SELECT x FROM t"),
        "7"
    );
    let inside = uri(&bench, "copy.db");
    sql(&bench, "my%20app.db", &format!("VACUUM INTO '{inside}'"));
    assert_eq!(sql(&bench, "copy.db", "SELECT x FROM t"), "7");
}
