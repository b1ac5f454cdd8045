//! The page of `stats --watch`: what the last seconds were like. It fits a terminal of 80 columns and 24 lines.

use super::{gauge, rate, space};
use crate::control::{CommandStats, MemberStats, RecentStats, RequestStats, ServerStats};
use std::time::Duration;
use tonearm_terminal::{report, size};

/// The terminal, but for the line with the cursor.
const COLUMNS: usize = 80;
const LINES: usize = 23;

/// Most rows of requests, and of members.
const COMMANDS_MAX: usize = 7;
const MEMBERS_MAX: usize = 5;

/// The page for `stats`, with an earlier snapshot.
pub fn page(stats: &ServerStats, before: Option<(Duration, &ServerStats)>) -> String {
    let mut lines = head(stats);
    lines.extend(requests(stats, before));
    lines.extend(members(stats, before));
    lines.extend(store(stats, before));
    let room = LINES.saturating_sub(lines.len());
    let first = stats.events.len().saturating_sub(room);
    lines.extend(stats.events[first..].iter().cloned());
    lines.truncate(LINES);
    let lines: Vec<String> = lines.iter().map(|line| cut(line, COLUMNS)).collect();
    lines.join("\n")
}

fn head(stats: &ServerStats) -> Vec<String> {
    let uptime = report::span((stats.uptime_s * 1e9) as u64);
    let under_way = match stats.under_way.requests {
        0 => "no request is under way".to_string(),
        count => format!(
            "{} requests under way, the oldest for {}",
            report::count(count),
            report::span(stats.under_way.oldest_ns)
        ),
    };
    let connections = stats.nbd.connections_open;
    let mut lines = vec![
        format!(
            "server {} up {uptime}, {connections} NBD connections, {} rings",
            stats.pid, stats.vhost.rings
        ),
        under_way,
    ];
    if let Some(failure) = &stats.store.failure {
        lines.push(format!("READ-ONLY: {failure}"));
    }
    if stats.store.waiting_for_space {
        lines.push("no space left below the store: write-back waits; free some space".into());
    }
    lines
}

/// A row for each command that was used in the last seconds.
fn requests(stats: &ServerStats, before: Option<(Duration, &ServerStats)>) -> Vec<String> {
    type Of = fn(&ServerStats) -> &RequestStats;
    let fronts: [(&str, Of); 3] = [
        ("NBD", |stats| &stats.nbd.requests),
        ("guest", |stats| &stats.vhost.requests),
        ("ublk", |stats| &stats.ublk.requests),
    ];
    let mut rows = Vec::new();
    for (front, of) in fronts {
        for (index, command) in of(stats).commands.iter().enumerate() {
            let old = before
                .and_then(|(span, stats)| Some((span, of(stats).commands.get(index).cloned()?)));
            let recent = recent(of(stats), &command.command);
            rows.extend(command_row(front, command, old, recent));
        }
    }
    let of_mount = stats.mount.iter().flat_map(|mount| &mount.operations);
    for (index, operation) in of_mount.enumerate() {
        let old = before.and_then(|(span, stats)| {
            Some((span, stats.mount.as_ref()?.operations.get(index).cloned()?))
        });
        let (span, old) = old.unwrap_or_default();
        let count = operation.requests - old.requests.min(operation.requests);
        if count == 0 || span.is_zero() {
            continue;
        }
        let mean = operation.time_ns.saturating_sub(old.time_ns) / count;
        rows.push(row(
            &format!("mount {}", operation.operation),
            [
                report::count(rate(old.requests, operation.requests, span)),
                size::text(rate(old.bytes, operation.bytes, span)),
                report::count(operation.errors.saturating_sub(old.errors)),
                format!("mean {}", report::span(mean)),
                String::new(),
                String::new(),
            ],
        ));
    }
    let more = rows.len().saturating_sub(COMMANDS_MAX);
    rows.truncate(COMMANDS_MAX);
    if more > 0 {
        rows.push(format!("  and {more} more kinds of requests"));
    }
    let heads = [
        "requests/s",
        "bytes/s",
        "errors",
        "p50 (10 s)",
        "p99",
        "max",
    ];
    rows.insert(0, row("requests", heads.map(String::from)));
    rows
}

fn recent(stats: &RequestStats, command: &str) -> RecentStats {
    let mut latencies = stats.latencies.iter();
    let latency = latencies.find(|latency| latency.command == command);
    latency.map_or(RecentStats::default(), |latency| latency.recent)
}

fn command_row(
    front: &str,
    command: &CommandStats,
    old: Option<(Duration, CommandStats)>,
    recent: RecentStats,
) -> Option<String> {
    let (span, old) = old?;
    if command.requests == old.requests && recent.count == 0 {
        return None;
    }
    let time = |ns| match recent.count {
        0 => String::new(),
        _ => report::span(ns),
    };
    Some(row(
        &format!("{front} {}", command.command),
        [
            report::count(rate(old.requests, command.requests, span)),
            size::text(rate(old.bytes, command.bytes, span)),
            report::count(command.errors.saturating_sub(old.errors)),
            time(recent.p50_ns),
            time(recent.p99_ns),
            time(recent.max_ns),
        ],
    ))
}

fn row(name: &str, [requests, bytes, errors, p50, p99, max]: [String; 6]) -> String {
    format!("{name:<19}{requests:>11}{bytes:>11}{errors:>7}{p50:>12}{p99:>10}{max:>10}")
}

/// A row for each member: a drive that is slow, or that ends no request any more, shows here.
fn members(stats: &ServerStats, before: Option<(Duration, &ServerStats)>) -> Vec<String> {
    let line = |name: &str, rest: [String; 4]| {
        let [requests, mean, under_way, stalled] = rest;
        format!("{name:<36}{requests:>11}{mean:>11}{under_way:>11}{stalled:>11}")
    };
    let heads = ["requests/s", "mean", "under way", "stands for"];
    let mut rows = vec![line("member", heads.map(String::from))];
    for member in stats.members.iter().take(MEMBERS_MAX) {
        let same = |old: &&MemberStats| old.path == member.path;
        let old = before.and_then(|(span, stats)| Some((span, stats.members.iter().find(same)?)));
        let (per_second, mean) = match old {
            None => (String::new(), String::new()),
            Some((span, old)) => {
                let time = member.time_ns.saturating_sub(old.time_ns);
                let ended = member.requests.saturating_sub(old.requests);
                let mean = time.checked_div(ended).map_or(String::new(), report::span);
                (
                    report::count(rate(old.requests, member.requests, span)),
                    mean,
                )
            }
        };
        let stalled = match member.stalled_ns {
            0 => String::new(),
            stalled => report::span(stalled),
        };
        let rest = [per_second, mean, report::count(member.under_way), stalled];
        rows.push(line(&end_of(&member.path, 35), rest));
    }
    let more = stats.members.len().saturating_sub(MEMBERS_MAX);
    if more > 0 {
        rows.push(format!("  and {more} more members"));
    }
    rows
}

fn store(stats: &ServerStats, before: Option<(Duration, &ServerStats)>) -> Vec<String> {
    let now = &stats.store;
    let mut lines = vec![
        format!(
            "log {}; memory {}, {} writers wait",
            gauge(now.log_used_bytes, now.log_size_bytes),
            gauge(now.memory_used_bytes, now.memory_limit_bytes),
            now.memory_waiting
        ),
        format!(
            "{} blocks are not at home, the oldest since {}",
            report::count(now.pinned_blocks),
            report::span(now.write_back_lag_ns)
        ),
    ];
    lines.push(format!("space {}", space(&stats.space)));
    if now.segments > 0 {
        lines.push(format!(
            "segments {}, {} of {} free",
            gauge(now.segments_live_bytes, now.segments_bytes),
            report::count(now.free_segments),
            report::count(now.segments)
        ));
    }
    if let Some((span, before)) = before {
        let old = &before.store;
        lines.push(format!(
            "each second {} commits, {} log writes, {} flushes, {} blocks home",
            report::count(rate(old.commits, now.commits, span)),
            report::count(rate(old.log_writes, now.log_writes, span)),
            report::count(rate(
                old.log_flushes + old.log_durable_writes,
                now.log_flushes + now.log_durable_writes,
                span
            )),
            report::count(rate(old.written_back_blocks, now.written_back_blocks, span))
        ));
    }
    if now.array_members > 0 {
        let state = match (now.array_lost, now.array_degraded) {
            (0, 0) => "all in use",
            (0, _) => "DEGRADED",
            _ => "LOST",
        };
        lines.push(format!("array of {} members: {state}", now.array_members));
    }
    if now.archive_state > 0 {
        lines.push(format!(
            "archive: {} commits behind, {} gaps",
            report::count(now.archive_lag_commits),
            now.archive_gaps
        ));
    }
    lines
}

/// The first characters of `text` that fit.
fn cut(text: &str, columns: usize) -> String {
    let text = text.trim_end();
    if text.chars().count() > columns {
        text.chars()
            .take(columns - 3)
            .chain("...".chars())
            .collect()
    } else {
        text.to_string()
    }
}

/// The last characters of `text` that fit: of a path they say most.
fn end_of(text: &str, columns: usize) -> String {
    let count = text.chars().count();
    if count > columns {
        "..."
            .chars()
            .chain(text.chars().skip(count - columns + 3))
            .collect()
    } else {
        text.to_string()
    }
}

#[cfg(test)]
#[path = "watch_test.rs"]
mod watch_test;
