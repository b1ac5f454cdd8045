//! A report as one self-contained HTML page, with its styles and plots.

use crate::report::{Bound, Figure, Report, number};
use crate::svg;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, context};

/// The page of these reports. `took` gives the seconds of each, where they are known.
///
/// # Panics
/// When the template of the page does not fit a report.
pub fn page(reports: &[Report], took: &[f64]) -> String {
    let findings: Vec<_> = reports.iter().flat_map(|report| &report.findings).collect();
    let content = context! {
        reports => Serde(reports),
        findings => Serde(findings),
        took => Serde(took),
    };
    render("page.html", include_str!("page.html"), content)
}

/// Renders the template `text` after the macros that all pages share.
pub(crate) fn render(name: &str, text: &str, content: Value) -> String {
    let mut pages = Environment::new();
    pages.add_filter("number", number);
    pages.add_filter("bound", |bound: Serde<Bound>| bound.to_string());
    pages.add_filter("plot", |figure: Serde<Figure>| inline(&figure));
    let text = format!("{}{text}", include_str!("common.html"));
    pages
        .add_template_owned(name.to_string(), text)
        .and_then(|()| pages.get_template(name))
        .and_then(|page| page.render(content))
        .expect("the template fits its content")
}

/// The plots of `figure`, without its title, which the page has above it; with a box of their own size so that the page can shrink them, and with ids that no other
/// figure has.
fn inline(figure: &Figure) -> String {
    let text = svg::figure("", &figure.panels)
        .replace(" id=\"", &format!(" id=\"{}-", figure.name))
        .replace("url(#", &format!("url(#{}-", figure.name));
    let size = |name: &str| {
        let rest = text.split_once(&format!("{name}=\""))?.1;
        rest.split_once('"').map(|(value, _)| value.to_owned())
    };
    match (size("width"), size("height")) {
        (Some(width), Some(height)) => text.replacen(
            "<svg ",
            &format!("<svg role=\"img\" viewBox=\"0 0 {width} {height}\" "),
            1,
        ),
        _ => text,
    }
}
