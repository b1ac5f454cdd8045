//! Databases in a store, used by the system's SQLite: its shell, Python's module, several processes, and kills.

use std::time::{Duration, Instant};
use tonearm_tests::sqlite::{Connection, host_sql, shell, sql, uri};
use tonearm_tests::{Bench, LAYOUTS, contains, extension, noise, wait_until};

/// How often a process is killed during transactions.
const ROUNDS: u64 = 50;
/// Accounts of the bank, and the sum of their balances.
const ACCOUNTS: u64 = 50;
const MONEY: u64 = ACCOUNTS * 1000;

/// A store with space for databases besides its volume.
fn store(layout: &[&str]) -> Bench {
    let sizes = ["--size", "64MiB", "--log-size", "16MiB"];
    let bench = Bench::created(&[&sizes, layout].concat());
    bench.ok(&["volume", "resize", "s.tn", "main", "--size", "16MiB"]);
    bench
}

/// Statements that create the bank.
fn bank() -> String {
    format!(
        "CREATE TABLE accounts(id INTEGER PRIMARY KEY, balance INTEGER NOT NULL);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ACCOUNTS})
         INSERT INTO accounts SELECT i, 1000 FROM n;
         CREATE TABLE transfers(id INTEGER PRIMARY KEY, filler BLOB);"
    )
}

fn transfer(number: u64, filler: u64) -> String {
    let (from, to) = (number * 7 % ACCOUNTS + 1, number * 13 % ACCOUNTS + 1);
    format!(
        "BEGIN IMMEDIATE;UPDATE accounts SET balance = balance - 10 WHERE id = {from};INSERT INTO transfers VALUES \
         ({number}, randomblob({filler}));UPDATE accounts SET balance = balance + 10 WHERE id = {to};COMMIT"
    )
}

/// Checks what must hold of a bank at any time, and returns the number of its last transfer.
fn audit(connection: &mut Connection) -> u64 {
    assert_eq!(connection.ok("PRAGMA integrity_check"), "ok");
    assert_eq!(
        connection.ok("SELECT sum(balance) FROM accounts"),
        MONEY.to_string()
    );
    let counted = connection.ok("SELECT count(*), coalesce(max(id), 0) FROM transfers");
    let (count, last) = counted.split_once('|').expect("two columns");
    assert_eq!(count, last, "transfers are numbered without gaps");
    last.parse().expect("a number")
}

#[test]
fn the_shell_of_the_system_works_in_every_journal_mode() {
    for layout in LAYOUTS {
        let bench = store(layout);
        sql(
            &bench,
            "app.db",
            "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT); INSERT INTO t(b) VALUES ('one'), ('two');",
        );
        assert_eq!(sql(&bench, "app.db", "SELECT * FROM t"), "1|one\n2|two");
        // SQLite has not created a journal.
        assert_eq!(bench.stored_names(), ["app.db"]);
        contains(
            &sql(&bench, "app.db", ".dump"),
            "INSERT INTO t VALUES(2,'two');",
        );

        // A write-ahead log in one process, and back to rollback journals.
        let wal =
            "PRAGMA journal_mode=WAL; INSERT INTO t(b) VALUES ('three'); SELECT count(*) FROM t;";
        assert_eq!(sql(&bench, "app.db", wal), "wal\n3");
        assert_eq!(
            sql(
                &bench,
                "app.db",
                "PRAGMA journal_mode; SELECT count(*) FROM t"
            ),
            "wal\n3"
        );
        assert_eq!(
            sql(&bench, "app.db", "PRAGMA journal_mode=DELETE"),
            "delete"
        );

        // All other journal modes.
        for (more, mode) in (4..).zip(["truncate", "persist", "memory", "off", "delete"]) {
            let insert = format!(
                "PRAGMA journal_mode={mode}; INSERT INTO t(b) VALUES ('x'); SELECT count(*) FROM t;"
            );
            assert_eq!(sql(&bench, "app.db", &insert), format!("{mode}\n{more}"));
        }
        sql(&bench, "app.db", "DELETE FROM t WHERE a > 3");

        // A large transaction that spills the cache, first rolled back and then committed. Then the rows are deleted
        // and the database is vacuumed.
        let fill = "INSERT INTO t(b) SELECT hex(randomblob(500)) FROM
            (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 8000) SELECT i FROM n);";
        let spill = format!(
            "PRAGMA cache_size=20; BEGIN; {fill} ROLLBACK; SELECT count(*) FROM t; BEGIN; {fill} COMMIT; SELECT count(*) FROM t;"
        );
        assert_eq!(sql(&bench, "app.db", &spill), "3\n8003");
        let large = size_of(&bench, "app.db");
        assert!(large > 8_000_000, "{large}");
        assert_eq!(
            sql(
                &bench,
                "app.db",
                "DELETE FROM t WHERE a > 3; VACUUM; PRAGMA integrity_check"
            ),
            "ok"
        );
        let small = size_of(&bench, "app.db");
        assert!(small < 64 << 10, "{small}");

        // A transaction over two databases changes both or neither.
        let attach = format!("ATTACH '{}' AS other;", uri(&bench, "other.db"));
        let both = format!(
            "{attach} CREATE TABLE other.u(c); BEGIN; INSERT INTO t(b) VALUES ('x'); INSERT INTO u VALUES (1); COMMIT;
             BEGIN; INSERT INTO t(b) VALUES ('y'); INSERT INTO u VALUES (2); ROLLBACK;
             SELECT count(*) FROM t; SELECT count(*) FROM u;"
        );
        assert_eq!(sql(&bench, "app.db", &both), "4\n1");
        assert_eq!(bench.stored_names(), ["app.db", "other.db"]);

        // Copy to a file of the host with SQLite's own commands, and back.
        sql(&bench, "app.db", ".backup main host.db");
        assert_eq!(
            host_sql(
                &bench,
                "host.db",
                "PRAGMA integrity_check; SELECT count(*) FROM t"
            ),
            "ok\n4"
        );
        sql(&bench, "back.db", ".restore host.db");
        assert_eq!(sql(&bench, "back.db", "SELECT max(b) FROM t"), "x");
        contains(&bench.ok(&["check", "s.tn"]), "no damage found");
    }
}

fn size_of(bench: &Bench, name: &str) -> u64 {
    let files = bench.stored_files();
    let file = files.iter().find(|(file, _)| file == name);
    file.expect("listed").1
}

#[test]
fn shell_command_and_printed_script_are_equivalent() {
    let bench = store(&[]);
    let so = extension();
    let so = so.to_string_lossy();
    let run = |sql: &str| bench.ok(&["sqlite", "shell", "s.tn", "app.db", sql, "--extension", &so]);
    run("CREATE TABLE t(a); INSERT INTO t VALUES (7)");
    assert_eq!(run("SELECT a FROM t"), "7\n");
    // When the database cannot be opened, the shell must not silently use one in memory.
    let ran = bench.run(&[
        "sqlite",
        "shell",
        "s.tn",
        "nowhere/app.db",
        "CREATE TABLE t(a)",
        "--extension",
        &so,
    ]);
    assert_ne!(ran.code, Some(0), "{ran:?}");
    contains(&ran.err, "there is no directory for \"nowhere/app.db\"");

    // Each part of the printed text works.
    let lesson = bench.ok(&[
        "sqlite",
        "shell",
        "s.tn",
        "app.db",
        "--print",
        "--extension",
        &so,
    ]);
    let part = |from: &str, to: &str| {
        let (_, rest) = lesson.split_once(from).expect(from);
        let text = rest.split_once(to).map_or(rest, |(part, _)| part);
        text.lines()
            .map(|line| format!("{}\n", line.trim()))
            .collect::<String>()
    };
    bench.write(
        "typed",
        format!("{}SELECT a FROM t;\n", part("sqlite3\n", "\n\n")).as_bytes(),
    );
    assert_eq!(bench.tool("sh", &["-c", "sqlite3 < typed"]), "7\n");
    let python = part("Python\n", "\n\n") + "print(db.execute('SELECT a FROM t').fetchall())\n";
    assert_eq!(bench.tool("python3", &["-c", &python]), "[(7,)]\n");
    contains(
        &bench.fails(&["sqlite", "shell", "no.tn", "app.db"]),
        "no.tn",
    );
    contains(
        &bench.fails(&["sqlite", "shell", "s.tn", "app.db", "--extension", "no.so"]),
        "no.so",
    );
    // A database in a directory, which must be there: see above.
    bench.ok(&["files", "mkdir", "s.tn", "a"]);
    let in_directory =
        |sql: &str| bench.ok(&["sqlite", "shell", "s.tn", "a/b.db", sql, "--extension", &so]);
    in_directory("CREATE TABLE t(a); INSERT INTO t VALUES (8)");
    assert_eq!(in_directory("SELECT a FROM t"), "8\n");
    let mut command = bench.command(&["sqlite", "shell", "s.tn", "app.db", "--extension", &so]);
    let output = command
        .env("PATH", "/nowhere")
        .output()
        .expect("tonearm runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    contains(&said, "sqlite3 is not installed");
}

#[test]
fn shell_that_writes_nothing_leaves_no_file() {
    let bench = store(&[]);
    let so = extension();
    let so = so.to_string_lossy();
    let run = |name: &str, sql: &str| {
        bench.run(&["sqlite", "shell", "s.tn", name, sql, "--extension", &so])
    };
    assert_eq!(run("typo.db", "SELECT 1").out, "1\n");
    assert_ne!(run("typo.db", "SELECT a FROM t").code, Some(0));
    assert!(bench.stored_names().is_empty());
    assert_eq!(run("app.db", "CREATE TABLE t(a)").code, Some(0));
    assert_eq!(bench.stored_names(), ["app.db"]);
    // An empty database that was there before stays.
    bench.write("empty", b"");
    bench.ok(&["files", "put", "s.tn", "empty", "--name", "empty.db"]);
    assert_eq!(run("empty.db", "SELECT 1").code, Some(0));
    assert_eq!(bench.stored_names(), ["app.db", "empty.db"]);
}

#[test]
fn shell_on_a_store_in_use_ends_with_one_line() {
    let bench = store(&[]);
    let so = extension();
    let mut first = Connection::new(&bench, "app.db");
    first.ok("CREATE TABLE t(a)");
    let ran = bench.run(&[
        "sqlite",
        "shell",
        "s.tn",
        "app.db",
        "SELECT 1",
        "--extension",
        &so.to_string_lossy(),
    ]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(ran.err.lines().count(), 1, "{ran:?}");
    contains(&ran.err, "s.tn is in use by process");
}

#[test]
fn second_process_is_refused_with_the_owner_named() {
    let bench = store(&[]);
    let mut first = Connection::new(&bench, "app.db");
    first.ok("CREATE TABLE t(a)");
    let ran = shell(&bench, "app.db", "SELECT 1");
    assert_ne!(ran.code, Some(0), "{ran:?}");
    contains(&ran.text(), "s.tn is in use by process");
    contains(&ran.text(), "tonearm serve");
    let error = bench.fails(&["files", "list", "s.tn"]);
    contains(&error, "s.tn is in use by process");
    drop(first);
    wait_until("the store", Duration::from_secs(5), || {
        bench.run(&["files", "list", "s.tn"]).code == Some(0)
    });
}

#[test]
fn processes_share_a_served_store() {
    let bench = store(&[]);
    let server = bench.serve_store();
    let (mut one, mut two) = (
        Connection::new(&bench, "app.db"),
        Connection::new(&bench, "app.db"),
    );
    one.ok("CREATE TABLE t(a)");
    assert_eq!(two.ok("SELECT count(*) FROM t"), "0");
    one.ok("BEGIN IMMEDIATE");
    one.ok("INSERT INTO t VALUES (1)");
    // The writer excludes other writers, but not readers.
    contains(
        &two.run("INSERT INTO t VALUES (2)").expect_err("busy"),
        "locked",
    );
    assert_eq!(two.ok("SELECT count(*) FROM t"), "0");
    one.ok("COMMIT");
    assert_eq!(two.ok("SELECT count(*) FROM t"), "1");
    two.ok("INSERT INTO t VALUES (2)");
    assert_eq!(one.ok("SELECT sum(a) FROM t"), "3");
    // While a reader is in a transaction a commit must wait, and the reader's snapshot does not change.
    two.ok("BEGIN");
    assert_eq!(two.ok("SELECT count(*) FROM t"), "2");
    contains(
        &one.run("INSERT INTO t VALUES (3)").expect_err("busy"),
        "locked",
    );
    assert_eq!(two.ok("SELECT count(*) FROM t"), "2");
    two.ok("COMMIT");
    one.ok("INSERT INTO t VALUES (3)");

    // When a writer is killed, its locks are released and its changes are gone.
    one.ok("PRAGMA cache_size=5");
    one.ok("BEGIN EXCLUSIVE");
    one.ok("INSERT INTO t SELECT randomblob(9000) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) SELECT i FROM n)");
    contains(
        &two.run("SELECT count(*) FROM t").expect_err("busy"),
        "locked",
    );
    one.kill9();
    let mut count = String::new();
    wait_until("the end of the session", Duration::from_secs(10), || {
        two.run("SELECT count(*) FROM t")
            .map(|answer| count = answer)
            .is_ok()
    });
    assert_eq!(count, "3");
    assert_eq!(two.ok("PRAGMA integrity_check"), "ok");
    assert_eq!(bench.stored_names(), ["app.db"]);

    // When the server is killed, clients get an error and do not hang. Everything that was committed is still there.
    server.kill9();
    two.run("INSERT INTO t VALUES (4)").expect_err("no server");
    drop(two);
    let server = bench.serve_store();
    assert_eq!(
        sql(
            &bench,
            "app.db",
            "PRAGMA integrity_check; SELECT count(*) FROM t"
        ),
        "ok\n3"
    );
    server.end_ok();
    assert_eq!(sql(&bench, "app.db", "SELECT count(*) FROM t"), "3");
}

/// Kills a process during transfers `rounds` times, and audits the bank after each kill.
fn kills(bench: &Bench, rounds: u64, settings: &[&str]) {
    let mut audited = 0;
    let began = Instant::now();
    for round in 0..rounds {
        let mut writer = Connection::new(bench, "bank.db");
        let last = audit(&mut writer);
        assert!(
            last >= audited,
            "transfer {audited} was there before, now the last one is {last}"
        );
        let setting = settings[round as usize % settings.len()];
        for statement in setting.split(';').filter(|text| !text.is_empty()) {
            writer.ok(statement);
        }
        let (patience, mut number) = (Duration::from_millis(5 + round * 37 % 60), last);
        let started = Instant::now();
        while started.elapsed() < patience {
            number += 1;
            // The filler grows the database, and in some rounds it spills the cache.
            for statement in transfer(number, number * 997 % 9000).split(';') {
                writer.ok(statement);
            }
        }
        // The process is killed during one of these transfers.
        for ahead in 1..=40 {
            for statement in transfer(number + ahead, ahead * 997 % 9000).split(';') {
                writer.send(statement);
            }
        }
        std::thread::sleep(Duration::from_micros(round * 619 % 5000));
        writer.kill9();
        audited = match setting.contains("synchronous") {
            // With synchronous=OFF a commit becomes durable a little later, so the log may lack it although only the
            // process died.
            true => last,
            false => number,
        };
        wait_until("the store", Duration::from_secs(10), || {
            bench.run(&["files", "list", "s.tn"]).code == Some(0)
        });
    }
    let mut last = Connection::new(bench, "bank.db");
    let transfers = audit(&mut last);
    assert!(transfers >= audited, "{transfers}");
    println!(
        "{rounds} kills, {transfers} transfers in {:?}",
        began.elapsed()
    );
}

#[test]
fn kills_during_transactions_lose_no_committed_transfer() {
    let settings = [
        "",
        "PRAGMA cache_size=5",
        "PRAGMA journal_mode=MEMORY;PRAGMA cache_size=5",
        "PRAGMA journal_mode=WAL;PRAGMA wal_autocheckpoint=20",
        "PRAGMA journal_mode=DELETE",
        "PRAGMA journal_mode=OFF",
        "PRAGMA synchronous=OFF",
        "PRAGMA journal_mode=OFF;PRAGMA synchronous=OFF;PRAGMA cache_size=5",
        "PRAGMA locking_mode=EXCLUSIVE",
    ];
    for layout in LAYOUTS {
        let bench = store(layout);
        sql(&bench, "bank.db", &bank());
        kills(&bench, ROUNDS, &settings);
    }
}

/// A process is killed in a transaction that has spilled, in every journal mode. The transaction leaves no trace.
#[test]
fn a_transaction_that_has_spilled_dies_with_its_process() {
    for mode in ["delete", "truncate", "persist", "memory", "off", "wal"] {
        let bench = store(&[]);
        let mut writer = Connection::new(&bench, "app.db");
        assert_eq!(writer.ok(&format!("PRAGMA journal_mode={mode}")), mode);
        writer.ok("CREATE TABLE t(x)");
        writer.ok("INSERT INTO t VALUES (1), (2)");
        writer.ok("PRAGMA cache_size=2");
        writer.ok("BEGIN");
        writer.ok("UPDATE t SET x = 0");
        writer.ok("INSERT INTO t SELECT zeroblob(9000) FROM t, t, t");
        writer.kill9();
        assert_eq!(
            sql(
                &bench,
                "app.db",
                "SELECT sum(x) FROM t; PRAGMA integrity_check"
            ),
            "3\nok",
            "{mode}"
        );
    }
}

/// Processes share no memory in a served store, so only one process at a time can use a write-ahead log.
#[test]
fn a_write_ahead_log_in_a_served_store_is_for_one_process() {
    let bench = store(&[]);
    let server = bench.serve_store();
    sql(&bench, "app.db", "CREATE TABLE t(x)");
    assert_eq!(sql(&bench, "app.db", "PRAGMA journal_mode=WAL"), "delete");
    let exclusive =
        "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; INSERT INTO t VALUES (3);
         PRAGMA journal_mode=DELETE; SELECT count(*) FROM t";
    assert_eq!(
        sql(&bench, "app.db", exclusive),
        "exclusive\nwal\ndelete\n1"
    );
    server.end_ok();
}

#[test]
fn clients_of_a_server_are_killed_and_others_go_on() {
    let bench = store(&[]);
    let server = bench.serve_store();
    sql(&bench, "bank.db", &bank());
    kills(
        &bench,
        10,
        &["", "PRAGMA cache_size=5", "PRAGMA synchronous=OFF"],
    );
    server.end_ok();
}

#[test]
fn volume_and_database_of_one_store_survive_kills() {
    let bench = store(&[]);
    let mut ledger = tonearm_tests::stamp::Ledger::new(3);
    let mut promised = 0;
    for round in 0..5 {
        let server = bench.serve_store();
        ledger.verify(&mut server.client("main"));
        if round == 0 {
            sql(&bench, "bank.db", &bank());
        }
        let mut connection = Connection::new(&bench, "bank.db");
        let last = audit(&mut connection);
        assert!(last >= promised, "{last} of {promised}");
        let mut client = server.client("main");
        std::thread::scope(|scope| {
            scope.spawn(|| ledger.write_until_cut(&mut client));
            for number in last + 1..last + 60 {
                for statement in transfer(number, 300).split(';') {
                    connection.ok(statement);
                }
                promised = number;
            }
            server.kill9();
        });
    }
    let server = bench.serve_store();
    ledger.verify(&mut server.client("main"));
    let last = audit(&mut Connection::new(&bench, "bank.db"));
    assert!(last >= promised, "{last} of {promised}");
    server.end_ok();
    bench.ok(&["check", "s.tn"]);
}

#[test]
fn a_database_goes_in_and_out() {
    for served in [false, true] {
        let bench = store(&[]);
        let server = served.then(|| bench.serve_store());
        host_sql(&bench, "app.db", &bank());
        host_sql(&bench, "app.db", &transfer(1, 100_000));
        let said = bench.ok(&["sqlite", "import", "s.tn", "app.db"]);
        contains(&said, "app.db -> app.db");
        assert_eq!(
            sql(&bench, "app.db", "SELECT sum(balance) FROM accounts"),
            MONEY.to_string()
        );
        bench.ok(&["sqlite", "export", "s.tn", "app.db", "out.db"]);
        assert!(bench.read("app.db") == bench.read("out.db"));
        // Neither command overwrites what exists.
        contains(
            &bench.fails(&["sqlite", "export", "s.tn", "app.db", "out.db"]),
            "--force",
        );
        contains(
            &bench.fails(&["sqlite", "import", "s.tn", "app.db"]),
            "--force",
        );
        sql(&bench, "app.db", "DELETE FROM transfers");
        bench.ok(&["sqlite", "import", "s.tn", "app.db", "--force"]);
        assert_eq!(sql(&bench, "app.db", "SELECT count(*) FROM transfers"), "1");
        if let Some(server) = server {
            server.end_ok();
        }
    }
}

#[test]
fn database_in_use_or_unclean_is_not_imported() {
    let bench = store(&[]);
    let import = ["sqlite", "import", "s.tn", "app.db"];
    contains(&bench.fails(&import), "app.db");
    bench.write("app.db", &noise(1, 8192));
    contains(&bench.fails(&import), "is no SQLite database");
    std::fs::remove_file(bench.path("app.db")).expect("removed");

    // In use, in each of SQLite's ways.
    host_sql(&bench, "app.db", &bank());
    let mut user = Connection::of_host(&bench, "app.db");
    for (begin, end) in [("BEGIN IMMEDIATE", "COMMIT"), ("BEGIN EXCLUSIVE", "COMMIT")] {
        user.ok(begin);
        contains(&bench.fails(&import), "is in use by process");
        user.ok(end);
    }
    user.ok("PRAGMA journal_mode=WAL");
    user.ok(&format!(
        "INSERT INTO transfers VALUES (1, zeroblob({}))",
        9000
    ));
    contains(&bench.fails(&import), "is in use by process");
    // The killed process leaves its write-ahead log.
    user.kill9();
    let waiting = || bench.run(&import).err;
    wait_until("the end of the process", Duration::from_secs(5), || {
        !waiting().contains("in use")
    });
    let error = bench.fails(&import);
    contains(&error, "app.db-wal holds changes");
    assert_eq!(bench.stored_names(), [""; 0]);
    // Following the advice of the message helps.
    host_sql(
        &bench,
        "app.db",
        "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode=DELETE",
    );
    bench.ok(&import);
    assert_eq!(sql(&bench, "app.db", "SELECT count(*) FROM transfers"), "1");
    bench.ok(&["files", "rm", "s.tn", "app.db"]);

    // A process is killed in a transaction that has spilled its cache. It leaves a journal that must be rolled back.
    let mut user = Connection::of_host(&bench, "app.db");
    user.ok("PRAGMA cache_size=2");
    user.ok("BEGIN EXCLUSIVE");
    user.ok("UPDATE accounts SET balance = 0");
    user.ok("INSERT INTO transfers SELECT NULL, zeroblob(9000) FROM accounts");
    user.kill9();
    wait_until("the end of the process", Duration::from_secs(5), || {
        !waiting().contains("in use")
    });
    contains(&bench.fails(&import), "hot journal");
    assert_eq!(
        host_sql(&bench, "app.db", "SELECT count(*) FROM sqlite_schema"),
        "2"
    );
    bench.ok(&import);
    assert_eq!(
        sql(&bench, "app.db", "SELECT sum(balance) FROM accounts"),
        MONEY.to_string()
    );
}

#[test]
fn an_export_is_consistent_while_another_process_writes() {
    let bench = store(&[]);
    let server = bench.serve_store();
    sql(&bench, "bank.db", &bank());
    let mut writer = Connection::new(&bench, "bank.db");
    let mut number = 0;
    let mut exports = 0;
    let began = Instant::now();
    while exports < 10 {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{exports} exports"
        );
        let export = bench.command(&["sqlite", "export", "s.tn", "bank.db", "out.db", "--force"]);
        let mut export = { export }
            .stderr(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("tonearm runs");
        let mut ended = None;
        while ended.is_none() {
            number += 1;
            for statement in transfer(number, 5000).split(';') {
                // The export delays the commit for a short time.
                wait_until("a lock", Duration::from_secs(10), || {
                    match writer.run(statement) {
                        Ok(_) => true,
                        Err(error) => {
                            contains(&error, "locked");
                            false
                        }
                    }
                });
            }
            ended = export.try_wait().expect("a child");
        }
        let output = export.wait_with_output().expect("an end");
        if !output.status.success() {
            // A commit was under way at that time.
            contains(&String::from_utf8_lossy(&output.stderr), "in use");
            continue;
        }
        exports += 1;
        let out = "PRAGMA integrity_check; SELECT sum(balance) FROM accounts; SELECT count(*) = coalesce(max(id), 0) FROM transfers";
        assert_eq!(host_sql(&bench, "out.db", out), format!("ok\n{MONEY}\n1"));
    }
    // A file that is no database is not exported, and neither is a database with changes in its write-ahead log.
    bench.write("text", b"text");
    bench.ok(&["files", "put", "s.tn", "text"]);
    contains(
        &bench.fails(&["sqlite", "export", "s.tn", "text", "t"]),
        "is no SQLite database",
    );
    drop(writer);
    server.end_ok();
    let mut writer = Connection::new(&bench, "bank.db");
    assert_eq!(writer.ok("PRAGMA journal_mode=WAL"), "wal");
    writer.ok("DELETE FROM transfers");
    writer.kill9();
    wait_until("the store", Duration::from_secs(5), || {
        bench.run(&["files", "list", "s.tn"]).code == Some(0)
    });
    let error = bench.fails(&["sqlite", "export", "s.tn", "bank.db", "out.db", "--force"]);
    contains(&error, "bank.db-wal in the store holds changes");
    sql(&bench, "bank.db", "PRAGMA wal_checkpoint(TRUNCATE)");
    bench.ok(&["sqlite", "export", "s.tn", "bank.db", "out.db", "--force"]);
    assert_eq!(
        host_sql(&bench, "out.db", "SELECT count(*) FROM transfers"),
        "0"
    );
}
