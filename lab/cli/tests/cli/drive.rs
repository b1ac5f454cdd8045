//! Simulated drives from the command line: traces, output, and errors in both.

use crate::common::{Bench, bench, contains};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// Twenty requests over the range of the smallest drives, 10 ms apart.
fn ascii() -> String {
    let line = |n: u64| {
        let sector = n * 7_919 * 613 % 2_000_000;
        format!("{}.5 0 {sector} 8 {}\n", n * 10, n % 2)
    };
    (0..20).map(line).collect()
}

/// Rows of a replay's output: arrival, lba, sectors, rw, response; times in nanoseconds.
fn answer(bench: &Bench, name: &str) -> Vec<(u64, u64, u32, String, u64)> {
    let text = std::fs::read_to_string(bench.path(name)).expect("the answer");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("arrival_ms,lba,sectors,rw,response_ms"));
    let nanos = |ms: &str| (ms.parse::<f64>().expect("a number") * 1e6).round() as u64;
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields.len(), 5, "{line}");
        (
            nanos(fields[0]),
            fields[1].parse().expect("a number"),
            fields[2].parse().expect("a number"),
            fields[3].to_string(),
            nanos(fields[4]),
        )
    };
    lines.map(row).collect()
}

fn replay<'a>(drive: &'a str, trace: &'a str, format: &'a str, out: &'a str) -> Vec<&'a str> {
    let command = ["drive", "replay", "--drive", drive, "--trace", trace];
    [&command[..], &["--format", format, "--out", out]].concat()
}

#[test]
fn the_library_is_listed() {
    let bench = bench();
    let list = bench.json(&["drive", "list", "--json"]);
    let names: Vec<&str> = list
        .as_array()
        .expect("an array")
        .iter()
        .map(|drive| drive["name"].as_str().expect("a name"))
        .collect();
    for name in [
        "atlas10k",
        "atlas_III",
        "st41601n",
        "cheetah4LP",
        "cheetah9LP",
        "barracuda",
        "hp_c2247a",
        "hp_c2490a",
        "hp_c3010",
        "hp_c3323a",
        "dec_rz26",
        "ibm18es",
    ] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    contains(&bench.ok(&["drive", "list"]), "Quantum Atlas 10K");
}

#[test]
fn every_drive_of_the_library_can_be_shown() {
    let bench = bench();
    let list = bench.json(&["drive", "list", "--json"]);
    for drive in list.as_array().expect("an array") {
        let name = drive["name"].as_str().expect("a name");
        let text = bench.ok(&["drive", "show", name]);
        contains(&text, drive["title"].as_str().expect("a title"));
        contains(&text, "where the figures come from");
        if drive["rpm"].is_number() {
            contains(&text, "sectors/track");
        }
    }
}

#[test]
fn a_drive_is_drawn_as_a_complete_svg_file() {
    let bench = bench();
    bench.ok(&["drive", "show", "cheetah9LP", "--plot", "drive.svg"]);
    let svg = std::fs::read_to_string(bench.path("drive.svg")).expect("the plot");
    for text in [
        "<svg xmlns=",
        "</svg>",
        "distance, cylinders",
        "time, ms",
        "sectors per track",
        "Seagate Cheetah 9LP",
    ] {
        contains(&svg, text);
    }
    assert!(!svg.contains("href="), "nothing is loaded from elsewhere");
}

#[test]
fn a_file_of_ones_own_is_a_drive() {
    let bench = bench();
    let shown = bench.json(&["drive", "show", "atlas10k", "--json"]);
    assert_eq!(shown["disk"]["rotation"]["rpm"], 10025);
    let file = toml::to_string(&shown).expect("the drive's file");
    std::fs::write(bench.path("mine.toml"), &file).expect("written");
    contains(&bench.ok(&["drive", "show", "mine.toml"]), "Atlas 10K");
    let wrong = file.replace("rpm = 10025", "rpm = -1");
    assert_ne!(wrong, file);
    std::fs::write(bench.path("wrong.toml"), wrong).expect("written");
    let error = bench.fails(&["drive", "show", "wrong.toml"]);
    contains(&error, "wrong.toml: ");
    contains(&error, "rpm");
}

#[test]
fn an_unknown_drive_is_answered_with_the_known_ones() {
    let bench = bench();
    let error = bench.fails(&["drive", "show", "atlas9k"]);
    contains(&error, "there is no drive 'atlas9k'");
    contains(&error, "atlas10k");
    contains(
        &bench.fails(&["drive", "show", "missing.toml"]),
        "cannot read the drive's file missing.toml",
    );
}

#[test]
fn an_open_trace_is_replayed_at_its_times() {
    let bench = bench();
    std::fs::write(bench.path("t"), ascii()).expect("written");
    let mut arguments = replay("hp_c2247a", "t", "disksim-ascii", "out.csv");
    arguments.push("--json");
    let summary = bench.json(&arguments);
    let rows = answer(&bench, "out.csv");
    assert_eq!(rows.len(), 20);
    assert_eq!(rows[3].0, 30_500_000);
    assert_eq!((rows[3].2, rows[3].3.as_str()), (8, "R"));
    let mean = rows.iter().map(|row| row.4 as f64 / 1e6).sum::<f64>() / 20.0;
    let reported = summary["mean_response_ms"].as_f64().expect("a number");
    assert!((mean - reported).abs() < 1e-6, "{mean} {reported}");
    let longest = rows.iter().map(|row| row.4).max().expect("rows") as f64 / 1e6;
    let p99 = summary["p99_response_ms"].as_f64().expect("a number");
    assert!((p99 / longest - 1.0).abs() < 0.01, "{p99} {longest}");
    assert_eq!(
        (&summary["reads"], &summary["writes"]),
        (&10.into(), &10.into())
    );
    assert_eq!(bench.files(), ["out.csv", "t"], "nothing else is left");
}

#[test]
fn replay_is_deterministic_and_its_output_is_a_trace() {
    let bench = bench();
    std::fs::write(bench.path("t"), ascii()).expect("written");
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(ascii().as_bytes()).expect("packed");
    std::fs::write(bench.path("t.gz"), packed.finish().expect("packed")).expect("written");
    bench.ok(&replay("atlas10k", "t", "disksim-ascii", "1.csv"));
    bench.ok(&replay("atlas10k", "t.gz", "disksim-ascii", "2.csv"));
    bench.ok(&replay("atlas10k", "1.csv", "csv", "3.csv"));
    let read = |name| std::fs::read(bench.path(name)).expect("the answer");
    assert_eq!(read("1.csv"), read("2.csv"));
    assert_eq!(read("1.csv"), read("3.csv"));
    let text = bench.ok(&replay("atlas10k", "t", "disksim-ascii", "-"));
    assert_eq!(text.as_bytes(), read("1.csv"));
}

#[test]
fn a_closed_loop_continues_after_each_answer() {
    let bench = bench();
    let trace = "R Miss 100 8 5000.0 2500.0\nW Miss 900000 8 5000.0 0.0\nR Miss 7 1 1.0 1.0\n";
    std::fs::write(bench.path("t"), trace).expect("written");
    bench.ok(&replay("hp_c2247a", "t", "disksim-valid", "out.csv"));
    let rows = answer(&bench, "out.csv");
    assert_eq!(rows[0].0, 0);
    assert_eq!(rows[1].0, rows[0].4 + 2_500_000);
    assert_eq!(rows[2].0, rows[1].0 + rows[1].4);
}

#[test]
fn schedulers_change_the_answer_of_a_queue() {
    let bench = bench();
    let line = |n: u64| format!("{} 0 {} 8 1\n", n / 10, n * 7_919_613 % 17_000_000);
    let burst: String = (0..200).map(line).collect();
    std::fs::write(bench.path("t"), burst).expect("written");
    let mean = |scheduler: &str| {
        let mut arguments = replay("atlas10k", "t", "disksim-ascii", "out.csv");
        arguments.extend(["--scheduler", scheduler, "--json"]);
        let summary = bench.json(&arguments);
        assert_eq!(summary["scheduler"], scheduler);
        summary["mean_response_ms"].as_f64().expect("a number")
    };
    let (fcfs, sptf) = (mean("fcfs"), mean("sptf"));
    assert!(sptf < fcfs / 2.0, "{sptf} {fcfs}");
    let ran = bench.run(
        &[
            &replay("atlas10k", "t", "spc", "o")[..],
            &["--scheduler", "best"],
        ]
        .concat(),
    );
    assert_eq!(ran.code, Some(2));
    contains(&ran.err, "sptf");
}

#[test]
fn bad_line_is_reported_and_leaves_no_output() {
    let bench = bench();
    std::fs::write(bench.path("t"), "0,1,4096,r,0.0\n0,1,4096,x,0.1\n").expect("written");
    assert_eq!(
        bench.fails(&replay("atlas10k", "t", "spc", "out.csv")),
        "t:2: 4th field 'x' is not r or w"
    );
    assert_eq!(bench.files(), ["t"]);
    std::fs::write(bench.path("out.csv"), "precious").expect("written");
    bench.fails(&replay("atlas10k", "t", "spc", "out.csv"));
    let kept = std::fs::read_to_string(bench.path("out.csv")).expect("the file");
    assert_eq!(kept, "precious", "an answer that was there stays");
    contains(
        &bench.fails(&replay("atlas10k", "missing", "spc", "o")),
        "cannot open the trace missing",
    );
}

#[test]
fn requests_beyond_the_end_are_refused_or_folded() {
    let bench = bench();
    let sectors = bench.json(&["drive", "list", "--json"])[0]["sectors"]
        .as_u64()
        .expect("a number");
    let name = bench.json(&["drive", "list", "--json"])[0]["name"].clone();
    let name = name.as_str().expect("a name");
    let trace = format!(
        "1 0 {} 8 1\n2 0 {} 8 1\n3 0 {} 8 1\n",
        sectors - 8,
        sectors - 7,
        3 * sectors + 5
    );
    std::fs::write(bench.path("t"), trace).expect("written");
    let mut arguments = replay(name, "t", "disksim-ascii", "out.csv");
    let error = bench.fails(&arguments);
    contains(
        &error,
        &format!("t:2: sectors {} to {sectors} lie beyond", sectors - 7),
    );
    contains(&error, "--wrap");
    arguments.push("--wrap");
    bench.ok(&arguments);
    let places: Vec<u64> = answer(&bench, "out.csv").iter().map(|row| row.1).collect();
    assert_eq!(places, [sectors - 8, sectors - 8, 5]);
}

#[test]
fn a_trace_of_a_served_store_is_replayed_and_described() {
    let bench = bench();
    // Lines as `tonearm trace record` writes them.
    let trace = "\
# tonearm trace record, version 0.1.0: all volumes of store 0, \"disk.tn\"
arrival_ms,device,rw,lba,sectors,fua,response_ms
# device 0: volume \"main\"
0.250000,0,W,8192,8,0,0.098765
500.000000,0,F,0,0,0,1.250000
# device 1: volume \"b\"
1000.000000,1,W,0,1,1,2.000000
2000.000000,0,T,0,2097152,0,0.010000
3000.000000,0,R,8192,8,0,0.050000
# end after 4.000 s: 5 requests; 0 lost; 0 left out, answered with an error
";
    std::fs::write(bench.path("t"), trace).expect("written");
    let mut arguments = replay("atlas10k", "t", "csv", "out.csv");
    arguments.extend(["--device", "0"]);
    bench.ok(&arguments);
    let rows = answer(&bench, "out.csv");
    let kinds: Vec<_> = rows
        .iter()
        .map(|row| (row.0, row.1, row.3.as_str()))
        .collect();
    assert_eq!(
        kinds,
        [
            (250_000, 8192, "W"),
            (500_000_000, 0, "F"),
            (3_000_000_000, 8192, "R")
        ]
    );
    let figures = bench.json(&["workload", "trace", "t", "--format", "csv", "--json"]);
    assert_eq!(figures["pages"], 2, "{figures}");
    // The flush and the trim.
    assert_eq!(figures["skipped"], 2, "{figures}");
}

#[test]
fn one_device_of_a_trace_can_be_chosen() {
    let bench = bench();
    let trace = "\
8,0 0 1 1.000000000 1 Q R 1000 + 8 [dd]
8,16 0 1 1.000000000 1 Q W 2000 + 8 [dd]
8,16 0 2 1.500000000 1 Q FWS [dd]
";
    std::fs::write(bench.path("t"), trace).expect("written");
    let mut arguments = replay("atlas10k", "t", "blkparse", "out.csv");
    arguments.extend(["--device", "8,16"]);
    bench.ok(&arguments);
    let rows = answer(&bench, "out.csv");
    let kinds: Vec<(u64, &str)> = rows.iter().map(|row| (row.1, row.3.as_str())).collect();
    assert_eq!(kinds, [(2000, "W"), (0, "F")]);
}

#[test]
fn a_shift_of_all_answers_is_the_demerit() {
    let bench = bench();
    let valid: String = (0..40u64)
        .map(|n| {
            format!(
                "{} Miss {} 8 0 {}\n",
                ["R", "W"][n as usize % 2],
                n * 50_021,
                n * 100
            )
        })
        .collect();
    std::fs::write(bench.path("t"), valid).expect("written");
    bench.ok(&replay("hp_c2247a", "t", "disksim-valid", "out.csv"));
    // The measured times: the same, and a quarter of a millisecond more for each read.
    let mut measured = "rw,blkno,blocks,measured_ms,think_ms_before_next\n".to_string();
    for (n, (_, lba, sectors, rw, response)) in answer(&bench, "out.csv").into_iter().enumerate() {
        let more = if rw == "R" { 250_000 } else { 0 };
        let (ms, think) = ((response + more) as f64 / 1e6, n as f64 / 10.0);
        measured.push_str(&format!("{rw},{lba},{sectors},{ms:.6},{think:.1}\n"));
    }
    std::fs::write(bench.path("m.csv"), measured).expect("written");
    let command = [
        "drive",
        "validate",
        "--drive",
        "hp_c2247a",
        "--measured",
        "m.csv",
    ];
    let report = bench.json(&[&command[..], &["--json", "--plot", "fit.svg"]].concat());
    let near = |value: &serde_json::Value, expected: f64| {
        let value = value.as_f64().expect("a number");
        assert!((value - expected).abs() < 1e-6, "{value} {expected}");
    };
    near(&report["reads"]["demerit_ms"], 0.25);
    near(&report["reads"]["per_request_rms_ms"], 0.25);
    near(&report["writes"]["demerit_ms"], 0.0);
    near(&report["per_request_rms_ms"], (0.0625f64 / 2.0).sqrt());
    assert_eq!(report["requests"], 40);
    for part in [&report, &report["reads"], &report["writes"]] {
        for key in ["demerit_percent", "measured_mean_ms", "simulated_mean_ms"] {
            assert!(part[key].is_number(), "{key}");
        }
    }
    let svg = std::fs::read_to_string(bench.path("fit.svg")).expect("the plot");
    for text in [
        "measured",
        "simulated",
        "response time, ms",
        "Reads",
        "Writes",
    ] {
        contains(&svg, text);
    }
    contains(&bench.ok(&command), "per-request RMS ms");
}

#[test]
fn a_trace_without_measured_times_cannot_be_compared() {
    let bench = bench();
    std::fs::write(bench.path("t"), ascii()).expect("written");
    let command = [
        "drive",
        "validate",
        "--drive",
        "atlas10k",
        "--measured",
        "t",
    ];
    let arguments = [&command[..], &["--format", "disksim-ascii"]].concat();
    assert_eq!(
        bench.fails(&arguments),
        "t:1: there is no measured response time"
    );
    std::fs::write(
        bench.path("t"),
        "rw,blkno,blocks,measured_ms,think_ms_before_next\n",
    )
    .expect("written");
    assert_eq!(bench.fails(&command), "t has no requests");
}

#[test]
fn the_simulation_reports_its_own_speed() {
    let bench = bench();
    let command = [
        "drive",
        "bench",
        "--drive",
        "atlas10k",
        "--requests",
        "20000",
        "--json",
    ];
    let report = bench.json(&command);
    assert_eq!(report["depth"], 1);
    assert!(
        report["requests_per_cpu_second"]
            .as_f64()
            .expect("a number")
            > 0.0
    );
    let queued = bench.json(&[&command[..], &["--scheduler", "sptf", "--reads", "67"]].concat());
    assert_eq!(queued["depth"], 32);
    let again = bench.json(&command);
    assert_eq!(
        report["virtual_seconds"], again["virtual_seconds"],
        "the same work again"
    );
}

#[test]
fn each_drive_command_teaches_by_example() {
    let bench = bench();
    for command in ["list", "show", "bench", "replay", "validate", "deltas"] {
        let help = bench.ok(&["drive", command, "--help"]);
        contains(&help, &format!("  tonearm-lab drive {command}"));
    }
    contains(&bench.ok(&["drive", "replay", "--help"]), "blkparse");
}

#[test]
fn deltas_are_printed_as_a_section_of_a_drive_file() {
    let bench = bench();
    for name in ["st41601n", "mimic80"] {
        let section = bench.ok(&["drive", "deltas", name]);
        let file = bench.json(&["drive", "show", name, "--json"]);
        let found: toml::Table = section.parse().expect("TOML");
        let found = serde_json::to_value(found).expect("JSON");
        assert_eq!(found["disk"]["deltas"], file["disk"]["deltas"]);
    }
    contains(&bench.fails(&["drive", "deltas", "ssd"]), "no request");
}
