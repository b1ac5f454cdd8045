//! The results of all experiments as one page of Markdown: `docs/results/lab.md`.

use crate::report::{Bound, Report, number};
use minijinja::value::Serde;
use minijinja::{Environment, context};

/// The page of these reports. `folder` is the place of their figures, seen from the page.
///
/// # Panics
/// When the template of the page does not fit a report.
pub fn page(reports: &[Report], folder: &str) -> String {
    let mut pages = Environment::new();
    pages.add_filter("number", number);
    pages.add_filter("bound", |bound: Serde<Bound>| bound.to_string());
    pages.add_filter("cell", |text: &str| text.replace('|', "\\|"));
    let findings: Vec<_> = reports.iter().flat_map(|report| &report.findings).collect();
    let misses = findings.iter().filter_map(|finding| finding.known_miss);
    let mut reasons: Vec<&'static str> = Vec::new();
    for miss in misses {
        if !reasons.contains(&miss.reason) {
            reasons.push(miss.reason);
        }
    }
    let places = reasons.clone();
    pages.add_filter("place", move |reason: &str| {
        let index = places.iter().position(|other| *other == reason);
        index.map(|index| index + 1)
    });
    let content = context! {
        reports => Serde(reports),
        findings => Serde(findings),
        reasons,
        folder => folder,
    };
    let page = pages
        .add_template("page.md", include_str!("page.md"))
        .and_then(|()| pages.get_template("page.md"))
        .and_then(|page| page.render(content))
        .expect("the template fits a report");
    format!("{}\n", page.trim_end())
}
