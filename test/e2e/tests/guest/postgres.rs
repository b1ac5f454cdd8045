//! PostgreSQL in a Debian system whose root file system is a volume: the server of the volume is killed under load, then the system
//! loses its power. No acknowledged transaction is lost, and all tables agree.

use std::time::Duration;
use tonearm_tests::console::Console;
use tonearm_tests::debian::{Debian, Way};
use tonearm_tests::kill_rounds;

/// A cluster of the test's own, because that of the package was made while the system was packed.
const MAKE: &str = "pg_dropcluster --stop 15 main && pg_createcluster 15 main --start -- --data-checksums >/dev/null && \
                    su postgres -c 'pgbench -i -q -s 1 2>/dev/null' && sync";

/// Two clients of pgbench, and one with the same transactions that prints the number of each after the server has answered its commit.
/// The number is the filler of its row in the history.
const LOAD: &str = "\
su postgres -c 'pgbench -n -c 2 -T 3600' >/run/pgbench 2>&1 &
seq $first 1000000 | while read n; do
    delta=$((n % 5000 - 2500))
    printf '%s\\n' \"BEGIN; UPDATE pgbench_accounts SET abalance = abalance + $delta WHERE aid = $((n * 7919 % 100000 + 1));
        UPDATE pgbench_tellers SET tbalance = tbalance + $delta WHERE tid = $((n % 10 + 1));
        UPDATE pgbench_branches SET bbalance = bbalance + $delta WHERE bid = 1;
        INSERT INTO pgbench_history (tid, bid, aid, delta, mtime, filler)
            VALUES ($((n % 10 + 1)), 1, $((n * 7919 % 100000 + 1)), $delta, now(), '$n'); COMMIT;
        \\\\echo [done $n]\"
done | su postgres -c 'psql -X -q -v ON_ERROR_STOP=1 2>&1'
";

/// The sums that agree after each transaction of pgbench.
const SUMS: &str = "SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(bbalance) FROM pgbench_branches),
    (SELECT sum(tbalance) FROM pgbench_tellers), (SELECT coalesce(sum(delta), 0) FROM pgbench_history)";

/// The result of a statement, unaligned and without a header.
#[track_caller]
fn query(machine: &mut Console, sql: &str) -> String {
    let sql = sql.replace('\n', " ");
    machine.run(&format!(
        "su postgres -c \"psql -X -A -t -q -v ON_ERROR_STOP=1 -c \\\"{sql}\\\"\""
    ))
}

/// Waits until the load has committed `times` further transactions, and returns the number of the last one.
#[track_caller]
fn acknowledged(machine: &mut Console, times: u64) -> u64 {
    let mut last = 0;
    for _ in 0..times {
        machine.wait_for("[done ");
        last = machine.wait_for("]").parse().expect("a number");
    }
    last
}

/// How many transactions of the client that prints numbers are in the database, and the highest number.
#[track_caller]
fn numbers(machine: &mut Console) -> (u64, u64) {
    let sql = "SELECT count(*), max(filler::int) FROM pgbench_history WHERE filler IS NOT NULL";
    let both = query(machine, sql);
    let (count, max) = both.split_once('|').expect("two columns");
    let number = |text: &str| text.parse().expect("a number");
    (number(count), number(max))
}

/// Checks the database of a system that has started again.
#[track_caller]
fn check(machine: &mut Console, last: u64) {
    machine.run("for i in $(seq 60); do su postgres -c 'pg_isready -q' && break; sleep 1; done; [ $i -lt 60 ] || (pg_lsclusters; tail -n 20 /var/log/postgresql/*; false)");
    let sums = query(machine, SUMS);
    let all: Vec<&str> = sums.split('|').collect();
    assert!(
        all.len() == 4 && all.iter().all(|sum| *sum == all[0]),
        "{sums}"
    );
    // The numbers have no gap, and the last one was answered before it was printed.
    let (found, max) = numbers(machine);
    assert!(
        found >= last && found == max,
        "{last} acknowledged, {found} found, up to {max}"
    );
    machine.run("su postgres -c '/usr/lib/postgresql/*/bin/pg_amcheck --install-missing --heapallindexed -d postgres'");
}

fn survives(way: Way) {
    let mut debian = Debian::new(way);
    let mut last = 0;
    for round in 0..kill_rounds(1) {
        let mut machine = debian.boot();
        machine.log_in();
        if round == 0 {
            machine.run(MAKE);
        } else {
            check(&mut machine, last);
            last = numbers(&mut machine).0;
        }
        machine.enter(&format!("first={}\n{LOAD}", last + 1));
        acknowledged(&mut machine, 30 + round * 7 % 23);
        debian.kill_server();
        std::thread::sleep(Duration::from_millis(300 + round * 301 % 2000));
        debian.start_server();
        last = acknowledged(&mut machine, 40);
        std::thread::sleep(Duration::from_millis(round * 61 % 250));
        let rest = machine.cut_power();
        let rest = rest
            .rsplit("[done ")
            .find_map(|part| part.split_once(']')?.0.parse().ok());
        last = rest.unwrap_or(last);
        println!("{way:?}, round {round}: power cut after transaction {last}");
    }
    let mut machine = debian.boot();
    machine.log_in();
    check(&mut machine, last);
    let rows = query(&mut machine, "SELECT count(*) FROM pgbench_history");
    println!("{way:?}: {rows} transactions in all");
    machine.enter("poweroff");
    machine.ended();
    debian.check();
}

#[test]
fn postgresql_by_vhost_user_survives_in_full() {
    survives(Way::VhostUser);
}

#[test]
fn postgresql_by_nbd_survives() {
    survives(Way::Nbd);
}
