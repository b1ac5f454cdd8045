//! Several writers of one database in a store that is archived. While they write, and afterwards, the states of random commits are
//! restored. Each time the database is whole, no money is lost, and it has exactly the transfers up to that commit.

use super::archives::{archived, url};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tonearm_tests::sqlite::{host_sql, python, sql};
use tonearm_tests::{Background, Bench, noise, wait_until};

/// Accounts of the bank, and the sum of their balances.
const ACCOUNTS: u64 = 40;
const MONEY: u64 = ACCOUNTS * 1000;
const LIMIT: Duration = Duration::from_secs(60);
/// The writers go on until there are so many transfers.
const TRANSFERS_MIN: usize = 1500;
/// How many states are restored while the writers run, and when they have ended.
const DURING: usize = 12;
const AFTER: usize = 36;
/// One of so many times the whole store is restored, otherwise the database alone.
const WHOLE_EVERY: usize = 6;

/// Moves money while the file `go` exists, and prints the number of each transfer with the commit that has it. At first one
/// thread also rewrites a table, so often as the arguments say, in transactions that are larger than a server of 16 MiB has memory
/// for: the log does not have their blocks. All pause, because SQLite's locks have no queue.
const WRITERS: &str = "
import random, threading
processes, threads, rewrites, accounts = map(int, sys.argv[3:])
def say(*words):
    os.write(1, (' '.join(map(str, words)) + '\\n').encode())
def transfer(db):
    db.execute('BEGIN IMMEDIATE')
    number, = db.execute('SELECT coalesce(max(id), 0) + 1 FROM transfers').fetchone()
    payer, payee = random.sample(range(1, accounts + 1), 2)
    amount = random.randrange(1, 100)
    filler = random.randrange(1500)
    db.execute('UPDATE accounts SET balance = balance - ? WHERE id = ?', (amount, payer))
    db.execute('INSERT INTO transfers VALUES (?, ?, ?, ?, randomblob(?))', (number, payer, payee, amount, filler))
    db.execute('UPDATE accounts SET balance = balance + ? WHERE id = ?', (amount, payee))
    db.execute('COMMIT')
    say(number, *db.execute('PRAGMA tonearm_lsn').fetchone())
def write(left):
    db = connect()
    db.execute('PRAGMA cache_size = 50')
    while os.path.exists('go'):
        transfer(db)
        if left > 0:
            left -= 1
            db.execute('UPDATE large SET x = randomblob(3000)')
            time.sleep(0.2)
            if left == 0:
                open('rewritten', 'w').close()
        time.sleep(random.random() / 200)
    db.close()
def process(index):
    all = [threading.Thread(target=write, args=(rewrites if index + n == 0 else 0,)) for n in range(threads)]
    for one in all: one.start()
    for one in all: one.join()
fork = multiprocessing.get_context('fork')
all = [fork.Process(target=process, args=(index,)) for index in range(processes)]
for one in all: one.start()
for one in all: one.join()
assert {one.exitcode for one in all} == {0}
say('over')
";

/// The writers, each with a connection of its own.
struct Writers {
    processes: u64,
    /// In each process.
    threads: u64,
    /// Large transactions of the first one.
    rewrites: u64,
}

/// What a restored database has.
struct State {
    lsn: u64,
    transfers: u64,
    /// The balances by account.
    balances: String,
}

/// Checks a database, of commit `lsn`, in a file of the host.
fn audit(bench: &Bench, file: &str, lsn: u64) -> State {
    let found = host_sql(
        bench,
        file,
        "PRAGMA integrity_check;
         SELECT sum(balance) FROM accounts;
         SELECT count(*) FROM accounts WHERE balance <> 1000
             + (SELECT total(amount) FROM transfers WHERE payee = accounts.id)
             - (SELECT total(amount) FROM transfers WHERE payer = accounts.id);
         SELECT count(*) || ' ' || ifnull(max(id), 0) FROM transfers;
         SELECT group_concat(balance) FROM (SELECT balance FROM accounts ORDER BY id);",
    );
    let lines: Vec<&str> = found.lines().collect();
    let [sound, money, wrong, transfers, balances] = lines[..] else {
        panic!("commit {lsn}: {found}");
    };
    assert_eq!(
        (sound, money, wrong),
        ("ok", MONEY.to_string().as_str(), "0"),
        "commit {lsn}"
    );
    let (count, last) = transfers.split_once(' ').expect("two numbers");
    assert_eq!(count, last, "transfers have a gap at commit {lsn}");
    State {
        lsn,
        transfers: last.parse().expect("a number"),
        balances: balances.to_string(),
    }
}

/// Restores commits of the archive.
struct Restores<'a> {
    bench: &'a Bench,
    states: Vec<State>,
    /// How often a state could not be had, and the commit before it was restored.
    refused: usize,
    whole: usize,
}

impl Restores<'_> {
    /// Restores the state of a random commit of `first..=last`, or of the one that the refusal names.
    fn one(&mut self, first: u64, last: u64) {
        let seed = self.states.len() as u64;
        let random = noise(seed, 8).try_into().expect("8 bytes");
        let mut lsn = first + u64::from_le_bytes(random) % (last - first + 1);
        let is_whole = self.states.len() % WHOLE_EVERY == WHOLE_EVERY - 1;
        let file = if is_whole { "r.tn" } else { "r.db" };
        let from = url(self.bench, "backup");
        loop {
            let at = lsn.to_string();
            let mut command = vec!["restore", &from, file, "--to-lsn", &at];
            if !is_whole {
                command.extend(["--only", "app.db"]);
            }
            let ran = self.bench.run(&command);
            if ran.code == Some(0) {
                break;
            }
            let named = ran.err.trim_end().rsplit_once("; restore commit ");
            let named = named.and_then(|(_, named)| named.split_once(" or "));
            let Some((before, after)) = named else {
                panic!("commit {lsn}: {ran:?}");
            };
            let parse = |text: &str| text.split(';').next().and_then(|text| text.parse().ok());
            let before: u64 = parse(before).expect("a number");
            let after: u64 = parse(after).expect("a number");
            assert!(before < lsn && lsn < after, "{ran:?}");
            lsn = if before >= first { before } else { after };
            self.refused += 1;
        }
        if is_whole {
            self.bench.ok(&["sqlite", "export", file, "app.db", "r.db"]);
            std::fs::remove_file(self.bench.path(file)).expect("removed");
            self.whole += 1;
        }
        self.states.push(audit(self.bench, "r.db", lsn));
        std::fs::remove_file(self.bench.path("r.db")).expect("removed");
    }
}

fn create_bank(bench: &Bench, name: &str) {
    let statements = format!(
        "CREATE TABLE accounts(id INTEGER PRIMARY KEY, balance INTEGER NOT NULL);
         INSERT INTO accounts SELECT value, 1000 FROM generate_series(1, {ACCOUNTS});
         CREATE TABLE transfers(id INTEGER PRIMARY KEY, payer INTEGER, payee INTEGER, amount INTEGER, filler BLOB);
         CREATE TABLE large(x BLOB);
         INSERT INTO large SELECT randomblob(3000) FROM generate_series(1, 1600);"
    );
    sql(bench, name, &statements);
}

/// The last commit that can be restored.
fn archived_lsn(bench: &Bench) -> u64 {
    let history = bench.json(&["history", &url(bench, "backup"), "--json"]);
    let parts = history["restorable"].as_array().expect("a list").iter();
    let last = parts.map(|part| part["last_lsn"].as_u64().expect("a number"));
    last.max().expect("a base")
}

/// Lets writers move money in the database `name`, and restores states. The writers end before `end` is called, which archives
/// everything.
fn write_and_restore(bench: &Bench, name: &str, writers: &Writers, end: impl FnOnce()) {
    let first = archived_lsn(bench);
    bench.write("go", b"");
    let out = std::fs::File::create(bench.path("writers.out")).expect("a file");
    let mut command = python(bench, name, WRITERS);
    let numbers = [
        writers.processes,
        writers.threads,
        writers.rewrites,
        ACCOUNTS,
    ];
    command.args(numbers.map(|number| number.to_string()));
    let running = Background::start(command.stdout(out));
    let said = || String::from_utf8(bench.read("writers.out")).expect("text");

    let mut restores = Restores {
        bench,
        states: Vec::new(),
        refused: 0,
        whole: 0,
    };
    let mut wanted = TRANSFERS_MIN;
    for number in 1..=DURING {
        if number == DURING / 3 && writers.rewrites > 0 {
            wait_until("the large transactions", LIMIT, || {
                bench.path("rewritten").exists()
            });
            // Some neighbouring states cannot be restored, so more have to follow them.
            wanted = wanted.max(3 * said().lines().count());
        }
        wait_until("transfers", LIMIT, || {
            said().lines().count() > wanted * number / DURING
        });
        restores.one(first, archived_lsn(bench));
    }
    std::fs::remove_file(bench.path("go")).expect("removed");
    wait_until("the writers' end", LIMIT, || said().ends_with("over\n"));
    drop(running);
    end();
    let last = archived_lsn(bench);
    for _ in 0..AFTER {
        restores.one(first, last);
    }
    bench.ok(&["archive", "verify", &url(bench, "backup")]);

    // Transfers by the commit that has them.
    let mut made = BTreeMap::from([(first, 0)]);
    for line in said().lines().filter(|line| *line != "over") {
        let (number, lsn) = line.split_once(' ').expect("two numbers");
        let number: u64 = number.parse().expect("a number");
        made.insert(lsn.parse().expect("a number"), number);
    }
    let in_order: Vec<u64> = made.values().copied().collect();
    assert!(in_order.iter().copied().eq(0..in_order.len() as u64));
    assert!(made.last_key_value().is_some_and(|(lsn, _)| *lsn <= last));
    let Restores {
        states,
        refused,
        whole,
        ..
    } = restores;
    for state in &states {
        let (_, expected) = made.range(..=state.lsn).next_back().expect("a commit");
        assert_eq!(state.transfers, *expected, "commit {}", state.lsn);
    }
    // Early and late states, each with balances of its own.
    let part = in_order.len() as u64 / 3;
    let transfers: BTreeSet<u64> = states.iter().map(|state| state.transfers).collect();
    let balances: BTreeSet<&str> = states.iter().map(|state| &state.balances[..]).collect();
    let (earliest, latest) = (transfers.first(), transfers.last());
    println!(
        "{} transfers in commits {first} to {last}; {} restores, {whole} of the whole store, {refused} refused; {} states",
        in_order.len() - 1,
        states.len(),
        transfers.len()
    );
    assert_eq!(states.len(), DURING + AFTER);
    assert_eq!(whole, states.len() / WHOLE_EVERY);
    assert_eq!(transfers.len(), balances.len());
    assert!(transfers.len() > 20, "{transfers:?}");
    assert!(earliest < Some(&part) && latest > Some(&(2 * part)));
}

#[test]
fn commits_of_served_processes_are_restored_whole() {
    let bench = Bench::created(&["--size", "256MiB", "--log-size", "64MiB", "--no-volume"]);
    let address = url(&bench, "backup");
    // The large transactions exceed a quarter of the memory.
    let server = bench.serve(&["s.tn", "--archive", &address, "--memory", "16MiB"]);
    create_bank(&bench, "app.db");
    archived(&bench);
    let writers = Writers {
        processes: 3,
        threads: 2,
        rewrites: 3,
    };
    write_and_restore(&bench, "app.db", &writers, || {
        archived(&bench);
    });
    server.end_ok();
}

#[test]
fn random_commits_of_threads_in_a_program_are_restored_whole() {
    let bench = Bench::created(&["--size", "256MiB", "--log-size", "64MiB", "--no-volume"]);
    let address = url(&bench, "backup");
    let name = format!("app.db&archive={address}&archive_interval=0.02");
    create_bank(&bench, &name);
    let writers = Writers {
        processes: 1,
        threads: 4,
        rewrites: 0,
    };
    // The end of the program archives what is left.
    write_and_restore(&bench, &name, &writers, || {});
}
