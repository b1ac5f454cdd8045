//! `tonearm stats`.

mod watch;

use crate::cli::Stats;
use crate::control::{
    Answer, Client, HotBlocks, MountStats, Request, RequestStats, ServerStats, SpaceStats,
    UnitStats,
};
use anyhow::bail;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tonearm_engine::{ArchiveState, StoreStats};
use tonearm_terminal::Table;
use tonearm_terminal::{report, size};

/// Shows the counters, once or each second.
///
/// # Errors
/// When there is no server, or it goes away.
pub fn run(arguments: Stats) -> anyhow::Result<ExitCode> {
    let mut client = Client::need(&arguments.path, arguments.control.as_deref())?;
    let mut last: Option<(Instant, ServerStats)> = None;
    let redraw = arguments.watch && std::io::stdout().is_terminal();
    loop {
        let stats = ask(&mut client)?;
        let now = Instant::now();
        match (arguments.json, arguments.watch) {
            (true, true) => report::json_line(&stats)?,
            (true, false) => report::json(&stats)?,
            (false, _) => {
                let before = last.as_ref().map(|(at, stats)| (now - *at, stats));
                let text = if arguments.watch {
                    watch::page(&stats, before)
                } else {
                    page(&stats)
                };
                // Moves the cursor home, prints the page, then clears the rest of the page before.
                let (home, clear) = if redraw {
                    ("\x1b[H", "\x1b[J")
                } else {
                    ("", "")
                };
                let text = if redraw {
                    text.replace('\n', "\x1b[K\n")
                } else {
                    text
                };
                report::line(format_args!("{home}{text}{clear}"))?;
            }
        }
        if !arguments.watch {
            return Ok(ExitCode::SUCCESS);
        }
        last = Some((now, stats));
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn ask(client: &mut Client) -> anyhow::Result<ServerStats> {
    match client.ask(Request::Stats, |_, _| {})? {
        Answer::Stats(stats) => Ok(*stats),
        _ => bail!("the server gave another answer than was asked for"),
    }
}

fn page(stats: &ServerStats) -> String {
    let uptime = report::span((stats.uptime_s * 1e9) as u64);
    let mut text = format!(
        "server {} (version {}), up {uptime}, {} connections\n{}\n{}",
        stats.pid,
        stats.version,
        stats.nbd.connections_open,
        commands("command", &stats.nbd.requests),
        store(stats),
    );
    if stats.vhost.has_served() {
        let table = commands("virtual machines", &stats.vhost.requests);
        text.push_str(&format!("\n{table}"));
    }
    if stats.ublk.has_served() {
        let table = commands("devices by ublk", &stats.ublk.requests);
        text.push_str(&format!("\n{table}"));
    }
    if let Some(mount) = &stats.mount {
        text.push_str(&format!("\n{}", operations(mount)));
        if mount.units.begun > 0 {
            text.push_str(&units(&mount.units));
        }
    }
    if stats.under_way.requests > 0 {
        text.push_str(&format!(
            "\n{} requests under way, the oldest for {}",
            report::count(stats.under_way.requests),
            report::span(stats.under_way.oldest_ns)
        ));
    }
    for event in &stats.events {
        text.push_str(&format!("\n{event}"));
    }
    if stats.store.waiting_for_space {
        text.push_str("\nno space left below the store: write-back waits; free some space");
    }
    text
}

/// One row for each command that was used.
fn commands(title: &'static str, stats: &RequestStats) -> Table {
    let heads = [title, "requests", "bytes", "errors", "p50", "p99", "max"];
    let mut table = report::table(&heads);
    for (index, command) in stats.commands.iter().enumerate() {
        if command.requests == 0 && index > 2 {
            continue;
        }
        let latency = stats
            .latencies
            .iter()
            .find(|latency| latency.command == command.command);
        let latency = latency.filter(|latency| latency.count > 0);
        let time = |ns: Option<u64>| ns.map_or(String::new(), report::span);
        table.add_row(vec![
            command.command.clone(),
            report::count(command.requests),
            size::text(command.bytes),
            report::count(command.errors),
            time(latency.map(|latency| latency.p50_ns)),
            time(latency.map(|latency| latency.p99_ns)),
            time(latency.map(|latency| latency.max_ns)),
        ]);
    }
    report::align_right(&mut table, 1..heads.len());
    table
}

/// One row for each operation of the mount that was used.
fn operations(mount: &MountStats) -> Table {
    let heads = ["mount", "requests", "bytes", "errors", "mean"];
    let mut table = report::table(&heads);
    for (index, operation) in mount.operations.iter().enumerate() {
        if operation.requests == 0 && index > 2 {
            continue;
        }
        let mean = operation.time_ns.checked_div(operation.requests);
        table.add_row(vec![
            operation.operation.clone(),
            report::count(operation.requests),
            size::text(operation.bytes),
            report::count(operation.errors),
            mean.map_or(String::new(), report::span),
        ]);
    }
    report::align_right(&mut table, 1..heads.len());
    table
}

/// A line about the units of programs.
fn units(units: &UnitStats) -> String {
    let UnitStats {
        open,
        begun,
        committed,
        aborted,
        conflicts,
    } = units;
    format!(
        "\nunits of programs: {open} open, {begun} begun, {committed} committed, {aborted} aborted, {conflicts} of them in conflict"
    )
}

/// A line about the store: its name and its text.
type Row = (&'static str, String);

fn store(stats: &ServerStats) -> Table {
    let now = &stats.store;
    let mut rows = log_rows(now);
    rows.push(("space", space(&stats.space)));
    rows.extend(use_rows(now));
    rows.extend(home_rows(now));
    if now.segments > 0 {
        rows.extend(segment_rows(now));
    }
    rows.extend(HotBlocks::of(now).iter().flat_map(HotBlocks::rows));
    if now.array_members > 0 {
        rows.push(array_row(now));
    }
    if let Some(state) = archive_state(now.archive_state) {
        rows.push(archive_row(state, now));
    }
    if now.max_delay_ns > 0 {
        rows.push((
            "durable within",
            format!(
                "{}; the slowest commit took {}, {} took longer",
                report::span(now.max_delay_ns),
                report::span(now.delay_max_ns),
                report::count(now.delays_missed)
            ),
        ));
    }
    if now.checksum_errors > 0 {
        rows.push(("checksum errors", report::count(now.checksum_errors)));
    }
    report::pairs(rows)
}

fn log_rows(now: &StoreStats) -> Vec<Row> {
    vec![
        (
            "commits",
            format!(
                "{}, {} of payload",
                report::count(now.commits),
                size::text(now.commit_bytes)
            ),
        ),
        (
            "LSN",
            format!(
                "{} appended, {} flushed, {} durable",
                now.appended_lsn, now.flushed_lsn, now.durable_lsn
            ),
        ),
        (
            "log writes",
            format!(
                "{} ({:.1} commits each), {} flushes, {} written",
                report::count(now.log_writes),
                per(now.commits, now.log_writes),
                report::count(now.log_flushes + now.log_durable_writes),
                size::text(now.log_bytes)
            ),
        ),
        (
            "log flushes for",
            format!(
                "{} commits, {} writes home, {} checkpoints, {} --max-delay, {} log space",
                report::count(now.commit_flushes),
                report::count(now.home_write_flushes),
                report::count(now.checkpoint_flushes),
                report::count(now.bound_flushes),
                report::count(now.log_space_flushes)
            ),
        ),
    ]
}

fn use_rows(now: &StoreStats) -> Vec<Row> {
    vec![
        ("head moves", report::count(now.log_repositions)),
        ("log in use", gauge(now.log_used_bytes, now.log_size_bytes)),
        (
            "memory in use",
            format!(
                "{}, {} writers wait",
                gauge(now.memory_used_bytes, now.memory_limit_bytes),
                now.memory_waiting
            ),
        ),
    ]
}

fn home_rows(now: &StoreStats) -> Vec<Row> {
    vec![
        (
            "write-back",
            format!(
                "{} blocks pinned, oldest {}; {} written home in {} rounds, {} superseded",
                report::count(now.pinned_blocks),
                report::span(now.write_back_lag_ns),
                report::count(now.written_back_blocks),
                report::count(now.write_back_rounds),
                report::count(now.superseded_blocks)
            ),
        ),
        (
            "home",
            format!(
                "{} reads, {} writes, {} flushes, {} of them in {} checkpoints",
                report::count(now.home_reads),
                report::count(now.home_writes),
                report::count(now.home_flushes),
                report::count(now.home_checkpoint_flushes),
                report::count(now.checkpoints)
            ),
        ),
        (
            "read hits",
            format!(
                "{:.0} % of {} reads",
                100.0 * per(now.read_hits, now.reads),
                report::count(now.reads)
            ),
        ),
        (
            "recovery",
            format!(
                "{} commits in {}",
                report::count(now.recovered_commits),
                report::span(now.recovery_ns)
            ),
        ),
    ]
}

fn segment_rows(now: &StoreStats) -> Vec<Row> {
    let mut rows = Vec::new();
    rows.push((
        "segments",
        format!(
            "{} live, {} of {} free",
            gauge(now.segments_live_bytes, now.segments_bytes),
            report::count(now.free_segments),
            report::count(now.segments)
        ),
    ));
    rows.push((
        "cleaner",
        format!(
            "{} segments emptied, {} blocks copied and {} moved into holes; {} passes by cost and age, {} of the emptiest \
             segments, {} into holes",
            report::count(now.cleaned_segments),
            report::count(now.cleaned_blocks),
            report::count(now.plugged_blocks),
            report::count(now.age_passes),
            report::count(now.greedy_passes),
            report::count(now.plug_passes)
        ),
    ));
    if now.written_back_blocks > 0 {
        let of_one = |blocks: u64| per(blocks, now.written_back_blocks);
        let map = now.summary_blocks + now.table_writes;
        rows.push((
            "written home",
            format!(
                "{:.2} blocks for each new one: 1 new ({:.2} in place), {:.2} copied by the cleaner and {:.2} moved into \
                 holes, {:.2} map and summaries",
                1.0 + of_one(now.cleaned_blocks + now.plugged_blocks + map),
                of_one(now.overwritten_blocks),
                of_one(now.cleaned_blocks),
                of_one(now.plugged_blocks),
                of_one(map)
            ),
        ));
    }
    rows
}

fn array_row(now: &StoreStats) -> Row {
    let state = match (now.array_degraded, now.array_rebuild_bytes) {
        _ if now.array_lost > 0 => "LOST".to_string(),
        (0, _) => "all in use".to_string(),
        (_, 0) => "DEGRADED".to_string(),
        (_, all) => format!(
            "DEGRADED, rebuilding: {}",
            gauge(now.array_rebuilt_bytes, all)
        ),
    };
    (
        "array",
        format!(
            "{} members, {state}; {} ranges reconstructed, {} repaired",
            now.array_members,
            report::count(now.array_reconstructed),
            report::count(now.array_repaired)
        ),
    )
}

fn archive_row(state: ArchiveState, now: &StoreStats) -> Row {
    let base = match (now.archive_restorable, now.archive_base_percent) {
        (1, 0) => String::new(),
        (_, percent) => format!(", base {percent} % read"),
    };
    (
        "archive",
        format!(
            "{state}, commit {} archived, {} behind, {} gaps{base}; {} objects, {} put",
            now.archived_lsn,
            report::count(now.archive_lag_commits),
            report::count(now.archive_gaps),
            report::count(now.archive_objects),
            size::text(now.archive_stored_bytes)
        ),
    )
}

/// How many for each, 0 for none.
fn per(count: u64, of: u64) -> f64 {
    if of == 0 {
        0.0
    } else {
        count as f64 / of as f64
    }
}

/// The word for `archive_state`; `None` without an archive.
fn archive_state(number: u64) -> Option<ArchiveState> {
    use ArchiveState::{Ended, Running, Starting, Waiting};
    let states = [Starting, Running, Waiting, Ended];
    states.into_iter().find(|state| state.number() == number)
}

/// How full the store is, in one line.
fn space(space: &SpaceStats) -> String {
    let taken = space.size_bytes.saturating_sub(space.free_bytes);
    let below = space.used_bytes.map_or(String::new(), |bytes| {
        format!("; {} used below the store", size::text(bytes))
    });
    format!("{} in use{below}", gauge(taken, space.size_bytes))
}

fn gauge(used: u64, all: u64) -> String {
    let share = if all == 0 {
        0.0
    } else {
        100.0 * used as f64 / all as f64
    };
    format!("{} of {} ({share:.0} %)", size::text(used), size::text(all))
}

fn rate(before: u64, now: u64, span: Duration) -> u64 {
    (now.saturating_sub(before) as f64 / span.as_secs_f64().max(1e-9)).round() as u64
}
