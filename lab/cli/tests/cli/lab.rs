//! Experiments from the command line: lists, figures, reports, and wrong requests.

use crate::common::{bench, contains};

#[test]
fn experiments_are_listed_with_what_they_show() {
    let bench = bench();
    let list = bench.json(&["lab", "list", "--json"]);
    let list = list.as_array().expect("an array");
    assert!(list.len() >= 11);
    for row in list {
        for key in ["name", "title", "source", "about"] {
            let text = row[key].as_str().expect("a text");
            assert!(!text.is_empty(), "{row}");
        }
    }
    let text = bench.ok(&["lab", "list"]);
    assert!(
        text.contains("trail-latency") && text.contains("Figure 3"),
        "{text}"
    );
}

#[test]
fn a_run_prints_its_findings_and_writes_a_report() {
    let bench = bench();
    let text = bench.ok(&[
        "lab",
        "run",
        "trail-batch",
        "trail-recovery",
        "--quick",
        "--report",
        "out",
    ]);
    for word in ["129.9", "100,000 tracks", "held", "report: out/index.html"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let page = std::fs::read_to_string(bench.path("out/index.html")).expect("the report");
    assert!(page.contains("Table 1") && page.contains("<svg"));
    for figure in ["trail-batch", "trail-recovery", "trail-search"] {
        let svg = std::fs::read_to_string(bench.path(&format!("out/{figure}.svg")));
        assert!(svg.expect("a figure").starts_with("<svg"), "{figure}");
    }
}

#[test]
fn the_same_seed_gives_the_same_json() {
    let bench = bench();
    let run = |seed| {
        bench.json(&[
            "lab",
            "run",
            "trail-residual",
            "--quick",
            "--json",
            "--seed",
            seed,
        ])
    };
    let first = run("7");
    assert_eq!(first, run("7"));
    assert_ne!(first, run("8"));
    assert_eq!(first[0]["seed"], 7);
    assert_eq!(first[0]["drives"][0], "st41601n");
}

#[test]
fn one_of_several_quick_experiments_runs_in_full() {
    let bench = bench();
    let both = [
        "lab",
        "run",
        "trail-recovery",
        "trail-batch",
        "--quick",
        "--json",
    ];
    let reports = bench.json(&[&both[..], &["--in-full", "trail-batch"]].concat());
    let command = |at: usize| {
        reports[at]["command"]
            .as_str()
            .expect("a command")
            .to_string()
    };
    assert!(command(0).ends_with("--quick"), "{}", command(0));
    assert!(!command(1).contains("--quick"), "{}", command(1));
    let stderr = bench.fails(&[&both[..], &["--in-full", "trail-bath"]].concat());
    contains(&stderr, "there is no experiment 'trail-bath'");
    // Without --quick all are in full.
    let alone = bench.run(&["lab", "run", "trail-batch", "--in-full", "trail-batch"]);
    assert_eq!(alone.code, Some(2));
}

#[test]
fn a_drive_can_be_chosen_by_name_or_file() {
    let bench = bench();
    let run = |drive: &str| {
        bench.json(&[
            "lab",
            "run",
            "log-latency",
            "--drive",
            drive,
            "--quick",
            "--json",
        ])
    };
    let known = run("mimic80");
    assert_eq!(known[0]["drives"].as_array().map(Vec::len), Some(1));
    let file = format!("{}/../drives/mimic80.toml", env!("CARGO_MANIFEST_DIR"));
    std::fs::copy(file, bench.path("mine.toml")).expect("a copy");
    let own = run("./mine.toml");
    assert_eq!(
        own[0]["figures"][0]["panels"][0]["lines"],
        known[0]["figures"][0]["panels"][0]["lines"]
    );
}

#[test]
fn check_fails_for_missed_bounds_but_not_known_misses() {
    let bench = bench();
    // The parameters of the drive do not allow the paper's table.
    let known = bench.ok(&["lab", "run", "trail-batch", "--quick", "--check"]);
    contains(&known, "0 bounds held, 6 known misses, 0 missed");
    contains(&known, "known miss, limit 152.5 ± 2 %: On the model");
    // Known misses are those of the experiment's own drive.
    let run = [
        "lab",
        "run",
        "trail-batch",
        "--quick",
        "--drive",
        "st41601n",
    ];
    bench.ok(&run);
    let failed = bench.run(&[&run[..], &["--check"]].concat());
    assert_eq!(failed.code, Some(1));
    contains(&failed.out, "0 known misses, 6 missed");
}

#[test]
fn the_cost_of_a_prediction_is_timed_for_each_predictor() {
    let bench = bench();
    let costs = bench.json(&["lab", "cost", "--json"]);
    let costs = costs.as_array().expect("an array");
    assert_eq!(costs.len(), 4);
    for cost in costs {
        for key in ["prediction_ns", "learning_ns"] {
            let ns = cost[key].as_f64().expect("a number");
            assert!(ns > 0.0 && ns < 1e6, "{cost}");
        }
        let is_fast = cost["prediction_ns"].as_f64() < Some(1_000.0);
        assert_eq!(cost["verdict"] == "held", is_fast, "{cost}");
    }
    contains(&bench.ok(&["lab", "cost"]), "Trail 3.1: under 1000 ns");
    contains(
        &bench.fails(&["lab", "cost", "--drive", "ssd"]),
        "ssd has no head that can be followed",
    );
}

#[test]
fn markdown_page_shows_results_and_links_figures() {
    let bench = bench();
    let run = [
        "lab",
        "run",
        "trail-recovery",
        "--quick",
        "--markdown",
        "page.md",
    ];
    assert_eq!(bench.run(&run).code, Some(2), "it needs --report");
    bench.ok(&[&run[..], &["--report", "figures"]].concat());
    let page = std::fs::read_to_string(bench.path("page.md")).expect("a page");
    contains(&page, "## trail-recovery\n");
    contains(&page, "](figures/trail-search.svg)");
}

#[test]
fn wrong_names_and_drives_are_reported() {
    let bench = bench();
    contains(
        &bench.fails(&["lab", "run", "trail-latenzy"]),
        "there is no experiment 'trail-latenzy'; `tonearm-lab lab list` shows them all",
    );
    contains(
        &bench.fails(&["lab", "run", "trail-batch", "--drive", "st41601"]),
        "there is no drive 'st41601'",
    );
    contains(
        &bench.fails(&["lab", "run", "trail-batch", "--drive", "ssd"]),
        "experiment trail-batch needs a drive that turns and writes in place, and ssd is none",
    );
}

#[test]
fn missing_experiment_is_reported_with_a_build_command() {
    let bench = bench();
    let list = bench.ok(&["lab", "list"]);
    let run = ["lab", "run", "sqlite", "--quick"];
    // It is included when the whole workspace is tested.
    if list.contains("Durable commits of SQLite") {
        bench.ok(&run);
    } else {
        contains(
            &bench.fails(&run),
            "cargo build --release -p tonearm-lab --features sqlite",
        );
    }
}
