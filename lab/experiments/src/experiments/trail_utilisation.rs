//! How full the tracks of a log get under concurrency (Trail 5.2).

use crate::experiment::{Context, Drives, Experiment, Outcome, Random};
use crate::harness::{Moves, Processes, Rig, TrailLog, all_tracks, formula};
use crate::report::{Axis, Bound, Figure, Finding, Legend, Line, Panel, Style, Table, number};
use tonearm_base::Nanos;
use tonearm_drive_file::DriveFile;

pub const EXPERIMENT: Experiment = Experiment {
    name: "trail-utilisation",
    title: "Utilisation of tracks with one batched write on each",
    source: "Trail 5.2",
    about: "Transactions commit through the log; what waits goes into one write, and each write has a track of its \
            own. The more transactions run at a time, the fuller the tracks.",
    drives: Drives::One("st41601n"),
    run,
};

/// Concurrency, and the paper's utilisation in percent.
const PAPER: [(u32, f64); 3] = [(4, 12.0), (8, 21.0), (12, 30.0)];
/// Sectors of log that a transaction writes: 448 commits of 100 KB in 10,000 transactions (Trail, Table 3).
const RECORD: u32 = 9;
/// Mean time from the end of one commit of a client to its next commit, in ms.
const THINK_MS: f64 = 25.0;
const CONCURRENCIES: [u32; 6] = [1, 2, 4, 8, 12, 16];

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let drive = &drives[0];
    let map = all_tracks(drive);
    let transactions = context.count(10_000, 2_000);
    let used = context.map(&CONCURRENCIES, |clients| {
        let rig = Rig::new(drive, context.seed(1));
        let mut log = TrailLog::new(rig, &map, formula(drive, &map), Moves::EachWrite);
        let mut random = Random::new(context.seed(2), u64::from(*clients));
        let mut processes = Processes::new(*clients, Nanos(0));
        let mut think = || Nanos((random.exponential(THINK_MS) * 1e6) as u64);
        for client in 0..*clients {
            processes.again(client as usize, think());
        }
        let mut committed = 0;
        while committed < transactions {
            log.idle_until(processes.next());
            let mut waiting = processes.waiting(log.rig.now());
            waiting.truncate((log.room().saturating_sub(1) / RECORD).max(1) as usize);
            let done = log.append(waiting.len() as u32 * RECORD);
            committed += waiting.len() as u64;
            for (_, client) in waiting {
                processes.again(client, Nanos(done.0 + think().0));
            }
            log.after_write();
        }
        log.totals.used_percent()
    });
    let mut outcome = Outcome::default();
    let mut table = Table::new(&["concurrency", "paper, %", "here, %"]);
    for (clients, used) in CONCURRENCIES.iter().zip(&used) {
        let paper = PAPER.iter().find(|(known, _)| known == clients);
        table.row(vec![
            clients.to_string(),
            paper.map_or(String::new(), |(_, percent)| number(*percent)),
            number(*used),
        ]);
        let Some((_, percent)) = paper else { continue };
        let finding = Finding::shown(format!("utilisation at concurrency {clients}"), *used, "%");
        outcome.findings.push(match clients {
            12 => finding.paper("over 30").bound(Bound::AtLeast(30.0)),
            _ => finding.paper(number(*percent)).bound(Bound::Within {
                value: *percent,
                percent: 20.0,
            }),
        });
    }
    let points =
        |values: Vec<(u32, f64)>| values.into_iter().map(|(x, y)| (f64::from(x), y)).collect();
    let here = CONCURRENCIES.iter().copied().zip(used).collect();
    outcome.figures.push(
        Figure::plot(
            "trail-utilisation",
            "Share of a track that one batched write uses",
            "Clients commit, think and commit again; the log takes all that wait.",
            vec![Panel {
                title: drive.name.clone(),
                x: Axis::linear("transactions at a time"),
                y: Axis::linear("used share of a track, %"),
                lines: vec![
                    Line::new("paper", Style::Dots, 1, points(PAPER.to_vec())),
                    Line::new("here", Style::Marked, 0, points(here)),
                ],
                legend: Legend::TopLeft,
            }],
        )
        .with(table),
    );
    outcome.notes = vec![
        format!(
            "The paper's TPC-C runs are not repeated; the model: each transaction writes {RECORD} sectors of log, as \
             Table 3 of the paper has it (448 commits of 100 KB for 10,000 transactions), and a client commits \
             again after an exponentially distributed time of {THINK_MS} ms on average."
        ),
        "That mean is the one free parameter. It is chosen for the figure at concurrency 8; those at 4 and 12 \
         follow."
            .into(),
        "The log is the laboratory's own: the product's log keeps a marker sector on each track, and its records have whole \
         blocks of 4 KiB."
            .into(),
    ];
    outcome
}
