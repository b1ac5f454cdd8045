//! An archive whose old ranges are merged, as `--archive-keep-every-commit` says.

use crate::archives::{insert, lose, rows, url};
use std::time::Duration;
use tonearm_tests::{Bench, contains, wait_until};

/// The server merges ranges once the minute in which they were put has passed.
const LIMIT: Duration = Duration::from_secs(150);

#[test]
fn of_old_commits_one_state_of_each_minute_is_left() {
    let bench = Bench::with_small_store(&[]);
    let address = url(&bench, "backup");
    let server = bench.serve(&[
        "s.tn",
        "--archive",
        &address,
        "--archive-base-rate",
        "1GiB",
        "--archive-keep-every-commit",
        "1s",
    ]);
    let status = || bench.json(&["archive", "status", "s.tn", "--json"]);
    wait_until("a base", LIMIT, || status()["restorable"] == true);
    // Over two minutes at most, so that one of them has several ranges.
    for count in 1..=10 {
        insert(&bench, 10 * count);
        bench.ok(&["archive", "wait", "s.tn"]);
    }
    let last = status()["archived_lsn"].as_u64().expect("a number");
    wait_until("a merged range", LIMIT, || status()["merged"] != 0);
    assert_eq!(status()["unmerged"], serde_json::Value::Null);
    server.end_ok();
    lose(&bench);

    contains(&bench.ok(&["history", &address]), "old ones are merged");
    bench.ok(&["archive", "verify", &address]);
    let history = bench.json(&["history", &address, "--json"]);
    let merged = &history["merged"][0];
    let commit = |name: &str| merged[name].as_u64().expect("a number").to_string();
    let refused = bench.run(&[
        "restore",
        &address,
        "s.tn",
        "--to-lsn",
        &commit("first_lsn"),
    ]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    contains(&refused.err, " cannot be restored");
    bench.ok(&["restore", &address, "s.tn", "--to-lsn", &commit("last_lsn")]);
    let kept: u64 = rows(&bench).parse().expect("a number");
    assert!((10..=100).contains(&kept), "{kept}");
    lose(&bench);
    let made = bench.json(&["restore", &address, "s.tn", "--json"]);
    assert!(made["lsn"].as_u64() >= Some(last), "{made}");
    assert_eq!(rows(&bench), "100");
}
