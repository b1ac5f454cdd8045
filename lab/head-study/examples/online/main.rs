//! Compares the online predictor with the least possible response on the mechanical drives of the project.
//!
//!     cargo run --release -p tonearm-head-study --example online -- [DRIVE] [SETTING] [SEED]
//!
//! Settings: `mimic` (default, compared with the table of Disk Mimic), `quick` (the same without the table), `drift`,
//! `step`, `idle`, `noise`, `reads`, `trail`, `mute` (completions without information).

// An example is a front end: it may read arguments and clocks.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod scenario;
mod table;
mod world;

use scenario::{Load, Score, Who, region, run};
use table::Table;
use tonearm_base::Nanos;
use tonearm_drive::{Drift, Drive, DriveOptions};
use tonearm_drive_file::{DriveSpec, library};
use tonearm_head::{Access, Head, Online, Span, TrackMap};
use tonearm_world::Kind;
use world::{Plain, Random, true_map};

const SETTINGS: [&str; 9] = [
    "mimic", "quick", "drift", "step", "idle", "noise", "reads", "trail", "mute",
];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let setting = args.iter().find(|a| SETTINGS.contains(&a.as_str()));
    let setting = setting.map_or("mimic", String::as_str);
    let seed = args.iter().find_map(|a| a.parse().ok());
    let only = args
        .iter()
        .find(|a| !SETTINGS.contains(&a.as_str()) && a.parse::<u64>().is_err());
    let wanted = |name: &str| only.is_none_or(|only| only == name);
    for entry in library().iter().filter(|d| wanted(d.name)) {
        let spec = DriveSpec::parse(entry.name, entry.text).expect("a drive of the project");
        if setting == "mute" {
            mute(entry.name, &spec);
        } else if spec.disk.is_some() {
            measure(entry.name, &spec, setting, seed);
        }
    }
}

fn measure(name: &str, spec: &DriveSpec, setting: &str, seed: Option<u64>) {
    let end = region(Drive::new(spec, &DriveOptions::default()).sectors());
    let map = true_map(spec, 0, end);
    for small in [false, true] {
        let mut load = Load::new(small);
        load.seed = seed.unwrap_or(load.seed);
        let drift = |time_constant_s: u64, start_s: u64| {
            Some(Drift {
                relative: 0.001,
                time_constant: Nanos(time_constant_s * 1_000_000_000),
                start: Nanos(start_s * 1_000_000_000),
            })
        };
        match setting {
            "drift" => (load.drift, load.writes) = (drift(600, 10), 10_000),
            "step" => load.drift = drift(0, 12),
            "idle" => (load.idle_s, load.writes, load.warm) = (3600, 1000, 2000),
            "noise" => load.noise = true,
            "reads" => load.reads = true,
            "trail" => load.trail = true,
            _ => {}
        }
        if load.trail && !small {
            continue;
        }
        let mut line = format!("{name:10} {:6}", if small { "4K" } else { "4-200K" });
        if setting == "mimic" {
            let table = Table::new(spec, 0, end, if small { 1 } else { 50 });
            line += &row("table", &run(spec, &mut Who::Table(table), &load, &[]));
        }
        let tracks = tracks(&map);
        let mapped = Online::with_map(map.clone());
        line += &row(
            "map",
            &run(spec, &mut Who::Online(Box::new(mapped)), &load, &tracks),
        );
        if !load.trail {
            let learned = Who::Online(Box::new(Online::new()));
            line += &row("learned", &run(spec, &mut { learned }, &load, &[]));
        }
        println!("{line}");
    }
}

fn row(name: &str, score: &Score) -> String {
    format!(
        " | {name} {:.3} warm {:.3} resp {:.2} miss {:.1} {:.1}+{:.1}us {}B",
        score.loss,
        score.warm,
        score.response,
        score.misses,
        score.place_micros,
        score.micros - score.place_micros,
        score.bytes
    )
}

fn tracks(map: &TrackMap) -> Vec<(u64, u64)> {
    let track = |index| map.track(index);
    (0..map.tracks())
        .map(|index| (track(index).first, track(index).end()))
        .collect()
}

/// Completions without information: a volatile cache that ignores FUA, and flash. Compares with a log without gaps.
fn mute(name: &str, spec: &DriveSpec) {
    let respond = |predict: bool| {
        let mut user = Plain::new(Drive::new(spec, &DriveOptions::default()));
        let mut online = Online::new();
        let mut random = Random(3);
        let (mut last_end, mut sum, mut skipped) = (0_u64, 0, 0);
        for k in 0..4000_u64 {
            let sectors = 8 * (1 + random.below(50) as u32);
            user.think(Nanos(random.below(91) * 100_000));
            let sent = user.now();
            let free = [Span {
                start: last_end,
                end: 1 << 20,
            }];
            let place = online.place(sent, sectors, &free).map(|p| p.sector);
            let first = if predict {
                place.unwrap_or(0)
            } else {
                last_end
            };
            skipped += first.saturating_sub(last_end);
            let response = match spec.flash {
                Some(_) => user.serve(Kind::Write, first, sectors),
                None => user.write_cached(first, sectors),
            };
            let done = user.now();
            online.written(&Access {
                first,
                sectors,
                sent,
                done,
            });
            last_end = (first + u64::from(sectors)) % ((1 << 20) - 4096);
            if k >= 1000 {
                sum += response.0;
            }
        }
        (sum as f64 / 3e9, skipped / 4000, online.status().confidence)
    };
    println!(
        "{name:10} sequential {:?} online {:?} (ms, sectors skipped, confidence)",
        respond(false),
        respond(true)
    );
}
