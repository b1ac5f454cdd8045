//! The figures of a load as tables or JSON.

use super::figures::{Flow, More, Paper, Report, TpccFigures};
use crate::cli::Make;
use std::process::ExitCode;
use tonearm_terminal::report::{self, count};
use tonearm_terminal::size;

/// Prints the report, unless standard output has the accesses.
///
/// # Errors
/// When standard output cannot be written.
pub fn print(make: &Make, report: &Report) -> anyhow::Result<ExitCode> {
    let to_stdout = make.out.as_ref().is_some_and(|out| out.as_os_str() == "-");
    if make.json {
        report::json(report)?;
    } else if !to_stdout {
        show(report)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show(report: &Report) -> anyhow::Result<()> {
    let mut rows = vec![
        ("load", report.workload.clone()),
        (
            "data",
            format!(
                "{}: {} pages of {}",
                size::text(report.size_bytes),
                count(report.pages),
                size::text(report.page_bytes)
            ),
        ),
    ];
    match &report.more {
        More::Skew {
            reads_skew,
            writes_skew,
        } => rows.push(("skew", format!("{writes_skew} writes, {reads_skew} reads"))),
        More::StandIn {
            reads_skew,
            writes_skew,
            published,
            ..
        } => {
            rows.push((
                "skew",
                format!("{writes_skew} writes, {reads_skew} reads (chosen)"),
            ));
            rows.push(("the paper's trace", paper(published)));
        }
        More::Trace { skipped, seconds } => {
            if let Some(seconds) = seconds {
                rows.push(("time", format!("{seconds:.1} s")));
            }
            rows.push(("left out", format!("{} requests", count(*skipped))));
        }
        More::Tpcc(figures) => {
            let loaded = size::text(figures.loaded_bytes);
            rows.push(("loaded", format!("{loaded}, before the transactions")));
            rows.push(("transactions", count(figures.transactions)));
            let bytes = figures.log_bytes_per_transaction;
            rows.push(("log", format!("{bytes:.0} bytes for each transaction")));
            rows.push(("the paper's trace", paper(&figures.published)));
        }
    }
    flow(&mut rows, ["accesses", "hot pages"], &report.accesses);
    if let (Some(bytes), Some(behind)) = (report.pool_bytes, &report.behind_pool) {
        rows.push(("pool", size::text(bytes)));
        flow(&mut rows, ["behind the pool", "hot pages there"], behind);
    }
    rows.push((
        "speed",
        format!(
            "{} accesses per CPU-second",
            count(report.accesses_per_cpu_second as u64)
        ),
    ));
    report::line(report::pairs(rows))?;
    if let More::Tpcc(figures) = &report.more {
        mix(figures)?;
        objects(figures, report.pool_bytes.is_some())?;
    }
    Ok(())
}

fn flow(rows: &mut Vec<(&str, String)>, names: [&'static str; 2], flow: &Flow) {
    let ratio = flow.reads_per_write;
    let ratio = ratio.map_or(String::new(), |ratio| {
        format!(", {ratio:.2} reads for each write")
    });
    let (reads, writes) = (count(flow.reads), count(flow.writes));
    rows.push((names[0], format!("{reads} reads, {writes} writes{ratio}")));
    if flow.writes > 0 {
        let percent = |share: f64| share * 100.0;
        rows.push((
            names[1],
            format!(
                "10 % of the pages get {:.1} % of the writes, 20 % {:.1}, 50 % {:.1}",
                percent(flow.writes_to_top_10_percent),
                percent(flow.writes_to_top_20_percent),
                percent(flow.writes_to_top_50_percent)
            ),
        ));
    }
}

fn paper(paper: &Paper) -> String {
    format!(
        "{} MB, {} reads, {} writes: {:.2} reads for each write, {:.2} behind 400 MB",
        paper.megabytes,
        count(paper.reads),
        count(paper.writes),
        paper.reads_per_write,
        paper.reads_per_write_behind_400_mb
    )
}

fn mix(figures: &TpccFigures) -> anyhow::Result<()> {
    let mut table = report::table(&[
        "transaction",
        "number",
        "%",
        "rolled back",
        "reads",
        "writes",
        "rows changed",
        "pages changed",
        "log records",
        "log bytes",
    ]);
    for mix in &figures.mix {
        table.add_row([
            mix.kind.to_string(),
            count(mix.count),
            format!("{:.2}", mix.share_percent),
            count(mix.rolled_back),
            format!("{:.1}", mix.reads),
            format!("{:.1}", mix.writes),
            format!("{:.1}", mix.rows_changed),
            format!("{:.1}", mix.pages_changed),
            format!("{:.1}", mix.log_records),
            format!("{:.0}", mix.log_bytes),
        ]);
    }
    report::align_right(&mut table, 1..10);
    Ok(report::line(table)?)
}

fn objects(figures: &TpccFigures, pool: bool) -> anyhow::Result<()> {
    let mut heads = vec![
        "table or index",
        "rows",
        "pages",
        "levels",
        "reads",
        "writes",
    ];
    if pool {
        heads.extend(["reads behind pool", "writes behind pool"]);
    }
    let mut table = report::table(&heads);
    let number = |number: Option<u64>| number.map_or(String::new(), count);
    for object in &figures.objects {
        let mut row = vec![
            object.name.to_string(),
            count(object.rows),
            count(object.pages),
            object
                .levels
                .map_or(String::new(), |levels| levels.to_string()),
            count(object.reads),
            count(object.writes),
        ];
        if pool {
            row.extend([number(object.pool_reads), number(object.pool_writes)]);
        }
        table.add_row(row);
    }
    report::align_right(&mut table, 1..heads.len());
    Ok(report::line(table)?)
}
