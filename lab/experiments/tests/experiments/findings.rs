//! Figures that a report must contain.

use crate::{quick, run_on};
use tonearm_drive_file::DriveFile;
use tonearm_experiments::{EXPERIMENTS, Finding, Report, Verdict};

fn finding<'a>(report: &'a Report, what: &str) -> &'a Finding {
    let found = report
        .findings
        .iter()
        .find(|finding| finding.what.contains(what));
    found.unwrap_or_else(|| panic!("{}: nothing about '{what}'", report.experiment))
}

fn held(report: &Report, what: &str) {
    let finding = finding(report, what);
    assert_eq!(finding.verdict, Verdict::Held, "{what}: {}", finding.ours);
}

/// As `make lab-check`; known misses are allowed up to their limits.
#[test]
fn quick_runs_miss_no_bound() {
    for experiment in EXPERIMENTS {
        let report = match experiment.name {
            // The other tests run it on one drive.
            "heads" => run_on(None, "heads", 1),
            name => quick(name),
        };
        for finding in &report.findings {
            let (what, ours) = (&finding.what, finding.ours);
            let is_missed = finding.verdict == Verdict::Missed;
            assert!(!is_missed, "{}: {what}: {ours}", experiment.name);
        }
    }
}

#[test]
fn clustered_writes_wait_for_moves_of_the_head() {
    let report = quick("trail-latency");
    for processes in ["one process", "5 processes"] {
        held(&report, &format!("{processes}: sizes of which clustered"));
    }
    let faster = finding(&report, "one process: times faster");
    assert_eq!(faster.paper.as_deref(), Some("up to 11.85"));
    assert!((6.0..11.85).contains(&faster.ours), "{}", faster.ours);
    // A write in place takes a seek and half a turn.
    let table = report.figures[0].table.as_ref().unwrap();
    let in_place: f64 = table.rows[0][7].parse().unwrap();
    assert!((14.0..24.0).contains(&in_place), "{in_place} ms");
}

#[test]
fn unreachable_paper_figures_name_drive_parameters() {
    let report = quick("trail-latency");
    let one = finding(&report, "a write of one sector");
    assert!(
        one.ours > 1.6,
        "the model's least is above the paper's 1.40: {}",
        one.ours
    );
    assert!(one.because.as_ref().unwrap().contains("write_miss_ms"));
    let report = quick("trail-batch");
    for finding in &report.findings {
        assert!(
            finding.because.as_ref().unwrap().contains("read_miss_ms"),
            "{}",
            finding.what
        );
    }
}

#[test]
fn larger_batches_are_faster_down_to_the_drive_limit() {
    let report = quick("trail-batch");
    let table = report.figures[0].table.as_ref().unwrap();
    let column = |index: usize| -> Vec<f64> {
        table
            .rows
            .iter()
            .map(|row| row[index].parse().unwrap())
            .collect()
    };
    let (formula, least) = (column(2), column(6));
    assert_eq!(formula.len(), 6);
    assert!(
        formula.windows(2).all(|pair| pair[0] > pair[1]),
        "{formula:?}"
    );
    assert!(
        formula.iter().zip(&least).all(|(here, least)| here > least),
        "{formula:?} {least:?}"
    );
}

/// Without reads of pages commits come faster than the log takes them.
#[test]
fn tracks_fill_when_commits_wait_for_the_log() {
    let report = quick("trail-utilisation");
    held(&report, "with 4 terminals");
    let rows = &report.figures[0].table.as_ref().unwrap().rows;
    let used = rows.iter().filter(|row| row[1] == "all pages in memory");
    let used: Vec<f64> = used.map(|row| row[3].parse().unwrap()).collect();
    assert!(used.windows(2).all(|pair| pair[0] < pair[1]), "{used:?}");
}

#[test]
fn log_end_search_is_cheap_and_write_back_expensive() {
    let report = quick("trail-recovery");
    held(&report, "100,000 tracks");
    held(&report, "tracks read to find the end");
    held(&report, "time to find the end");
    assert!(finding(&report, "256 pending").ours > 3.5);
}

#[test]
fn the_best_skip_follows_the_platter() {
    let report = quick("mimic-skip");
    let slope = finding(&report, "growth of the best skip").ours;
    assert!((38.0..41.0).contains(&slope), "{slope} KiB/ms");
    let again = finding(&report, "begins anew").ours;
    assert!((5.5..8.4).contains(&again), "{again} ms");
}

#[test]
fn predictors_lose_in_the_order_of_the_paper() {
    let report = quick("mimic-predictors");
    held(&report, "mean losses out of order");
    held(&report, "Disk Mimic: outliers");
    held(&report, "Line Compact: outliers");
    // They are judged by writes after the profile. By the profile itself a compact form would have none.
    let outliers = |name: &str| finding(&report, &format!("{name}: outliers")).ours;
    assert!(outliers("Basic Compact") > 0.0);
    assert!(outliers("Line Fitting") > 0.0);
    assert!(outliers("Coarse Segments") > 0.0);
}

#[test]
fn more_tolerance_takes_less_memory_and_loses_more() {
    let report = quick("mimic-tolerance");
    for panel in &report.figures[0].panels {
        for line in panel.lines.iter().filter(|line| line.points.len() > 2) {
            let (first, last) = (line.points[0].1, line.points[line.points.len() - 1].1);
            assert!(last > first, "{}: {first} to {last}", line.name);
        }
    }
}

#[test]
fn each_log_beats_writing_in_place_and_the_journal() {
    let report = quick("log-latency");
    assert_eq!(report.figures[0].name, "log-latency-today");
    let table = report.figures[1].table.as_ref().unwrap();
    assert_eq!(
        table.rows.len(),
        44,
        "twenty-two drives, one and eight clients"
    );
    for row in table
        .rows
        .iter()
        .filter(|row| DriveFile::of_library(&row[0]).spec.has_head() && row[1] == "8")
    {
        let value = |column: usize| -> f64 { row[column].parse().unwrap() };
        assert!(value(2) < value(5) && value(2) < value(6), "{row:?}");
        assert!(
            value(3) < value(4),
            "a group commit beats one at a time: {row:?}"
        );
    }
}

#[test]
fn every_predictor_is_measured_in_every_scenario() {
    let report = quick("heads");
    assert_eq!(report.figures.len(), 7, "memory, and six scenarios");
    for figure in &report.figures[1..] {
        let table = figure.table.as_ref().unwrap();
        assert_eq!(table.heads.len(), 12, "{}", figure.name);
        let value = |column: usize| -> f64 { table.rows[0][column].parse().unwrap() };
        let columns = |name: &str| table.heads.iter().position(|head| head == name).unwrap();
        // Every table knows the period of the platter; a log without prediction does not.
        if figure.name == "heads-plain" {
            assert!(value(columns("mimic")) < value(columns("sequential")) / 4.0);
        }
    }
}

#[test]
fn store_commits_over_five_times_as_fast_as_a_journal() {
    let report = quick("sqlite");
    for drive in ["st41601n", "sata2tb"] {
        for transaction in ["insert 1 row", "update 1 row", "update 10 rows"] {
            let what =
                format!("{drive}: {transaction}: store, log on a drive of its own, times DELETE");
            held(&report, &what);
        }
    }
    let table = report.figures[0].table.as_ref().unwrap();
    for row in &table.rows {
        let flushes: f64 = row[5].parse().unwrap();
        let (least, most) = match row[2].as_str() {
            // Eleven pages may need the rest of a track and a part of the next one.
            "store, log on a drive of its own" if row[1] == "update 10 rows" => (1.0, 2.0),
            way if way.starts_with("store") => (1.0, 1.1),
            "files, WAL" => (1.0, 1.1),
            // SQLite syncs its journal twice and then the database; TRUNCATE and PERSIST also sync the end of it.
            "files, DELETE" => (3.0, 3.0),
            _ => (4.0, 4.0),
        };
        let rows = &table.rows;
        assert!((least..=most).contains(&flushes), "{row:?} of {rows:#?}");
    }
}

#[test]
fn concurrent_units_write_the_log_of_sequential_ones() {
    let report = quick("aru-overhead");
    for files in ["1 KB", "10 KB"] {
        held(
            &report,
            &format!("{files} files, create and write: log of new"),
        );
        held(&report, &format!("{files} files, delete: log of new"));
    }
    held(&report, "one word of a block: log");
}

#[test]
fn a_second_log_drive_hides_the_moves_of_the_head() {
    let report = quick("trail-drives");
    held(&report, "hp_c3010, a track for each write");
    held(&report, "atlas10k, a track for each write");
    held(&report, "latency against that after a pause");
    held(&report, "writes of one sector");
    // The second drive moves its head before each write, the only drive has no time for it.
    let rows = &report.figures[0].table.as_ref().unwrap().rows;
    for row in rows.iter().filter(|row| row[1] == "a track for each write") {
        let moves: f64 = row[9].parse().unwrap();
        let has_time = row[3] != "1" || row[4] != "1";
        assert_eq!(moves > 0.9, has_time, "{row:?}");
    }
}

#[test]
fn wal_rule_costs_little_and_prevents_database_loss() {
    let report = quick("wal-tpcc");
    held(&report, "B against A");
    held(&report, "C against A");
    held(&report, "B: flushes for 1,000 commits");
    held(&report, "A: cache on, no flush: power cuts");
    for way in ["B: cache on, the rule", "C: cache off"] {
        held(&report, &format!("{way}: power cuts"));
        held(&report, &format!("{way}: records lost"));
    }
    held(&report, "C: cache off: answered transactions lost");
    let cuts = report.figures.last().unwrap().table.as_ref().unwrap();
    let count = |row: usize, column: usize| -> u64 { cuts.rows[row][column].parse().unwrap() };
    assert!(count(0, 1) >= 90, "so many power cuts");
    assert!(
        (3..7).all(|way| count(0, way) > 0),
        "each kind of loss: {:?}",
        cuts.rows[0]
    );
    assert!(count(1, 7) > 0, "a commit of B may be lost");
}

#[test]
fn the_product_loses_nothing_durable_and_flushes_seldom_with_much_memory() {
    let report = quick("wal-product");
    held(&report, "by memory alone: flushes of the log");
    for way in ["default, a flush for each commit", "default, FUA"] {
        held(&report, &format!("{way}: power cuts that take answered"));
        held(
            &report,
            &format!("{way}: power cuts that take what was known"),
        );
    }
    for way in ["ordered, the drive keeps the order", "default"] {
        held(&report, &format!("{way}: power cuts that leave a state"));
        held(&report, &format!("{way}: power cuts after which"));
    }
    let cuts = report.figures.last().unwrap().table.as_ref().unwrap();
    let count = |row: usize, column: usize| -> u64 { cuts.rows[row][column].parse().unwrap() };
    assert!(
        count(1, 5) > 0,
        "a false promise is noticed: {:?}",
        cuts.rows[1]
    );
    assert!(count(2, 3) > 0, "a commit that was not flushed may be lost");
}

#[test]
fn each_known_miss_is_of_an_experiment_and_of_one_reason() {
    let mut seen: Vec<_> = tonearm_experiments::known_misses().collect();
    for (experiment, _) in &seen {
        assert!(
            tonearm_experiments::find(experiment).is_ok(),
            "{experiment}"
        );
    }
    let count = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), count);
}
