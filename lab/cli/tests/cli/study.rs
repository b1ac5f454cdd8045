//! `tonearm-lab study` from the command line: a small study, and an error for each trace that cannot be studied.

use crate::common::{Bench, bench, contains};
use serde_json::Value;

/// A skewed load without times, and a short study of it.
const SMALL: [&str; 13] = [
    "study",
    "--trace",
    "skew.csv",
    "--drive",
    "atlas10k",
    "--requests",
    "2000",
    "--utilisation",
    "0.8",
    "--clients",
    "4",
    "--memory",
    "4MiB",
];

fn with_skewed_trace() -> Bench {
    let bench = bench();
    let mut command = vec!["workload", "skew", "hot-cold:90-10", "--size", "8MiB"];
    command.extend(["--accesses", "4000", "--writes", "80", "--out", "skew.csv"]);
    bench.ok(&command);
    bench
}

fn refused(trace: &str, more: &[&str]) -> String {
    let bench = bench();
    std::fs::write(bench.path("t"), trace).expect("a trace");
    let command = ["study", "--trace", "t", "--drive", "hp_c2247a"];
    let ran = bench.run(&[&command, more].concat());
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    ran.err
}

fn case<'a>(study: &'a Value, layout: &str, log_drive: bool, load: u64) -> &'a Value {
    let cases = study["cases"].as_array().expect("cases");
    let found = cases.iter().find(|case| {
        case["layout"] == layout && case["log_drive"] == log_drive && case["load"] == load
    });
    found.expect("the case")
}

#[test]
fn a_study_measures_every_layout_and_recommends_one() {
    let bench = bench();
    // 50 requests per second on 8 MiB. Three quarters of them are writes, and a third of those go to a tenth of the blocks.
    let mut trace = String::from("rw,lba,sectors,arrival_ms\n");
    for index in 0..1500u64 {
        let page = index * 7919 % [2048, 204][usize::from(index % 2 == 0)];
        let rw = ["R", "W"][usize::from(index % 4 > 0)];
        trace += &format!("{rw},{},8,{}\n", page * 8, index * 20);
    }
    std::fs::write(bench.path("slow.csv"), trace).expect("a trace");
    let mut command = vec![
        "study", "--trace", "slow.csv", "--drive", "atlas10k", "--json",
    ];
    command.extend(["--requests", "2000", "--utilisation", "0.8"]);
    let study = bench.json(&command);
    assert_eq!(study["cases"].as_array().map(Vec::len), Some(16));
    for layout in ["overwrite", "segments", "wolf", "hylog"] {
        for log_drive in [false, true] {
            for load in [1, 2] {
                let case = case(&study, layout, log_drive, load);
                assert_eq!(case["requests"], 2000);
                assert_eq!(case["saturated"], false);
                let figure = |path: &str| {
                    let value = case.pointer(path).and_then(Value::as_f64);
                    value.unwrap_or_else(|| panic!("{layout}: {path} in {case}"))
                };
                let rate = figure("/requests_per_s") / (50.0 * load as f64);
                assert!((0.98..1.02).contains(&rate), "{layout}: {rate}");
                assert!(figure("/durable_writes/p99_ms") > figure("/durable_writes/p50_ms"));
                assert!(figure("/reads/max_ms") > 1.0, "{layout}: {case}");
                assert!(figure("/write_cost") > 0.3, "{layout}: {case}");
                assert!(figure("/written_bytes") > figure("/log_bytes"), "{layout}");
            }
        }
    }
    let share = study["trace"]["writes_to_hottest_tenth_percent"].as_f64();
    assert!((30.0..45.0).contains(&share.expect("a share")), "{share:?}");
    let sentence = study["recommendation"]["sentence"].as_str();
    let begin = "No verdict: the trace has 29.98 s of requests; record at least a minute";
    assert!(
        sentence.expect("a sentence").starts_with(begin),
        "{sentence:?}"
    );
    let create = study["create"].as_str().expect("a command");
    assert!(
        create.starts_with("tonearm create PATH --size 8MiB"),
        "{create}"
    );
    let notes = study["notes"].to_string();
    contains(
        &notes,
        "The 1500 requests that were taken of the trace are too few for a steady state, and were repeated",
    );
    // The same seed gives the same figures, whatever the order in which the threads come to the cases.
    assert_eq!(bench.json(&command), study);
}

#[test]
fn the_character_of_a_trace_is_counted() {
    let bench = bench();
    // A request each second, and ten more in the last one. Each fourth is a read of one of 5 blocks. Of the 75 writes 50
    // go to one block, and 25 to 9 others. Two flushes say that the writes need not be durable.
    let mut trace = String::from("rw,lba,sectors,arrival_ms\n");
    for index in 0..100u64 {
        let (rw, block) = match index % 4 {
            0 => ("R", 1000 + index / 4 % 5),
            2 => ("W", 1 + index / 4 % 9),
            _ => ("W", 0),
        };
        let at = index.min(89) * 1000 + index.saturating_sub(89) * 10;
        trace += &format!("{rw},{},8,{at}\n", block * 8);
    }
    trace += "F,0,0,89200\nF,0,0,90000\n";
    std::fs::write(bench.path("t.csv"), trace).expect("a trace");
    let command = [
        "study",
        "--trace",
        "t.csv",
        "--drive",
        "ssd",
        "--requests",
        "102",
    ];
    let study = bench.json(&[&command[..], &["--utilisation", "0.5", "--json"]].concat());
    let expected = serde_json::json!({
        "trace": "t.csv", "format": "csv", "complete": true,
        "requests": 102, "reads": 25, "writes": 75, "flushes": 2, "durable_writes": 0,
        "left_out": 0, "other_devices": 0, "moved_up": 0, "closed_loop": false,
        "seconds": 90.0, "requests_per_s": 101.0 / 90.0, "busiest_second": 12.0 / (101.0 / 90.0),
        "read_bytes": 25 * 4096, "write_bytes": 75 * 4096,
        "request_bytes_p50": 4096, "request_bytes_p90": 4096, "request_bytes_max": 4096,
        "reach_bytes": 1005 * 4096,
        "footprint_bytes": 15 * 4096, "written_footprint_bytes": 10 * 4096,
        "writes_to_hottest_tenth_percent": 100.0 * (50.0 / 75.0),
    });
    for (name, value) in expected.as_object().expect("figures") {
        assert_eq!(&study["trace"][name], value, "{name}");
    }
    // Of the first 60 seconds only those that arrive by then.
    let study = bench.json(&[&command[..], &["--for", "60s", "--json"]].concat());
    assert_eq!(study["trace"]["requests"], 61);
    assert_eq!(study["trace"]["complete"], false);
}

#[test]
fn a_report_is_one_page_with_plots() {
    let bench = with_skewed_trace();
    let text = bench.ok(&[&SMALL[..], &["--report", "out"]].concat());
    let no_verdict = "No verdict: the shortest measurement is";
    let parts = [
        no_verdict,
        "skew",
        "hylog",
        "What the models do not know",
        "At the trace's load:",
        "At twice the load:",
        "\n  tonearm create PATH --size 8MiB",
    ];
    for part in parts {
        contains(&text, part);
    }
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    contains(&text, "\nRequests per second, at 80 % utilisation:\n");
    for (first, then) in [
        ("│ hylog", no_verdict),
        (no_verdict, "  - The trace touches little"),
    ] {
        assert!(
            text.rfind(first) < text.rfind(then),
            "{first} {then}: {text}"
        );
    }
    let page = std::fs::read_to_string(bench.path("out/index.html")).expect("the page");
    for part in [
        no_verdict,
        "<code>tonearm create PATH --size 8MiB",
        "<th class=\"n\">twice the load, with log drive</th>",
        "Read it with this in mind",
        "<li>The trace touches little",
        "<svg role=\"img\"",
        "hottest 10 %",
        "--clients 4",
        "</html>",
    ] {
        contains(&page, part);
    }
    for plot in ["throughput", "reads-p99", "writes-p99", "write-cost"] {
        assert!(bench.path(&format!("out/{plot}.svg")).is_file(), "{plot}");
    }
}

#[test]
fn unusual_traces_cause_warnings() {
    let bench = bench();
    let warnings = |trace: &str| {
        std::fs::write(bench.path("t"), trace).expect("a trace");
        let command = ["study", "--trace", "t", "--drive", "hp_c2247a", "--json"];
        let study =
            bench.json(&[&command[..], &["--requests", "100", "--utilisation", "0.5"]].concat());
        let warnings = study["warnings"].as_array().expect("warnings").clone();
        let texts = warnings
            .iter()
            .map(|text| text.as_str().expect("text").to_string());
        texts.collect::<Vec<_>>().join("\n")
    };
    let lines = |of: &dyn Fn(u64) -> String| (0..100).map(of).collect::<String>();
    // Nanoseconds where the format has milliseconds.
    let far_apart = warnings(&lines(&|index| {
        format!("{} 0 {} 8 0\n", index * 20_000_000, index * 8)
    }));
    contains(
        &far_apart,
        "The requests come 20000000 ms apart on average. Few disks are asked so rarely: are the times of the trace in the \
         unit of the format disksim-ascii",
    );
    assert!(!far_apart.contains("reaches"), "{far_apart}");
    let usual = warnings(&lines(&|index| {
        format!("{} 0 {} 8 0\n", index * 20, index * 8)
    }));
    assert!(!usual.contains("apart on average"), "{usual}");
    let far_away = warnings(&lines(&|index| {
        format!(
            "{} 0 {} 8 0\n",
            index * 20 + 21 - index % 2 * 21,
            index << 24
        )
    }));
    contains(
        &far_away,
        "The trace reaches 811008 MiB into its device, and the drives have 100",
    );
    contains(&far_away, "50 requests lay before the line above in time");
}

#[test]
fn an_array_is_studied_with_its_parity() {
    let bench = with_skewed_trace();
    // So many requests that blocks are written back.
    let mut long = SMALL;
    long[6] = "6000";
    let raid = ["--disks", "3", "--redundancy", "raid5", "--json"];
    let study = bench.json(&[&long[..], &raid].concat());
    let single = bench.json(&[&long[..], &["--json"]].concat());
    let written = |study: &Value| {
        let case = case(study, "overwrite", true, 1);
        case["written_bytes"].as_f64().expect("bytes")
    };
    let (study, single) = (written(&study), written(&single));
    assert!(
        study > 1.1 * single,
        "parity is written too: {study} and {single} bytes"
    );
    let ran = bench.run(&[&SMALL[..], &["--redundancy", "raid5"]].concat());
    contains(
        &ran.err,
        "--redundancy raid5 takes 3 drives or more; give --disks",
    );
}

#[test]
fn a_store_that_cannot_keep_up_is_saturated() {
    let bench = bench();
    let mut trace = String::from("rw,lba,sectors,arrival_ms\n");
    for index in 0..1500u64 {
        let (rw, lba) = (
            ["R", "W"][usize::from(index % 8 == 0)],
            index * 7919 % 4096 * 8,
        );
        trace += &format!("{rw},{lba},8,{}\n", index as f64 / 10.0);
    }
    std::fs::write(bench.path("fast.csv"), trace).expect("a trace");
    let mut command = vec![
        "study",
        "--trace",
        "fast.csv",
        "--drive",
        "hp_c2247a",
        "--json",
    ];
    command.extend(["--requests", "1500", "--utilisation", "0.9"]);
    let study = bench.json(&command);
    assert_eq!(study["trace"]["requests_per_s"], 10_000.0);
    let case = case(&study, "overwrite", false, 1);
    assert_eq!(case["saturated"], true, "{case}");
    assert_eq!(case["response"], Value::Null);
    assert!(case["requests_per_s"].as_f64() < Some(1000.0), "{case}");
}

#[test]
fn missing_trace_is_an_error() {
    let bench = bench();
    let ran = bench.run(&["study", "--trace", "none.csv", "--drive", "ssd"]);
    assert_eq!(ran.code, Some(1));
    contains(&ran.err, "cannot open the trace none.csv: No such file");
    let ran = bench.run(&["study", "--trace", ".", "--drive", "ssd"]);
    contains(&ran.err, ". is a folder, not a trace");
}

#[test]
fn empty_trace_is_an_error() {
    contains(
        &refused("", &[]),
        "the trace t has no read and no write; is it complete, and is --format right?",
    );
    contains(
        &refused("0,8,4096,w,0.5\n", &["--device", "3"]),
        "the trace t has no read and no write of device 3; it has requests of device 0",
    );
}

#[test]
fn trace_out_of_order_is_reported_with_its_line() {
    let trace = "0,8,4096,w,100.5\n0,8,4096,w,101.5\n0,16,4096,w,1.5\n";
    contains(
        &refused(trace, &[]),
        "t:3: arrives 100.000 s before the line above: are several traces joined here?; sort the lines by their times, \
         or --requests N takes the N requests before it",
    );
}

#[test]
fn truncated_trace_is_an_error() {
    let trace = "0,8,4096,w,0.5\n0,8,4096,w,1.5\n0,16,40";
    let error = refused(trace, &[]);
    contains(&error, "t:3: 4th field");
    contains(
        &error,
        "the file ends within a line, so it may be cut short: copy it again",
    );
    let trace = "0,8,4096,w,0.5\n0,8,4096,w,1.5\n0,16,nonsense,w,3\n";
    let error = refused(trace, &[]);
    contains(&error, "t:3: 3rd field 'nonsense'");
    contains(&error, "is the file of the format spc?");
}

#[test]
fn file_of_unknown_format_is_an_error() {
    contains(
        &refused("hello\nworld\n", &[]),
        "the trace t is of no known format: it begins with 'hello'; `tonearm-lab study --help` shows",
    );
    contains(
        &refused("\x07tae\0\0\0\0", &[]),
        "the trace t is not text; ",
    );
    // The header is that of csv, so its reader reports what is wrong after it.
    contains(
        &refused("rw,lba,sectors,arrival_ms\nW,8,8,-1\n", &[]),
        "t:2: 4th field '-1' is not a time in milliseconds; is the file of the format csv?\n",
    );
    contains(
        &refused("rw,lba,sectors,arrival_ms\n", &[]),
        "the trace t has no read and no write; is it complete",
    );
}

#[test]
fn trace_larger_than_the_drive_is_an_error() {
    // Two requests of 1 GiB on a drive of 1 GB.
    let trace = "rw,lba,sectors,arrival_ms\nW,0,2097152,0\nR,2097152,2097152,1000\n";
    let error = refused(trace, &["--utilisation", "0.5"]);
    contains(
        &error,
        "the trace t touches 2 GiB, which needs 5.10 GiB of each drive at 50 % utilisation, and hp_c2247a has 0.980 GiB; \
         take a larger drive, more --disks, one --device, or a part of the trace (--requests, --for)",
    );
    let trace = "rw,lba,sectors,arrival_ms\nW,0,200000000,0\n";
    contains(
        &refused(trace, &[]),
        "the blocks that the trace t touches up to line 2 have 95.37 GiB, and a study holds at most 64 GiB; take one \
         --device, or a part of the trace (--requests, --for)",
    );
}
