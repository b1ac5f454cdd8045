//! The list of experiments, and repeated runs.

use crate::{quick, run};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use tonearm_drive_file::DriveFile;
use tonearm_experiments::{
    Bound, Drives, EXPERIMENTS, Effort, Finding, KnownMiss, LabError, Outcome, Run, Verdict, find,
    number,
};

#[test]
fn the_list_is_complete_and_each_experiment_is_described() {
    let names: BTreeSet<&str> = EXPERIMENTS
        .iter()
        .map(|experiment| experiment.name)
        .collect();
    let expected = BTreeSet::from([
        "aru",
        "head-history",
        "aru-overhead",
        "head-pauses",
        "heads",
        "heads-noise",
        "hylog-array",
        "hylog-cleaning",
        "hylog-drives",
        "hylog-hot-share",
        "hylog-interval",
        "hylog-model",
        "hylog-reads",
        "hylog-throughput",
        "hylog-traces",
        "hylog-validation",
        "log-latency",
        "mimic-policies",
        "mimic-predictors",
        "mimic-skip",
        "mimic-tolerance",
        "read-priority",
        "sqlite",
        "trail-batch",
        "trail-drives",
        "trail-latency",
        "trail-raid5",
        "trail-recovery",
        "trail-residual",
        "trail-tpcc",
        "trail-utilisation",
        "wal-product",
        "wal-sync",
        "wal-tpcc",
    ]);
    assert_eq!(names, expected);
    assert_eq!(EXPERIMENTS.len(), names.len(), "names are unique");
    for experiment in EXPERIMENTS {
        assert!(experiment.title.len() > 15, "{}", experiment.name);
        assert!(experiment.about.len() > 80, "{}", experiment.name);
        assert!(experiment.about.ends_with('.'), "{}", experiment.name);
        assert!(experiment.source.len() > 8, "{}", experiment.name);
        assert!(!experiment.drives.named().is_empty());
    }
}

#[test]
fn report_depends_on_the_seed_and_not_on_threads() {
    let in_pool = |name: &'static str, threads: usize, seed| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| run(name, seed))
    };
    for name in [
        "trail-latency",
        "trail-residual",
        "trail-recovery",
        "mimic-skip",
        "log-latency",
        "sqlite",
    ] {
        let first = quick(name);
        assert_eq!(first, in_pool(name, 1, 1), "{name}: one thread");
        assert_eq!(first, in_pool(name, 2, 1), "{name}: two threads");
        assert_ne!(
            first.findings,
            in_pool(name, 2, 2).findings,
            "{name}: another seed"
        );
    }
}

#[test]
fn progress_ends_with_everything_done() {
    let (done, total) = (AtomicU64::new(0), AtomicU64::new(0));
    let progress = |at: u64, of: u64| {
        done.fetch_max(at, Ordering::Relaxed);
        total.fetch_max(of, Ordering::Relaxed);
    };
    let run = Run {
        drive: None,
        seed: 1,
        effort: Effort::Quick,
        progress: &progress,
    };
    find("trail-batch").unwrap().run(&run).unwrap();
    assert!(total.load(Ordering::Relaxed) >= 6);
    assert_eq!(done.load(Ordering::Relaxed), total.load(Ordering::Relaxed));
}

#[test]
fn a_wrong_name_and_a_drive_without_a_platter_are_refused() {
    let unknown = find("trail-latenzy").map(|experiment| experiment.name);
    assert_eq!(
        unknown.unwrap_err().to_string(),
        "there is no experiment 'trail-latenzy'; `tonearm-lab lab list` shows them all"
    );
    let run = Run {
        drive: Some(DriveFile::of_library("ssd")),
        seed: 1,
        effort: Effort::Quick,
        progress: &|_, _| (),
    };
    for experiment in EXPERIMENTS
        .iter()
        .filter(|known| known.drives != Drives::All)
    {
        let refused = experiment.run(&run);
        assert!(
            matches!(refused, Err(LabError::NeedsPlatter { .. })),
            "{}",
            experiment.name
        );
    }
}

#[test]
fn verdicts_follow_the_bounds() {
    let verdict = |ours: f64, bound| Finding::shown("", ours, "ms").bound(bound).verdict;
    let within = Bound::Within {
        value: 1.40,
        percent: 5.0,
    };
    assert_eq!(verdict(1.46, within), Verdict::Held);
    assert_eq!(verdict(1.34, within), Verdict::Held);
    assert_eq!(verdict(1.48, within), Verdict::Missed);
    assert_eq!(verdict(1.32, within), Verdict::Missed);
    assert_eq!(verdict(0.2, Bound::AtMost(0.2)), Verdict::Held);
    assert_eq!(verdict(0.21, Bound::AtMost(0.2)), Verdict::Missed);
    assert_eq!(verdict(11.85, Bound::AtLeast(11.85)), Verdict::Held);
    assert_eq!(verdict(11.8, Bound::AtLeast(11.85)), Verdict::Missed);
    assert_eq!(Finding::shown("", 1.0, "").verdict, Verdict::Shown);
}

const MISS: &str = "a bound that is missed";

/// A finding of `ours`, of which a known miss is marked.
fn known(ours: f64) -> Finding {
    let mut outcome = Outcome {
        findings: vec![Finding::shown(MISS, ours, "drives").bound(Bound::AtMost(0.0))],
        ..Outcome::default()
    };
    outcome.know("planted", [(MISS, PLANTED)]);
    outcome.findings.remove(0)
}

const PLANTED: KnownMiss = KnownMiss {
    limit: Bound::AtMost(3.0),
    reason: "it is planted",
};

#[test]
fn known_miss_beyond_its_limit_is_a_miss() {
    let within = known(3.0);
    assert_eq!(within.verdict, Verdict::KnownMiss);
    assert_eq!(within.known_miss.unwrap().reason, "it is planted");
    assert!(!within.is_known_miss_no_more());
    assert_eq!(known(3.5).verdict, Verdict::Missed);
    let holds = known(0.0);
    assert_eq!(holds.verdict, Verdict::Held);
    assert!(holds.is_known_miss_no_more());
}

#[test]
fn known_misses_are_those_of_the_own_drives() {
    assert!(find("heads").unwrap().known_misses().count() > 0);
    let findings = quick("heads").findings;
    assert!(findings.iter().all(|finding| finding.known_miss.is_none()));
}

#[test]
#[should_panic(expected = "there is no finding")]
fn known_miss_names_a_finding() {
    Outcome::default().know("planted", [(MISS, PLANTED)]);
}

#[test]
fn partial_outcome_may_lack_known_misses() {
    let mut partial = Outcome {
        is_partial: true,
        ..Outcome::default()
    };
    partial.know("planted", [(MISS, PLANTED)]);
    assert!(partial.findings.is_empty());
}

#[test]
fn the_reasons_of_known_misses_are_sentences() {
    for experiment in EXPERIMENTS {
        for (what, miss) in experiment.known_misses() {
            let is_sentence = miss.reason.len() > 60 && miss.reason.ends_with('.');
            assert!(is_sentence, "{}: {what}", experiment.name);
        }
    }
}

#[test]
fn numbers_have_the_digits_that_a_reader_needs() {
    let cases = [
        (0.0, "0"),
        (0.1234, "0.123"),
        (1.2345, "1.23"),
        (12.345, "12.35"),
        (123.45, "123.5"),
        (12345.6, "12346"),
        (7.0, "7"),
    ];
    for (value, text) in cases {
        assert_eq!(number(value), text);
    }
}
