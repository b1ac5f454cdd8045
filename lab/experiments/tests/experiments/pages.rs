//! Presentation of a report: JSON, SVG and HTML.

use crate::quick;
use minijinja::HtmlEscape;
use serde_json::Value;
use std::collections::BTreeSet;
use tonearm_experiments::{EXPERIMENTS, Report, Verdict, html, markdown, svg};

fn all() -> Vec<Report> {
    EXPERIMENTS
        .iter()
        .map(|experiment| quick(experiment.name))
        .collect()
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

#[test]
fn the_keys_of_the_json_stay() {
    let report = serde_json::to_value(quick("trail-latency")).unwrap();
    let expected = [
        "about",
        "command",
        "drives",
        "experiment",
        "figures",
        "findings",
        "notes",
        "seed",
        "source",
        "title",
    ];
    assert_eq!(keys(&report), BTreeSet::from(expected));
    let finding = [
        "because",
        "bound",
        "known_miss",
        "ours",
        "paper",
        "unit",
        "verdict",
        "what",
    ];
    assert_eq!(keys(&report["findings"][0]), BTreeSet::from(finding));
    let figure = ["caption", "name", "panels", "table", "title"];
    assert_eq!(keys(&report["figures"][0]), BTreeSet::from(figure));
    let panel = &report["figures"][0]["panels"][0];
    assert_eq!(
        keys(panel),
        BTreeSet::from(["legend", "lines", "title", "x", "y"])
    );
    assert_eq!(
        keys(&panel["x"]),
        BTreeSet::from(["label", "log", "max", "names"])
    );
    assert_eq!(
        keys(&panel["lines"][0]),
        BTreeSet::from(["color", "name", "points", "style"])
    );
    let bounds = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| &finding["bound"]);
    let known = ["at-most", "at-least", "within"];
    for bound in bounds.filter(|bound| !bound.is_null()) {
        assert!(keys(bound).iter().all(|key| known.contains(key)), "{bound}");
    }
}

#[test]
fn a_page_is_self_contained() {
    let reports = all();
    let page = html::page(&reports, &vec![1.5; reports.len()]);
    // This is the name of a vocabulary and is not fetched.
    let own = page.replace("http://www.w3.org/2000/svg", "");
    for outside in [
        "http:", "https:", "//", "<script", "<link", "<img", "@import", "src=",
    ] {
        assert!(!own.contains(outside), "the page names {outside}");
    }
    for (at, _) in own.match_indices("url(") {
        assert!(own[at..].starts_with("url(#"), "{}", &own[at..at + 40]);
    }
    let ids: Vec<&str> = own
        .split(" id=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    let unique: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(
        unique.len(),
        ids.len(),
        "names of parts are unique in a page"
    );
    assert!(own.contains("prefers-color-scheme: dark"));
    assert_eq!(page.matches("<section").count(), reports.len());
}

#[test]
fn a_page_shows_all_findings() {
    let reports = all();
    let page = html::page(&reports, &[]);
    let escaped = |text: &str| HtmlEscape(text).to_string();
    for report in &reports {
        assert!(page.contains(&escaped(&report.title)), "{}", report.title);
        assert!(
            page.contains(&escaped(&report.command)),
            "{}",
            report.command
        );
        for finding in &report.findings {
            assert!(page.contains(&escaped(&finding.what)), "{}", finding.what);
        }
        for figure in &report.figures {
            assert!(page.contains(&escaped(&figure.title)), "{}", figure.title);
            for cell in figure
                .table
                .iter()
                .flat_map(|table| table.heads.iter().chain(table.rows.iter().flatten()))
            {
                assert!(page.contains(&escaped(cell)), "{cell}");
            }
        }
        for note in &report.notes {
            assert!(page.contains(&escaped(note)), "{note}");
        }
    }
    let findings = reports.iter().flat_map(|report| &report.findings);
    for (verdict, class) in [
        (Verdict::Missed, "missed"),
        (Verdict::KnownMiss, "known-miss"),
    ] {
        let count = findings.clone().filter(|f| f.verdict == verdict).count();
        let shown = page.matches(&format!("class=\"verdict {class}\"")).count();
        assert_eq!(shown, count, "{class}");
    }
    for miss in findings.filter_map(|finding| finding.known_miss) {
        assert!(page.contains(&escaped(miss.reason)), "{}", miss.reason);
    }
}

#[test]
fn plots_have_labels_units_and_unique_file_names() {
    let mut names = BTreeSet::new();
    for report in all() {
        assert!(!report.figures.is_empty(), "{}", report.experiment);
        for figure in &report.figures {
            assert!(names.insert(figure.name.clone()), "{} twice", figure.name);
            assert!(figure.caption.len() > 30, "{}", figure.name);
            if figure.panels.is_empty() {
                assert!(figure.table.is_some(), "{}", figure.name);
                continue;
            }
            let text = svg::figure(&figure.title, &figure.panels);
            for panel in &figure.panels {
                assert!(!panel.lines.is_empty());
                for axis in [&panel.x, &panel.y] {
                    // A unit after a comma, a counted thing, or names.
                    let counted = [
                        "bytes stored",
                        "tracks",
                        "writes",
                        "batch",
                        "transactions",
                        "times",
                        "users",
                        "terminals",
                    ];
                    let has_unit = axis.label.contains(", ")
                        || counted.iter().any(|word| axis.label.contains(word));
                    assert!(
                        has_unit || !axis.names.is_empty(),
                        "{}: '{}'",
                        figure.name,
                        axis.label
                    );
                    assert!(
                        text.contains(&axis.label),
                        "{}: {}",
                        figure.name,
                        axis.label
                    );
                }
                let named = panel.lines.iter().filter(|line| !line.name.is_empty());
                for line in named {
                    let name = line.name.replace('\'', "&apos;");
                    assert!(text.contains(&name), "{}: {name}", figure.name);
                    assert!(
                        line.points
                            .iter()
                            .all(|(x, y)| x.is_finite() && y.is_finite())
                    );
                }
            }
        }
    }
}

#[test]
fn a_logarithmic_axis_has_no_zero() {
    for report in all() {
        for panel in report.figures.iter().flat_map(|figure| &figure.panels) {
            for (x, y) in panel.lines.iter().flat_map(|line| &line.points) {
                assert!(
                    !panel.x.log || *x > 0.0,
                    "{}: {}",
                    report.experiment,
                    panel.x.label
                );
                assert!(
                    !panel.y.log || *y > 0.0,
                    "{}: {}",
                    report.experiment,
                    panel.y.label
                );
            }
        }
    }
}

/// `docs/results/lab.md` is written by `make lab-docs`. Its figures come from full runs, so only its structure is compared.
#[test]
fn the_page_of_the_documents_is_that_of_these_experiments() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results");
    let page = std::fs::read_to_string(format!("{folder}/lab.md")).unwrap();
    let again = "run `make lab-docs`";
    let now = markdown::page(&all(), "lab");
    let opening = |page: &str| page.split("## Known misses").next().unwrap().to_owned();
    assert_eq!(opening(&page), opening(&now), "text and list: {again}");
    let structure = |page: &str| -> Vec<String> {
        let lines = page
            .lines()
            .filter(|line| line.starts_with('#') || line.starts_with("!["));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(
        structure(&page),
        structure(&now),
        "sections and figures: {again}"
    );
    let mut known = 0;
    for experiment in EXPERIMENTS {
        assert!(
            page.contains(experiment.about),
            "{}: {again}",
            experiment.name
        );
        for (what, miss) in experiment.known_misses() {
            // The finding of a full run is not on the page of a quick one.
            if page.contains(&format!("lab run {} --seed 1 --quick", experiment.name))
                && !page.contains(&format!("\n| {what} |"))
            {
                continue;
            }
            let mut reasons = page.lines().filter_map(|line| line.split_once(". "));
            let place = reasons.find(|(_, reason)| *reason == miss.reason);
            let (place, _) = place.unwrap_or_else(|| panic!("{what}: {again}"));
            let row = format!("{} | {place} |", miss.limit);
            assert!(page.contains(&row), "{what}: {again}");
            known += 1;
        }
    }
    let misses = page.split("## Known misses").nth(1).unwrap();
    let misses = misses.split("\n## ").next().unwrap();
    assert_eq!(
        misses.matches("\n| `").count(),
        known,
        "known misses: {again}"
    );
    let mut figures: Vec<_> = std::fs::read_dir(format!("{folder}/lab"))
        .unwrap()
        .map(|entry| format!("lab/{}", entry.unwrap().file_name().to_str().unwrap()))
        .collect();
    figures.sort();
    for figure in figures {
        assert!(
            page.contains(&format!("]({figure})")),
            "{figure} is shown nowhere: {again}"
        );
    }
}
