//! The notes next to the figures of a study.

use super::case::{BLOCK, Layout};
use super::load::Load;
use super::page::mib;
use super::setup::{Setup, Study, WARM_UP_MAX};
use crate::report::number;
use tonearm_drive::{Drive, DriveOptions};
use tonearm_format::{ArrayLevel, SegmentLayout, segments_reserved};
use tonearm_trace::SECTOR_BYTES;

/// A measurement of less virtual time shows little of the write-back, which waits for 5 seconds if it can. A trace of less time shows
/// little of its users.
const SECONDS_MIN: f64 = 60.0;

/// Traces whose requests come closer together or farther apart than these are probably read in a wrong unit.
const SECONDS_APART: std::ops::Range<f64> = 1e-6..10.0;

/// Fewer requests have no rate.
const REQUESTS_OF_A_RATE: u64 = 100;

/// What makes this study weaker than others, or its trace unusual.
pub(super) fn warnings(study: &Study, setup: &Setup, load: &Load) -> Vec<String> {
    let trace = &study.trace;
    let mut warnings = Vec::new();
    if let Some(rate) = trace.requests_per_s
        && trace.requests >= REQUESTS_OF_A_RATE
        && !SECONDS_APART.contains(&(1.0 / rate))
    {
        warnings.push(format!(
            "The requests come {} ms apart on average. Few disks are asked so {}: are the times of the trace in the unit \
             of the format {} (--help)?",
            number(1e3 / rate),
            if rate < 1.0 { "rarely" } else { "often" },
            trace.format
        ));
    }
    if trace.moved_up > 0 {
        warnings.push(format!(
            "{} requests lay before the line above in time, by up to 10 s, and were moved to its time: a trace of \
             several processors is like that, and several traces that were joined are, too.",
            trace.moved_up
        ));
    }
    let drive_bytes =
        Drive::new(&setup.drive.spec, &DriveOptions::default()).sectors() * SECTOR_BYTES;
    let parity = u64::from(setup.array == Some(ArrayLevel::Raid5));
    let room = drive_bytes * (setup.disks as u64 - parity);
    if trace.reach_bytes > room {
        warnings.push(format!(
            "The trace reaches {} into its device, and the drives have {}. What it touches fits, and is studied; the \
             whole device would not fit.",
            mib(trace.reach_bytes),
            mib(room)
        ));
    }
    if !trace.complete {
        warnings.push(format!(
            "The trace continues after the {} requests that were studied (--requests, --for).",
            trace.requests
        ));
    }
    let data = load.blocks * BLOCK;
    let reserved = u64::from(setup.segment_bytes())
        * segments_reserved(&SegmentLayout {
            block_size: BLOCK as u32,
            segment_bytes: setup.segment_bytes(),
            segments: 0,
        });
    let most = setup.utilisations.iter().copied().max().unwrap_or(100);
    let real = 100.0 * data as f64 / (data * 100 / most + reserved) as f64;
    if real < most as f64 - 1.0 {
        warnings.push(format!(
            "The trace touches little: besides the spare share, a store with segments has {} in reserve, which counts for \
             more here than in a large store. With it the data takes {real:.0} % of the segments where {most} % is \
             written, so these layouts look better here than with more data.",
            mib(reserved)
        ));
    }
    if load.blocks * BLOCK < setup.memory_bytes {
        warnings.push(
            "All blocks that the trace touches fit in the memory for written data (--memory). Write-back comes from \
             their age alone, and the layouts differ less than they would with more data."
                .into(),
        );
    }
    let unsteady = study.cases.iter().filter(|case| !case.is_steady()).count();
    if unsteady > 0 {
        warnings.push(format!(
            "* In {unsteady} of {} cases the write cost differs by more than 10 % between the halves of the \
             measurement: a steady state was not reached, or the trace itself changes. More --requests may help.",
            study.cases.len()
        ));
    }
    if study.warm_up_requests == WARM_UP_MAX * setup.requests {
        warnings.push(
            "The warm-up was too short to write every block once more: the trace writes few of the blocks that it \
             touches. The segments are still in the order of the first writing."
                .into(),
        );
    }
    let shortest = shortest_seconds(study);
    if shortest < SECONDS_MIN {
        warnings.push(format!(
            "The shortest measurement is {shortest:.1} s of the drives' time, and blocks stay in memory for 5 s if there \
             is room: the work of the layouts shows only in part. Take more --requests."
        ));
    }
    warnings
}

/// Virtual time of the shortest measurement.
fn shortest_seconds(study: &Study) -> f64 {
    let seconds = study.cases.iter().map(|case| case.measured.seconds);
    seconds.fold(f64::INFINITY, f64::min)
}

/// Why the study gives no verdict; none when trace and measurements are long enough.
pub(super) fn too_short(study: &Study) -> Option<String> {
    let trace = &study.trace;
    let shortest = shortest_seconds(study);
    if let Some(seconds) = trace.seconds.filter(|seconds| *seconds < SECONDS_MIN) {
        return Some(format!(
            "the trace has {} s of requests; record at least a minute, better an hour of the busiest time",
            number(seconds)
        ));
    }
    (shortest < SECONDS_MIN).then(|| {
        format!(
            "the shortest measurement is {} s of the drives' time; take more --requests",
            number(shortest)
        )
    })
}

/// The command that makes a store of the recommended layout on such drives.
pub(super) fn create_command(study: &Study, setup: &Setup) -> String {
    let best = &study.recommendation;
    let mib = study.trace.reach_bytes.div_ceil(1 << 20).max(1);
    let size = match mib.is_multiple_of(1024) || mib > 64 << 10 {
        true => format!("{}GiB", mib.div_ceil(1024)),
        false => format!("{mib}MiB"),
    };
    let mut words = vec![format!("tonearm create PATH --size {size}")];
    if best.layout != Layout::Overwrite {
        words.push(format!("--layout {}", best.layout.name()));
        let segment = setup.segment_bytes();
        if segment != 1 << 20 {
            words.push(format!("--segment-size {}KiB", segment >> 10));
        }
        let percent = best.utilisation_percent.unwrap_or(90);
        words.push(format!("--spare {}", 100 - percent));
    }
    if let Some(level) = setup.array {
        words.push(format!("--redundancy {}", level.name()));
    }
    // With an array PATH has the log alone.
    let first = if setup.array.is_some() { 1 } else { 2 };
    words.extend((first..=setup.disks).map(|disk| format!("--data PATH{disk}")));
    words.join(" ")
}

/// How it was measured, and what the models do not know.
pub(super) fn notes(study: &Study, setup: &Setup) -> Vec<String> {
    let trace = &study.trace;
    let mut notes = Vec::new();
    let all = study.warm_up_requests + setup.requests;
    let passes = all as f64 / trace.requests as f64;
    notes.push(format!(
        "How it was measured: the product's own engine ran on simulated drives in virtual time, with its usual options \
         ({} of memory for written data). Every block that the trace touches was written once; {} requests warmed each store up, \
         the next {} were measured at the trace's load, and after {} more another {} at twice the load. {}",
        mib(setup.memory_bytes),
        study.warm_up_requests,
        setup.requests,
        setup.requests / 4,
        setup.requests,
        if passes > 1.0 {
            format!(
                "The {} requests that were taken of the trace are too few for a steady state, and were repeated: they \
                 ran {passes:.1} times up to the end of the first measurement.",
                trace.requests
            )
        } else {
            String::new()
        }
    ));
    let disk = setup.drive.spec.disk.as_ref();
    if let Some(cache) = disk.and_then(|disk| disk.media_cache.as_ref()) {
        notes.push(format!(
            "{} writes to a media cache of {} first. A measurement that writes less does not fill it, and shows the drive as it \
             is for a while. Once it is full, writes at random places take many times as long (docs/drives.md), \
             which concerns overwrite and hylog most.",
            setup.drive.name,
            mib(cache.sectors * 512)
        ));
    }
    let [without, with] = study.separation_seconds;
    notes.push(format!(
        "wolf and hylog decided which blocks are hot every {without:.0} s ({with:.0} s with a log drive), a 20th of the \
         measured time. The product's default is 20 minutes, of which a short trace has too few."
    ));
    notes.push(
        "What the models do not know: response times of a drive's model have errors of a few percent of the mean \
         (docs/drives.md), and more for a file that was not calibrated; processor time, network and file system are \
         not in them, and no request is answered by a cache of the host. The blocks of the trace were packed densely, \
         so seeks are shorter than on a drive that is full of other data, and sequential reads may cross gaps that \
         the real drive has. The layouts with segments take the trace's blocks divided by the utilisation; overwrite \
         needs no such space, and has one row for all utilisations. The trace does not say what is written: each \
         write changes all words of its blocks."
            .into(),
    );
    notes
}
