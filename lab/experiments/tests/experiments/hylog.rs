//! Findings of HyLog's experiments that also hold in quick runs.

use crate::quick;
use tonearm_experiments::Verdict;

/// Prints all findings, so that a failure shows the others too.
fn all_held(name: &'static str) {
    let report = quick(name);
    for finding in &report.findings {
        let bound = finding
            .bound
            .map_or(String::new(), |bound| bound.to_string());
        println!(
            "{:?} {} {} ({bound})",
            finding.verdict, finding.what, finding.ours
        );
    }
    for figure in &report.figures {
        for row in figure.table.iter().flat_map(|table| &table.rows) {
            println!("{}: {}", figure.name, row.join(" | "));
        }
    }
    let missed = |finding: &&tonearm_experiments::Finding| finding.verdict == Verdict::Missed;
    assert_eq!(report.findings.iter().filter(missed).count(), 0);
}

#[test]
fn the_model_gives_the_numbers_that_the_paper_prints() {
    all_held("hylog-model");
}

#[test]
fn log_cost_matches_the_formulas() {
    all_held("hylog-cleaning");
}

#[test]
fn hylog_rule_follows_the_better_of_both_layouts() {
    all_held("hylog-throughput");
}

#[test]
fn more_users_and_no_parity_help_overwriting() {
    all_held("hylog-array");
}

#[test]
fn simulator_agrees_with_independent_results() {
    all_held("hylog-validation");
}

#[test]
fn long_intervals_of_the_separator_cost_little() {
    all_held("hylog-interval");
}

#[test]
fn financial_gains_more_from_a_log_than_campus() {
    all_held("hylog-traces");
}

#[test]
fn the_separator_decides_rightly_on_newer_drives() {
    all_held("hylog-drives");
}
