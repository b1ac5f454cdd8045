//! Loads of page accesses from the command line: figures, traces, and errors.

use crate::common::{Bench, bench, contains};
use serde_json::Value;

const SMALL: [&str; 8] = [
    "workload",
    "tpcc",
    "--warehouses",
    "1",
    "--transactions",
    "2000",
    "--seed",
    "5",
];

fn json(bench: &Bench, more: &[&str]) -> Value {
    let mut figures = bench.json(&[more, &["--json"]].concat());
    // The only figure that differs from run to run.
    figures["accesses_per_cpu_second"] = Value::Null;
    figures
}

fn number(figures: &Value, path: &str) -> f64 {
    let value = figures.pointer(path).and_then(Value::as_f64);
    value.unwrap_or_else(|| panic!("{path} is no number in {figures}"))
}

fn lines(bench: &Bench, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(bench.path(name)).expect("the trace");
    text.lines().map(str::to_string).collect()
}

#[test]
fn tpcc_reports_its_mix_sizes_accesses_and_log() {
    let bench = bench();
    let figures = json(&bench, &SMALL);
    assert_eq!(number(&figures, "/transactions"), 2000.0);
    let mix = figures["mix"].as_array().expect("the mix");
    let counts: f64 = mix.iter().map(|kind| number(kind, "/count")).sum();
    assert_eq!(counts, 2000.0);
    let log: f64 = mix
        .iter()
        .map(|kind| number(kind, "/count") * number(kind, "/log_bytes"))
        .sum();
    assert!((log / 2000.0 - number(&figures, "/log_bytes_per_transaction")).abs() < 1e-6);
    // The accesses of the tables and indexes are all accesses, and so are those of the kinds.
    let objects = figures["objects"].as_array().expect("tables and indexes");
    assert_eq!(objects.len(), 19);
    for what in ["reads", "writes"] {
        let all = number(&figures, &format!("/accesses/{what}"));
        let of_objects: f64 = objects
            .iter()
            .map(|object| number(object, &format!("/{what}")))
            .sum();
        let of_kinds = mix
            .iter()
            .map(|kind| number(kind, "/count") * number(kind, &format!("/{what}")));
        assert_eq!(of_objects, all, "{what}");
        assert!((of_kinds.sum::<f64>() - all).abs() < 1e-3, "{what}");
    }
    let stock = objects
        .iter()
        .find(|object| object["name"] == "stock")
        .expect("stock");
    assert_eq!(number(stock, "/rows"), 100_000.0);
    let text = bench.ok(&SMALL);
    for part in [
        "new-order",
        "order-line (w, d, o, line)",
        "reads for each write",
        "accesses per CPU-second",
    ] {
        contains(&text, part);
    }
}

#[test]
fn a_seed_makes_one_trace_and_all_tools_read_it() {
    let bench = bench();
    let figures = json(&bench, &[&SMALL[..], &["--out", "one.csv"]].concat());
    assert_eq!(
        json(&bench, &[&SMALL[..], &["--out", "other.csv"]].concat()),
        figures
    );
    let one = lines(&bench, "one.csv");
    assert_eq!(one, lines(&bench, "other.csv"));
    assert_eq!(one[0], "rw,lba,sectors,think_ms_before_next");
    let accesses = number(&figures, "/accesses/reads") + number(&figures, "/accesses/writes");
    assert_eq!(one.len() as f64, accesses + 1.0);
    let read = json(&bench, &["workload", "trace", "one.csv", "--format", "csv"]);
    assert_eq!(read["accesses"]["reads"], figures["accesses"]["reads"]);
    assert_eq!(read["accesses"]["writes"], figures["accesses"]["writes"]);
    assert!(
        number(&read, "/pages") < number(&figures, "/pages"),
        "untouched pages are left out"
    );
    let mut replay = vec![
        "drive", "replay", "--drive", "ssd", "--trace", "one.csv", "--format", "csv",
    ];
    replay.extend(["--out", "answer.csv", "--json"]);
    assert_eq!(number(&bench.json(&replay), "/requests"), accesses);
    assert_eq!(bench.files(), ["answer.csv", "one.csv", "other.csv"]);
}

#[test]
fn with_a_pool_only_its_io_remains() {
    let bench = bench();
    let figures = json(
        &bench,
        &[&SMALL[..], &["--pool", "4MiB", "--out", "disk.csv"]].concat(),
    );
    let sum = |of: &str| {
        number(&figures, &format!("/{of}/reads")) + number(&figures, &format!("/{of}/writes"))
    };
    assert!(sum("behind_pool") > 0.0 && sum("behind_pool") < sum("accesses") / 4.0);
    assert_eq!(
        lines(&bench, "disk.csv").len() as f64,
        sum("behind_pool") + 1.0
    );
    let objects = figures["objects"].as_array().expect("tables and indexes");
    let reads: f64 = objects
        .iter()
        .map(|object| number(object, "/pool_reads"))
        .sum();
    assert_eq!(reads, number(&figures, "/behind_pool/reads"));
    contains(
        &bench.ok(&[&SMALL[..], &["--pool", "4MiB"]].concat()),
        "behind the pool",
    );
}

#[test]
fn a_skewed_load_has_its_skew() {
    let bench = bench();
    let mut command = vec!["workload", "skew", "knuth:80-20", "--size", "1MiB"];
    command.extend(["--accesses", "200000", "--writes", "75"]);
    let figures = json(&bench, &command);
    assert_eq!(number(&figures, "/pages"), 256.0);
    let writes = number(&figures, "/accesses/writes");
    assert!((writes / 200_000.0 - 0.75).abs() < 0.01);
    assert!((number(&figures, "/accesses/writes_to_top_20_percent") - 0.8).abs() < 0.01);
    assert_eq!(figures["writes_skew"], "knuth:80-20");
    let out = bench.ok(&[
        "workload",
        "skew",
        "uniform",
        "--accesses",
        "3",
        "--out",
        "-",
    ]);
    assert_eq!(out.lines().count(), 4, "{out}");
}

#[test]
fn stand_ins_are_labelled_as_synthesised() {
    let bench = bench();
    for (name, title) in [("financial", "Financial"), ("campus", "Campus")] {
        let figures = json(&bench, &["workload", name, "--accesses", "1000"]);
        assert_eq!(figures["synthesised"], true);
        let text = bench.ok(&["workload", name, "--accesses", "1000"]);
        contains(&text, &format!("{title}, synthesised"));
        contains(&text, "(chosen)");
    }
}

#[test]
fn a_trace_keeps_its_times() {
    let bench = bench();
    let spc = "0,8,8192,w,0.5\n1,16,4096,r,0.75\n0,0,0,w,1\n0,8,512,r,2\n";
    std::fs::write(bench.path("t.spc"), spc).expect("a trace");
    let command = [
        "workload",
        "trace",
        "t.spc",
        "--format",
        "spc",
        "--out",
        "pages.csv",
    ];
    let figures = json(&bench, &command);
    assert_eq!(number(&figures, "/pages"), 3.0);
    assert_eq!(number(&figures, "/skipped"), 1.0);
    assert_eq!(number(&figures, "/seconds"), 1.5);
    let expected = [
        "rw,lba,sectors,arrival_ms",
        "W,0,8,500.000000",
        "W,8,8,500.000000",
        "R,16,8,750.000000",
        "R,0,8,2000.000000",
    ];
    assert_eq!(lines(&bench, "pages.csv"), expected);
    let one = json(
        &bench,
        &[
            "workload", "trace", "t.spc", "--format", "spc", "--device", "1",
        ],
    );
    assert_eq!(number(&one, "/accesses/reads"), 1.0);
    assert!(one["accesses"]["reads_per_write"].is_null());
}

#[test]
fn errors_are_one_line_and_leave_no_file() {
    let bench = bench();
    std::fs::write(bench.path("empty.spc"), "").expect("a trace");
    std::fs::write(bench.path("broken.spc"), "0,8,4096,w,0.5\nnonsense\n").expect("a trace");
    let trace = |name| {
        [
            "workload", "trace", name, "--format", "spc", "--out", "out.csv",
        ]
    };
    for (command, code, text) in [
        (
            &trace("missing.spc")[..],
            1,
            "cannot open the trace missing.spc: No such file",
        ),
        (
            &trace("empty.spc"),
            1,
            "the trace empty.spc has no read and no write",
        ),
        (&trace("broken.spc"), 1, "broken.spc:2: "),
        (&trace("."), 1, ". is a folder, not a trace"),
        (&["workload", "skew", "zipf"], 2, "knuth:80-20"),
        (
            &["workload", "skew", "uniform", "--writes", "101"],
            2,
            "a number from 0 to 100",
        ),
        (
            &["workload", "skew", "uniform", "--page-size", "1000"],
            1,
            "must be a multiple of 512",
        ),
        (
            &["workload", "skew", "uniform", "--size", "100"],
            1,
            "less than a page",
        ),
        (
            &["workload", "skew", "uniform", "--size", "1PiB"],
            1,
            "take larger pages",
        ),
        (
            &["workload", "tpcc", "--warehouses", "0"],
            1,
            "warehouses is 0; it may be from 1 to 10000",
        ),
        (
            &["workload", "tpcc", "--page-size", "1MiB"],
            1,
            "page_bytes is 1048576",
        ),
        (
            &[
                "workload",
                "tpcc",
                "--warehouses",
                "1",
                "--page-size",
                "1536",
                "--page-header",
                "512",
                "--row-overhead",
                "512",
            ],
            1,
            "too small for customer",
        ),
        (
            &["workload", "skew", "uniform", "--out", "-", "--json"],
            1,
            "both write to standard output",
        ),
        (
            &["workload", "skew", "uniform", "--out", "no/such/folder.csv"],
            1,
            "cannot write no/such/folder.csv",
        ),
    ] {
        let ran = bench.run(command);
        assert_eq!(ran.code, Some(code), "{command:?}: {}", ran.err);
        contains(&ran.err, text);
        assert!(code == 2 || ran.err.lines().count() == 1, "{}", ran.err);
    }
    assert_eq!(bench.files(), ["broken.spc", "empty.spc"]);
}
