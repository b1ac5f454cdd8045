//! A report as one self-contained HTML page, with its styles and plots.

use crate::report::{Figure, Finding, Report, Verdict, number};
use crate::svg;

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
    let count = |verdict| -> usize { reports.iter().map(|report| count(report, verdict)).sum() };
    let (held, missed) = (count(Verdict::Held), count(Verdict::Missed));
    let contents = contents(reports, took);
    let sections: String = reports.iter().map(section).collect();
    format!(
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>Tonearm lab</title><style>{STYLE}</style></head>\
         <body><h1>Tonearm lab</h1>\
         <p>Experiments on simulated drives, in virtual time, beside the figures of the papers. \
         {held} bounds held, {missed} missed.</p>\
         {contents}{sections}</body></html>"
    )
}

fn count(report: &Report, verdict: Verdict) -> usize {
    let findings = report.findings.iter();
    findings.filter(|f| f.verdict == verdict).count()
}

/// `text` as text of a page or as the value of an attribute.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}

fn element(name: &str, text: &str) -> String {
    format!("<{name}>{}</{name}>", escaped(text))
}

/// The same of a class.
fn of_class(name: &str, class: &str, text: &str) -> String {
    format!("<{name} class=\"{class}\">{}</{name}>", escaped(text))
}

/// A table of `rows`, which are HTML already.
fn table(head: &str, rows: impl Iterator<Item = String>) -> String {
    let rows: String = rows.map(|row| format!("<tr>{row}</tr>")).collect();
    format!(
        "<div class=\"scroll\"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

fn contents(reports: &[Report], took: &[f64]) -> String {
    let mut head = [
        element("th", "experiment"),
        element("th", "shows"),
        element("th", "after"),
        of_class("th", "n", "held"),
        of_class("th", "n", "missed"),
    ]
    .concat();
    if !took.is_empty() {
        head += &of_class("th", "n", "time, s");
    }
    let rows = reports.iter().enumerate().map(|(index, report)| {
        let name = escaped(&report.experiment);
        let count = |verdict| of_class("td", "n", &count(report, verdict).to_string());
        let seconds = took.get(index).map(|seconds| format!("{seconds:.1}"));
        [
            format!("<td><a href=\"#{name}\">{name}</a></td>"),
            element("td", &report.title),
            element("td", &report.source),
            count(Verdict::Held),
            count(Verdict::Missed),
            seconds.map_or(String::new(), |text| of_class("td", "n", &text)),
        ]
        .concat()
    });
    table(&head, rows)
}

fn section(report: &Report) -> String {
    let several = if report.drives.len() > 1 { "s" } else { "" };
    let drives = escaped(&report.drives.join(", "));
    let mut text = format!(
        "<section id=\"{}\">{}<p class=\"soft\">{}. Drive{several}: {drives}. {}</p>{}",
        escaped(&report.experiment),
        element("h2", &report.title),
        escaped(&report.source),
        element("code", &report.command),
        element("p", &report.about),
    );
    if !report.findings.is_empty() {
        text += &findings(&report.findings);
    }
    text.extend(report.figures.iter().map(show));
    if !report.notes.is_empty() {
        let notes = report.notes.iter().map(|note| element("li", note));
        let notes: String = notes.collect();
        text += &format!("<h3>Notes</h3><ul>{notes}</ul>");
    }
    text + "</section>"
}

fn findings(findings: &[Finding]) -> String {
    let head = "<th>what</th><th class=\"n\">paper</th><th class=\"n\">here</th><th>unit</th><th>demanded</th>\
                <th></th><th></th>";
    let rows = findings.iter().map(|finding| {
        let bound = finding.bound.map(|bound| bound.to_string());
        let here = element("strong", &number(finding.ours));
        [
            element("td", &finding.what),
            of_class("td", "n", finding.paper.as_deref().unwrap_or("")),
            format!("<td class=\"n\">{here}</td>"),
            element("td", &finding.unit),
            element("td", &bound.unwrap_or_default()),
            format!("<td>{}</td>", verdict(finding.verdict)),
            of_class("td", "soft", finding.because.as_deref().unwrap_or("")),
        ]
        .concat()
    });
    table(head, rows)
}

fn verdict(verdict: Verdict) -> String {
    let class = match verdict {
        Verdict::Shown => return String::new(),
        Verdict::Held => "verdict held",
        Verdict::Missed => "verdict missed",
    };
    of_class("span", class, &verdict.to_string())
}

fn show(figure: &Figure) -> String {
    let mut text = format!("<figure>{}", element("h3", &figure.title));
    if !figure.panels.is_empty() {
        text += &format!("<div class=\"plot\">{}</div>", inline(figure));
    }
    text += &element("figcaption", &figure.caption);
    if let Some(rows) = &figure.table {
        // The first column has the name of the row, the others have numbers.
        let row = |cell: &'static str, texts: &[String]| -> String {
            let cells = texts.iter().enumerate().map(|(index, text)| match index {
                0 => element(cell, text),
                _ => of_class(cell, "n", text),
            });
            cells.collect()
        };
        text += &table(
            &row("th", &rows.heads),
            rows.rows.iter().map(|cells| row("td", cells)),
        );
    }
    text + "</figure>"
}

/// The plots of `figure`, with a box of their own size so that the page can shrink them, and with ids that no other
/// figure has.
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
