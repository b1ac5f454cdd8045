//! HyLog's write-cost model: Figures 1, 3 and 4, and the numbers of its sections 3.2, 3.5 and 6.

use crate::experiment::{Context, Drives, Experiment, Outcome};
use crate::harness::{paper_drive, service_ms};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use tonearm_drive_file::DriveFile;
use tonearm_layout::separation::cost;
use tonearm_workload::Skew;

pub const EXPERIMENT: Experiment = Experiment {
    name: "hylog-model",
    title: "What a write costs in place, in a log, and in a log of the hot pages alone",
    source: "HyLog 3, Figures 1, 3, 4; the examples of 6.2",
    about: "The write-cost model that the separator of the product uses, with the parameters of the paper's three \
            drives, beside the numbers that the paper prints; and the efficiency of a segment write as the models of \
            these drives have it.",
    drives: Drives::Some(&["hylog2003", "atlas10k", "dec_rz26"]),
    run,
};

/// A drive of the paper's Table 1.
struct Row {
    name: &'static str,
    /// Its file here.
    file: &'static str,
    positioning_ms: f64,
    /// In the paper's unit: 1 MB is 1000 times 1024 bytes.
    mb_per_s: f64,
    segment_bytes: f64,
    efficiency: f64,
    /// Cleaning and disk utilisation at which overwriting and cleaning cost the same.
    crossing: (f64, f64),
}

const TABLE_1: [Row; 3] = [
    Row {
        name: "Cheetah X15 36LP (2003)",
        file: "hylog2003",
        positioning_ms: 5.6,
        mb_per_s: 61.0,
        segment_bytes: 1048576.0,
        efficiency: 32.8,
        crossing: (0.939, 0.969),
    },
    Row {
        name: "Quantum atlas10k (1999)",
        file: "atlas10k",
        positioning_ms: 8.6,
        mb_per_s: 20.4,
        segment_bytes: 524288.0,
        efficiency: 17.1,
        crossing: (0.883, 0.940),
    },
    Row {
        name: "DEC RZ26 (1991)",
        file: "dec_rz26",
        positioning_ms: 15.0,
        mb_per_s: 2.3,
        segment_bytes: 131072.0,
        efficiency: 4.2,
        crossing: (0.522, 0.735),
    },
];
const PAGE: f64 = 8192.0;
/// E of Figure 4.
const EFFICIENCY: f64 = 32.8;
const SKEWS: [(&str, Skew); 4] = [
    ("uniform", Skew::Uniform),
    ("Knuth 80-20", Skew::Knuth { p: 0.8 }),
    ("Knuth 90-10", Skew::Knuth { p: 0.9 }),
    ("Hsu 80-20 (stand-in)", Skew::Hsu { p: 0.8 }),
];

impl Row {
    fn milliseconds(&self, bytes: f64) -> f64 {
        self.positioning_ms + bytes / (self.mb_per_s * 1024.0)
    }

    fn efficiency(&self, segment_bytes: f64) -> f64 {
        let (page, segment) = (self.milliseconds(PAGE), self.milliseconds(segment_bytes));
        cost::efficiency(page, segment, segment_bytes / PAGE)
    }
}

/// A number of the paper next to the model's, which must agree as far as it is printed.
fn printed(what: impl Into<String>, ours: f64, paper: f64, percent: f64) -> Finding {
    Finding::shown(what, ours, "")
        .paper(number(paper))
        .bound(Bound::within(paper, percent))
}

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let mut outcome = Outcome::default();
    efficiency(context, drives, &mut outcome);
    costs(&mut outcome);
    potential(&mut outcome);
    examples(&mut outcome);
    outcome.notes = vec![
        "Costs are in units of the time of a segment write divided by its pages, as in the paper.".into(),
        "The figures marked \"measured\" are of single random writes to the models of the drives. That of the Atlas 10K \
         has the bus of the 2003 drive here: the file's own bus of 5 MB/s is that of its validation trace, and the paper's \
         segment of 512 KB takes 27.3 ms."
            .into(),
        "The formula of Hsu, Smith and Young's distribution is lost in the text of the paper. Hill's function with the same \
         80-20 point stands in for it."
            .into(),
    ];
    outcome
}

/// Figure 1.
fn efficiency(context: &Context<'_>, drives: &[DriveFile], outcome: &mut Outcome) {
    let sizes: Vec<f64> = (14..=24).map(|power| f64::from(1 << power)).collect();
    let ios = context.count(2000, 300);
    let mut points: Vec<(&DriveFile, f64)> = Vec::new();
    for drive in drives {
        points.extend(sizes.iter().map(|size| (drive, *size)));
    }
    let measured = context.map(&points, |(drive, size)| {
        let spec = paper_drive(drive).spec;
        let page = service_ms(&spec, PAGE as u32, ios, context.seed(1));
        let segment = service_ms(&spec, *size as u32, ios, context.seed(2));
        cost::efficiency(page, segment, size / PAGE)
    });
    let mut table = Table::new(&[
        "drive",
        "segment, KB",
        "E, paper",
        "E, formula",
        "E, measured",
    ]);
    let mut lines = Vec::new();
    for (at, drive) in drives.iter().enumerate() {
        let own = &measured[at * sizes.len()..(at + 1) * sizes.len()];
        let line = |values: &[f64]| {
            sizes
                .iter()
                .map(|size| size / 1024.0)
                .zip(values.iter().copied())
                .collect()
        };
        lines.push(Line::new(
            &format!("{}, measured", drive.name),
            Style::Marked,
            at,
            line(own),
        ));
        let Some(row) = TABLE_1.iter().find(|row| row.file == drive.name) else {
            continue;
        };
        let formula: Vec<f64> = sizes.iter().map(|size| row.efficiency(*size)).collect();
        lines.push(Line::new(row.name, Style::Solid, at, line(&formula)));
        let size = row.segment_bytes;
        let here = sizes
            .iter()
            .position(|other| *other == size)
            .map_or(0.0, |at| own[at]);
        table.row(vec![
            row.name.into(),
            number(size / 1024.0),
            number(row.efficiency),
            number(row.efficiency(size)),
            number(here),
        ]);
        let what = format!("E of {} at its segment size", row.name);
        outcome
            .findings
            .push(printed(what, row.efficiency(size), row.efficiency, 1.5));
        let ideal = cost::segment_bytes(0.8, row.positioning_ms / 1e3, row.mb_per_s * 1.024e6);
        let what = format!("segment of equation 6, {}, as a power of two", row.name);
        let power = ideal.log2().round();
        outcome
            .findings
            .push(printed(what, power, size.log2(), 0.1));
        outcome.findings.push(
            Finding::shown(format!("E of {}, measured", row.file), here, "")
                .paper(number(row.efficiency))
                .bound(Bound::within(row.efficiency, 25.0))
                .because("seek and rotation of single random writes over the whole drive, settling and commands included"),
        );
    }
    outcome.figures.push(
        Figure::plot(
            "hylog-efficiency",
            "Segment I/O efficiency (Figure 1)",
            "How much longer the pages of a segment take one by one than together; pages of 8 KB.",
            vec![Panel {
                title: String::new(),
                x: Axis::log("segment, KB"),
                y: Axis::linear("page time by appended page time, times"),
                lines,
                legend: Legend::TopLeft,
            }],
        )
        .with(table),
    );
}

/// Figure 3.
fn costs(outcome: &mut Outcome) {
    let steps: Vec<f64> = (0..=98).map(|percent| f64::from(percent) / 100.0).collect();
    let panels = TABLE_1.iter().map(|row| {
        let e = row.efficiency(row.segment_bytes);
        let line = |of: &dyn Fn(f64) -> f64| {
            let inside = steps.iter().map(|u| (*u, of(*u)));
            inside.filter(|(_, cost)| *cost <= 50.0).collect()
        };
        Panel {
            title: row.name.into(),
            x: Axis::upto("live pages in cleaned segments, share", 1.0),
            y: Axis::upto("cost of a write, appended pages", 50.0),
            lines: vec![
                Line::new("overwrite", Style::Solid, 0, line(&|_| cost::overwrite(e))),
                Line::new("cleaning", Style::Solid, 1, line(&cost::cleaning)),
                Line::new("plugging", Style::Solid, 2, line(&|u| cost::plugging(u, e))),
            ],
            legend: Legend::TopLeft,
        }
    });
    let mut table = Table::new(&["drive", "u_c, paper", "u_c", "u_d, paper", "u_d"]);
    for row in &TABLE_1 {
        let meet = 1.0 - 2.0 / row.efficiency(row.segment_bytes);
        let disk = cost::disk_utilisation(meet);
        let (paper_c, paper_d) = row.crossing;
        table.row([paper_c, meet, paper_d, disk].iter().fold(
            vec![row.name.to_string()],
            |mut cells, value| {
                cells.push(number(*value));
                cells
            },
        ));
        let what = |of: &str| {
            format!(
                "{of} at which {} overwrites as cheaply as it cleans",
                row.name
            )
        };
        outcome
            .findings
            .push(printed(what("cleaning utilisation"), meet, paper_c, 0.5));
        outcome
            .findings
            .push(printed(what("disk utilisation"), disk, paper_d, 0.5));
    }
    outcome.figures.push(
        Figure::plot(
            "hylog-costs",
            "Write costs of the layouts (Figure 3)",
            "Where the cleaned segments are emptier than at the crossing, a log is cheaper.",
            panels.collect(),
        )
        .with(table),
    );
}

/// The hot share with the least cost, and that cost.
fn least(skew: Skew, disk: f64) -> (f64, f64) {
    let shares = (0..=10_000).map(|step| f64::from(step) / 10_000.0);
    let costs = shares.map(|h| (cost::hylog(h, skew.share(h), disk, EFFICIENCY), h));
    costs
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map_or((0.0, 0.0), |(cost, h)| (h, cost))
}

/// Figure 4.
fn potential(outcome: &mut Outcome) {
    let steps: Vec<f64> = (0..=100)
        .map(|percent| f64::from(percent) / 100.0)
        .collect();
    let panel = |title: &str, y: Axis, legend, of: &dyn Fn(Skew, f64) -> f64| Panel {
        title: title.into(),
        x: Axis::upto("hot pages, share", 1.0),
        y,
        lines: SKEWS
            .iter()
            .enumerate()
            .map(|(color, (name, skew))| {
                let points = steps.iter().map(|h| (*h, of(*skew, *h))).collect();
                Line::new(name, Style::Solid, color, points)
            })
            .collect(),
        legend,
    };
    let cost_at =
        |disk: f64| move |skew: Skew, h: f64| cost::hylog(h, skew.share(h), disk, EFFICIENCY);
    let panels = vec![
        panel(
            "writes to the hottest pages",
            Axis::upto("writes of hot pages, share", 1.0),
            Legend::BottomRight,
            &Skew::share,
        ),
        panel(
            "90 % used",
            Axis::linear("cost of a write, appended pages"),
            Legend::TopRight,
            &cost_at(0.90),
        ),
        panel(
            "97 % used",
            Axis::linear("cost of a write, appended pages"),
            Legend::TopLeft,
            &cost_at(0.97),
        ),
    ];
    let mut table = Table::new(&[
        "used, %",
        "skew",
        "best hot share",
        "cost there",
        "all cold",
        "all hot",
    ]);
    for disk in [0.90, 0.97] {
        for (name, skew) in SKEWS {
            let (share, least) = least(skew, disk);
            let all = |h: f64| number(cost::hylog(h, h, disk, EFFICIENCY));
            table.row(vec![
                number(disk * 100.0),
                name.into(),
                number(share),
                number(least),
                all(0.0),
                all(1.0),
            ]);
        }
    }
    // Read from the plots of the paper, so within what one can read.
    for (name, skew, disk, paper) in [
        ("uniform", Skew::Uniform, 0.97, 25.1),
        ("80-20", Skew::Knuth { p: 0.8 }, 0.97, 12.3),
        ("90-10", Skew::Knuth { p: 0.9 }, 0.97, 6.9),
        ("80-20", Skew::Knuth { p: 0.8 }, 0.90, 8.3),
    ] {
        let what = format!("least cost of HyLog, {name}, {} % used", disk * 100.0);
        outcome
            .findings
            .push(printed(what, least(skew, disk).1, paper, 1.0));
    }
    let lfs = |disk| cost::hylog(1.0, 1.0, disk, EFFICIENCY);
    outcome
        .findings
        .push(printed("cost of LFS at 90 %", lfs(0.90), 10.4, 1.0));
    outcome
        .findings
        .push(printed("cost of LFS at 97 %", lfs(0.97), 33.7, 1.0));
    outcome.figures.push(
        Figure::plot(
            "hylog-potential",
            "What the right hot share gains (Figure 4)",
            "E is 32.8. At the left end all pages are overwritten, at the right end all are appended.",
            panels,
        )
        .with(table),
    );
}

/// The examples of section 6.2, and the appendix.
fn examples(outcome: &mut Outcome) {
    let pages = 512.0;
    let adjusted =
        |page, idle, segment| cost::adjusted(cost::efficiency(page, segment, pages), 4.0, idle);
    // A throughput, if writes are 42 % of the requests and become so much cheaper.
    let with_reads = |writes: f64| 1.0 / (0.58 + 0.42 / writes);
    let lfs_95 = adjusted(5.6, 0.30, 27.3);
    let e = adjusted(5.8, 0.225, 27.2);
    let hot = e / cost::cleaning(0.934);
    let all = e / (0.582 * cost::cleaning(0.934) + 0.418 * e);
    let lfs_98 = e / cost::cleaning(0.962);
    let users = 30.0 * (21.0 + 1.28) / 1.28;
    for (what, ours, paper, percent) in [
        ("adjusted E, LFS at 95 %", lfs_95, 37.5, 0.5),
        (
            "writes of LFS against Overwrite at 95 %",
            lfs_95 / cost::cleaning(0.884),
            2.2,
            2.5,
        ),
        (
            "throughput of LFS against Overwrite at 95 %, by the model",
            with_reads(lfs_95 / cost::cleaning(0.884)),
            1.30,
            1.0,
        ),
        (
            "hot writes of HyLog against Overwrite at 98 %",
            hot,
            1.16,
            0.5,
        ),
        (
            "all writes of HyLog against Overwrite at 98 %",
            all,
            1.09,
            0.5,
        ),
        (
            "throughput of HyLog against Overwrite at 98 %, by the model",
            with_reads(all),
            1.036,
            0.2,
        ),
        (
            "writes of LFS against Overwrite at 98 %",
            lfs_98,
            0.669,
            0.5,
        ),
        (
            "throughput of LFS against Overwrite at 98 %, by the model",
            with_reads(lfs_98),
            0.828,
            0.5,
        ),
        (
            "users with think time that 30 without are worth",
            users,
            500.0,
            6.0,
        ),
    ] {
        outcome.findings.push(printed(what, ours, paper, percent));
    }
}
