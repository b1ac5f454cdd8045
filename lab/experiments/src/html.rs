//! A report as one HTML page that needs nothing else: styles and plots are in it.

use crate::report::{Figure, Finding, Report, Verdict, number};
use crate::svg;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1c2126; --soft: #59636e; --line: #d8dee4; --paper: #fff;
  --held: #11693a; --held-bg: #dafbe1; --missed: #a40e26; --missed-bg: #ffebe9; --wash: #f6f8fa; --link: #0550ae }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9aa4af; --line: #30363d; --paper: #0f1318;
  --held: #7ee2a8; --held-bg: #12301f; --missed: #ffb1af; --missed-bg: #3d1216; --wash: #171c23; --link: #79b8ff }
  .plot svg { filter: invert(0.92) hue-rotate(180deg) } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 2rem 1.25rem 6rem; max-width: 76rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem }
h2 { font-size: 1.45rem; margin: 3.5rem 0 .2rem; padding-top: 1rem; border-top: 1px solid var(--line) }
h3 { font-size: 1.08rem; margin: 2rem 0 .3rem }
p { max-width: 48rem; margin: .4rem 0 }
a { color: var(--link); text-decoration: none } a:hover { text-decoration: underline }
.soft { color: var(--soft); font-size: .92rem }
code { font: .88em/1.4 ui-monospace, 'DejaVu Sans Mono', Menlo, monospace; background: var(--wash);
  padding: .15em .4em; border-radius: 4px }
.scroll { overflow-x: auto }
table { border-collapse: collapse; margin: .8rem 0; font-variant-numeric: tabular-nums; font-size: .93rem }
th { text-align: left; font-weight: 600; border-bottom: 2px solid var(--line); vertical-align: bottom }
th, td { padding: .35rem .9rem .35rem 0 } td { border-bottom: 1px solid var(--line); vertical-align: top }
td.n, th.n { text-align: right }
.verdict { display: inline-block; padding: 0 .55em; border-radius: 1em; font-size: .85em; font-weight: 600 }
.held { color: var(--held); background: var(--held-bg) } .missed { color: var(--missed); background: var(--missed-bg) }
.plot { margin: .8rem 0 } .plot svg { max-width: 100%; height: auto; border-radius: 6px }
figure { margin: 0 } figcaption { color: var(--soft); font-size: .92rem; max-width: 48rem }
ul { padding-left: 1.2rem; max-width: 48rem } li { margin: .2rem 0 }
";

/// The page of these reports. `took` gives the seconds of each, where they are known.
pub fn page(reports: &[Report], took: &[f64]) -> String {
    let held = |verdict| {
        let findings = reports.iter().flat_map(|report| &report.findings);
        findings.filter(|f| f.verdict == verdict).count()
    };
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Tonearm lab" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { "Tonearm lab" }
                p {
                    "Experiments on simulated drives, in virtual time, beside the figures of the papers. "
                    (held(Verdict::Held)) " bounds held, " (held(Verdict::Missed)) " missed."
                }
                (contents(reports, took))
                @for report in reports { (section(report)) }
            }
        }
    }
    .into_string()
}

fn contents(reports: &[Report], took: &[f64]) -> Markup {
    html! {
        div.scroll { table {
            thead { tr {
                th { "experiment" } th { "shows" } th { "after" } th.n { "held" } th.n { "missed" }
                @if !took.is_empty() { th.n { "time, s" } }
            } }
            tbody {
                @for (index, report) in reports.iter().enumerate() {
                    @let count = |verdict| report.findings.iter().filter(|f| f.verdict == verdict).count();
                    tr {
                        td { a href={ "#" (report.experiment) } { (report.experiment) } }
                        td { (report.title) }
                        td { (report.source) }
                        td.n { (count(Verdict::Held)) }
                        td.n { (count(Verdict::Missed)) }
                        @if let Some(seconds) = took.get(index) { td.n { (format!("{seconds:.1}")) } }
                    }
                }
            }
        } }
    }
}

fn section(report: &Report) -> Markup {
    html! {
        section id=(report.experiment) {
            h2 { (report.title) }
            p.soft {
                (report.source) ". Drive" @if report.drives.len() > 1 { "s" } ": "
                (report.drives.join(", ")) ". " code { (report.command) }
            }
            p { (report.about) }
            @if !report.findings.is_empty() { (findings(&report.findings)) }
            @for figure in &report.figures { (show(figure)) }
            @if !report.notes.is_empty() {
                h3 { "Notes" }
                ul { @for note in &report.notes { li { (note) } } }
            }
        }
    }
}

fn findings(findings: &[Finding]) -> Markup {
    html! {
        div.scroll { table {
            thead { tr {
                th { "what" } th.n { "paper" } th.n { "here" } th { "unit" } th { "demanded" } th { "" } th { "" }
            } }
            tbody {
                @for finding in findings {
                    tr {
                        td { (finding.what) }
                        td.n { (finding.paper.as_deref().unwrap_or("")) }
                        td.n { strong { (number(finding.ours)) } }
                        td { (finding.unit) }
                        td { @if let Some(bound) = finding.bound { (bound.to_string()) } }
                        td { (verdict(finding.verdict)) }
                        td.soft { (finding.because.as_deref().unwrap_or("")) }
                    }
                }
            }
        } }
    }
}

fn verdict(verdict: Verdict) -> Markup {
    let class = match verdict {
        Verdict::Shown => return html! {},
        Verdict::Held => "verdict held",
        Verdict::Missed => "verdict missed",
    };
    html! { span class=(class) { (verdict.to_string()) } }
}

fn show(figure: &Figure) -> Markup {
    html! {
        figure {
            h3 { (figure.title) }
            @if !figure.panels.is_empty() {
                div.plot { (PreEscaped(inline(figure))) }
            }
            figcaption { (figure.caption) }
            @if let Some(table) = &figure.table {
                div.scroll { table {
                    thead { tr {
                        @for (index, head) in table.heads.iter().enumerate() {
                            th.n[index > 0] { (head) }
                        }
                    } }
                    tbody {
                        @for row in &table.rows {
                            tr { @for (index, cell) in row.iter().enumerate() { td.n[index > 0] { (cell) } } }
                        }
                    }
                } }
            }
        }
    }
}

/// The plots of `figure`, with a box of their own size so that the page can shrink them, and with names of their
/// parts that no other figure has.
fn inline(figure: &Figure) -> String {
    let text = svg::figure(&figure.title, &figure.panels)
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
