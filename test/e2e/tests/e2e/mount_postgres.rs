//! PostgreSQL without full-page writes on a mount whose server is killed. A page of PostgreSQL that was torn by the kill would
//! stay torn, because its log has only the changes of pages. So each page must be written atomically. The mount has the
//! option `direct_io`: without it the kernel splits writes from memory that is partly mapped, and PostgreSQL's buffers begin at no
//! page boundary before version 16. Without the option 51 of 17,800 writes of pages were split, and one of 110 kills tore a page.
//!
//! `TONEARM_KILL_ROUNDS=100` makes 100 kills for each test, which take some minutes; the default is 3.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;
use tonearm_tests::mount::fuse_possible;
use tonearm_tests::{Bench, Postgres, TreeMount, kill_rounds, skipped};

/// Kills where `TONEARM_KILL_ROUNDS` does not say.
const ROUNDS: u64 = 3;
/// Accounts of the bank, and the sum of their balances.
const ACCOUNTS: u64 = 20_000;
const MONEY: u64 = ACCOUNTS * 1000;
/// Connections that transfer money.
const CLIENTS: u64 = 4;

/// Few buffers, so that pages are written all the time. All else is as PostgreSQL has it by default.
const SETTINGS: &[&str] = &[
    "full_page_writes=off",
    "fsync=on",
    "synchronous_commit=on",
    "shared_buffers=2MB",
    "max_wal_size=16MB",
    "min_wal_size=8MB",
    "bgwriter_delay=10ms",
    "autovacuum_naptime=1s",
];

const TABLES: &str = "
    CREATE EXTENSION amcheck;
    CREATE TABLE accounts(id int PRIMARY KEY, balance bigint NOT NULL, filler text NOT NULL);
    CREATE INDEX by_balance ON accounts(balance);
    CREATE TABLE transfers(round int, client int, n int, filler text NOT NULL, PRIMARY KEY (round, client, n));";

/// A transfer. `n` counts those of a connection; the order of the accounts excludes deadlocks.
const TRANSFER: &str = r"
\set n :n + 1
\set a random(1, :accounts)
\set b random(1, :accounts)
\set first least(:a, :b)
\set second greatest(:a, :b)
\set amount random(-50, 50)
BEGIN;
UPDATE accounts SET balance = balance + :amount WHERE id = :first;
UPDATE accounts SET balance = balance - :amount WHERE id = :second;
INSERT INTO transfers VALUES (:round, :client_id, :n, repeat('x', 200));
END;
";

const CHECKPOINTS: &str = "CHECKPOINT;\n\\sleep 100 ms\n";

/// Starts connections that transfer money until the server is gone. pgbench writes a line for each commit that was
/// acknowledged into `acknowledged-ROUND.PID`.
fn transfer(postgres: &Postgres, round: u64) -> Child {
    let mut command = postgres.program("pgbench");
    let prefix = format!("--log-prefix=acknowledged-{round}");
    command
        .args(["-n", "-M", "prepared", "-T", "600", "-f", "transfer.sql"])
        .args(["-c", &CLIENTS.to_string(), "-D", "n=0", "--log", &prefix])
        .args(["-D", &format!("round={round}")])
        .args(["-D", &format!("accounts={ACCOUNTS}")])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().expect("timeout runs")
}

/// Commits that were acknowledged to each client of a round.
fn acknowledged(place: &Path, round: u64) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    let prefix = format!("acknowledged-{round}.");
    for entry in fs::read_dir(place).expect("a folder").flatten() {
        if !entry.file_name().to_string_lossy().starts_with(&prefix) {
            continue;
        }
        let lines = fs::read_to_string(entry.path()).expect("a log");
        for line in lines.lines() {
            let client = line.split(' ').next().and_then(|id| id.parse().ok());
            *counts.entry(client.expect("a client")).or_default() += 1;
        }
    }
    counts
}

/// What must hold at any time and does not, and the number of transfers of `round` that were acknowledged: those are there, and at
/// most one more of each client.
fn audit(postgres: &Postgres, place: &Path, round: Option<u64>) -> (Vec<String>, u64) {
    let mut wrong = Vec::new();
    let sum = postgres.query("SELECT sum(balance) FROM accounts");
    if sum != MONEY.to_string() {
        wrong.push(format!("the sum of all balances is {sum}, not {MONEY}"));
    }
    let mut rows = BTreeMap::new();
    if let Some(round) = round {
        let counts = postgres.query(&format!(
            "SELECT client, count(*), max(n) FROM transfers WHERE round = {round} GROUP BY client"
        ));
        for row in counts.lines() {
            let numbers = row.split('|').map(|it| it.parse().expect("a number"));
            let row: Vec<u64> = numbers.collect();
            if row[1] != row[2] {
                wrong.push(format!("client {} has a gap: {row:?}", row[0]));
            }
            rows.insert(row[0], row[1]);
        }
    }
    let acknowledged = round.map_or(BTreeMap::new(), |round| acknowledged(place, round));
    for client in 0..CLIENTS {
        let count = *acknowledged.get(&client).unwrap_or(&0);
        let there = *rows.get(&client).unwrap_or(&0);
        if there != count && there != count + 1 {
            wrong.push(format!(
                "client {client}: {count} commits were acknowledged, {there} are there"
            ));
        }
    }
    let words = ["--heapallindexed", "--parent-check", "--rootdescend"];
    let said = postgres.program("pg_amcheck").args(words).output();
    let said = said.expect("timeout runs");
    if !said.status.success() {
        let text = String::from_utf8_lossy(&said.stdout);
        wrong.push(format!("pg_amcheck: {text}"));
    }
    (wrong, acknowledged.values().sum())
}

fn survives_kills(name: &str, initialise: &[&str]) {
    if let Err(why) = fuse_possible() {
        return skipped("PostgreSQL on the mounted file system", &why);
    }
    let rounds = kill_rounds(ROUNDS);
    let bench = Bench::created(&["--size", "2GiB", "--log-size", "64MiB", "--no-volume"]);
    let mount = || TreeMount::with_options(&bench, "allow_other,direct_io");
    let mut mounted = mount();
    let mut postgres = Postgres::new(&bench, mounted.path("data"));
    let place = bench.path("postgres");
    fs::write(place.join("transfer.sql"), TRANSFER).expect("written");
    fs::write(place.join("checkpoints.sql"), CHECKPOINTS).expect("written");
    postgres.initialise(&[&["--wal-segsize=1"], initialise].concat());
    postgres.start(SETTINGS);
    postgres.query(TABLES);
    postgres.query(&format!(
        "INSERT INTO accounts SELECT id, 1000, repeat('f', 100) FROM generate_series(1, {ACCOUNTS}) AS id"
    ));
    assert_eq!(postgres.query("SHOW full_page_writes"), "off");
    let mut commits = 0;
    let mut check = |postgres: &Postgres, round| {
        let (wrong, acknowledged) = audit(postgres, &place, round);
        assert!(wrong.is_empty(), "after round {round:?}: {wrong:#?}");
        commits += acknowledged;
    };
    check(&postgres, None);
    for round in 0..rounds {
        let mut transfers = transfer(&postgres, round);
        let mut checkpoints = postgres.program("pgbench");
        let checkpoints = checkpoints
            .args(["-n", "-T", "600", "-f", "checkpoints.sql"])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut checkpoints = checkpoints.spawn().expect("timeout runs");
        // The delays vary, so that the kills do not coincide with periodic work.
        std::thread::sleep(Duration::from_millis(700 + round * 137 % 800));
        mounted.kill9();
        postgres.kill9();
        for load in [&mut transfers, &mut checkpoints] {
            load.wait().expect("an end");
        }
        mounted = mount();
        postgres.start(SETTINGS);
        check(&postgres, Some(round));
    }
    println!("{name}: {commits} acknowledged commits in {rounds} rounds");
    assert!(commits > rounds * 10, "{commits} are too few for a test");
    postgres.stop();
    if initialise.contains(&"--data-checksums") {
        let data = mounted.path("data");
        let data = data.to_str().expect("a path in UTF-8");
        postgres.ok("pg_checksums", &["--check", "-D", data]);
    }
    mounted.unmount();
    bench.ok(&["check", "s.tn"]);
}

#[test]
fn postgres_without_full_page_writes_survives_kills() {
    survives_kills("plain pages", &[]);
}

/// With checksums PostgreSQL also logs whole pages, those of which only hints have changed. So this is a test besides the other, not
/// in its place.
#[test]
fn postgres_with_checksums_survives_kills() {
    survives_kills("pages with checksums", &["--data-checksums"]);
}
