//! An e-mail client that downloads messages into a database on a drive with a volatile cache.

use crate::experiment::{Context, Drives, Experiment, Outcome, Random};
use crate::pagedb::{
    Cause, Commit, Database, DatabaseOptions, Machine, Measured, Rule, Transaction,
};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use tonearm_base::Nanos;
use tonearm_drive_file::DriveFile;
use tonearm_workload::Access;

pub const EXPERIMENT: Experiment = Experiment {
    name: "wal-sync",
    title: "An e-mail client without write-through",
    source: "Durable WAL 6.2",
    about: "A client downloads 100, 1,000 or 200,000 messages into its database, each in a transaction of its own, on one drive \
            with a volatile cache: without any flush, with the paper's rule, with the cache off, and with a flush for each \
            message.",
    drives: Drives::One("wd2500jd"),
    run,
};

/// Messages, and the paper's seconds without enforcement and with it.
pub(super) const SIZES: [(u64, f64, f64); 3] = [
    (100, 5.967, 6.326),
    (1_000, 8.057, 8.079),
    (200_000, 636.285, 645.641),
];
const RULES: [(Rule, &str); 4] = [
    (Rule::Trusting, "no enforcement"),
    (Rule::Enforced, "the rule"),
    (Rule::Through, "cache off"),
    (Rule::EachCommit, "a flush for each message"),
];

/// The client's own time: so much at the start, and so much for a message. They follow from the first two rows of the
/// paper's first column, if the database takes none of it.
const START_S: f64 = 5.735;
const MESSAGE: Nanos = Nanos(2_322_000);

pub(super) const PAGE: u64 = 8192;
/// Bytes of a message in the table, and of its log records, with those of four indexes.
const MESSAGE_BYTES: u64 = 4096;
const LOG_BYTES: u64 = 5_000;
/// Pages of each of four indexes: those of a mailbox of 100,000 messages, with 60 bytes for an entry.
const INDEXES: u64 = 4;
const INDEX_PAGES: u64 = 1_000;
/// Pages at the start.
pub(super) const LOADED: u64 = INDEXES * INDEX_PAGES;
/// Bytes of the log.
pub(super) const LOG: u64 = 256 << 20;
/// Pages in memory: 64 MB, as a client on a desk would grant.
const POOL: usize = 8_192;

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let drive = &drives[0];
    // A quick run has a tenth of the messages of the largest mailbox.
    let sizes = SIZES.map(|(messages, plain, enforced)| {
        let kept = messages.min(context.count(200_000, 1));
        (kept, plain, enforced)
    });
    let cases: Vec<(u64, Rule)> = sizes
        .iter()
        .flat_map(|size| RULES.map(|(rule, _)| (size.0, rule)))
        .collect();
    let measured = context.map(&cases, |(messages, rule)| {
        sync(drive, *rule, *messages, context.seed(1))
    });
    let mut outcome = Outcome::default();
    let mut table = Table::new(&[
        "messages",
        "configuration",
        "s",
        "paper, s",
        "against no enforcement, %",
        "paper, %",
        "pages written",
        "flushes for page-outs",
        "for checkpoints",
        "for messages",
    ]);
    let mut lines = vec![Vec::new(); RULES.len()];
    for (at, (size, all)) in sizes.iter().zip(measured.chunks(RULES.len())).enumerate() {
        let (messages, plain, enforced) = *size;
        let is_whole = messages == SIZES[at].0;
        let against = |way: usize| 100.0 * (seconds(&all[way]) / seconds(&all[0]) - 1.0);
        for (way, (rule, name)) in RULES.iter().enumerate() {
            let of = &all[way];
            let paper = match rule {
                Rule::Trusting => Some(plain),
                Rule::Enforced => Some(enforced),
                _ => None,
            };
            let paper = paper.filter(|_| is_whole);
            let flushes = |cause: Cause| {
                of.count(|counts| counts.log.flushes[cause as usize])
                    .to_string()
            };
            table.row(vec![
                messages.to_string(),
                (*name).into(),
                number(seconds(of)),
                paper.map(number).unwrap_or_default(),
                format!("{:+.1}", against(way)),
                paper
                    .map(|paper| format!("{:+.1}", 100.0 * (paper / plain - 1.0)))
                    .unwrap_or_default(),
                of.count(|counts| counts.page_outs + counts.checkpoint_pages)
                    .to_string(),
                flushes(Cause::PageOut),
                flushes(Cause::Checkpoint),
                flushes(Cause::Commit),
            ]);
            lines[way].push((messages as f64, 1000.0 * seconds(of) / messages as f64));
        }
        let papers = format!("{:+.1}", 100.0 * (enforced / plain - 1.0));
        let what = format!("{messages} messages: the rule, against no enforcement");
        let cost = Finding::shown(what, against(1), "%").bound(Bound::AtMost(6.0));
        outcome
            .findings
            .push(if is_whole { cost.paper(papers) } else { cost });
        if is_whole {
            let what = format!("{messages} messages, no enforcement");
            let whole = Finding::shown(what, seconds(&all[0]), "s").paper(number(plain));
            outcome.findings.push(whole.bound(Bound::Within {
                value: plain,
                percent: 15.0,
            }));
        }
        let what = format!("{messages} messages: a flush for each, against the rule");
        let gain = 100.0 * (seconds(&all[3]) / seconds(&all[1]) - 1.0);
        outcome
            .findings
            .push(Finding::shown(what, gain, "%").bound(Bound::AtLeast(10.0)));
    }
    let panel = Panel {
        title: drive.name.clone(),
        x: Axis::log("messages, number"),
        y: Axis::log("time for a message, ms"),
        lines: RULES
            .iter()
            .zip(lines)
            .enumerate()
            .map(|(color, ((_, name), points))| Line::new(name, Style::Marked, color, points))
            .collect(),
        legend: Legend::TopRight,
    };
    let caption = "The start of the client is a part of it. The rule flushes when pages leave the pool or a checkpoint writes them.";
    outcome
        .figures
        .push(Figure::plot("wal-sync", "The time of a download", caption, vec![panel]).with(table));
    outcome.notes = vec![
        format!(
            "The client's own time is {START_S} s and {:.3} ms for a message, from the first two rows of the paper's first column.",
            MESSAGE.0 as f64 / 1e6
        ),
        "The paper does not describe the database. Here a message of 4 KB goes to the end of a table, and an entry into each of four \
         indexes of 1,000 pages; the log gets 5,000 bytes. The pool has 64 MB, a checkpoint begins after 64 MB of log. Commits of the \
         rule do not wait until they are durable."
            .into(),
    ];
    outcome
}

/// Downloads so many messages.
fn sync(drive: &DriveFile, rule: Rule, messages: u64, seed: u64) -> Measured {
    let machine = Machine::shared(drive, rule, data_bytes(messages), LOG, seed);
    download(machine, rule, messages, seed)
}

/// Bytes of the database of so many messages.
pub(super) fn data_bytes(messages: u64) -> u64 {
    Database::data_bytes(PAGE as u32, pages(messages))
}

fn pages(messages: u64) -> u64 {
    LOADED + messages * MESSAGE_BYTES / PAGE + 2
}

/// Downloads so many messages to a database on `machine`.
pub(super) fn download(machine: Machine, rule: Rule, messages: u64, seed: u64) -> Measured {
    let options = DatabaseOptions {
        page_bytes: PAGE as u32,
        pages: pages(messages),
        loaded: LOADED,
        pool_pages: POOL,
        rule,
        commit: Commit::Written,
        log_request: None,
        checkpoint_at: 0.25,
        processor: MESSAGE,
    };
    let mut random = Random::new(seed, 1);
    let mut number = 0u64;
    // The client has the indexes in memory.
    machine.measure(options, 1, [INDEX_PAGES, 0, messages], move || {
        number += 1;
        let index = |page: u64| move |index: u64| index * INDEX_PAGES + page;
        let Some(message) = number.checked_sub(INDEX_PAGES + 1) else {
            return Transaction {
                accesses: (0..INDEXES)
                    .map(index(number - 1))
                    .map(Access::read)
                    .collect(),
                log_bytes: 0,
                counted: false,
            };
        };
        let indexes = (0..INDEXES)
            .map(index(random.below(INDEX_PAGES)))
            .map(Access::write);
        let message = Access::write(LOADED + message * MESSAGE_BYTES / PAGE);
        Transaction {
            accesses: indexes.chain([message]).collect(),
            log_bytes: LOG_BYTES,
            counted: true,
        }
    })
}

/// Seconds of a download, with the start of the client.
pub(super) fn seconds(of: &Measured) -> f64 {
    START_S + of.elapsed.0 as f64 / 1e9
}
