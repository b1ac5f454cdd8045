//! Errors of a study: what, where, what to do.

use super::case::FOOTPRINT_BYTES_MAX;
use std::io;
use thiserror::Error;
use tonearm_disk::DiskError;
use tonearm_engine::EngineError;
use tonearm_trace::TraceError;

/// A study that cannot be made.
#[derive(Error, Debug)]
pub enum StudyError {
    /// The trace's file cannot be opened.
    #[error("cannot open the trace {name}: {source}")]
    Open {
        /// The trace's name, as given.
        name: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A folder was given.
    #[error("{name} is a folder, not a trace")]
    Folder {
        /// The trace's name, as given.
        name: String,
    },
    /// The first request is of several formats.
    #[error(
        "the first request of the trace {name} is of several formats: {}; give its --format",
        fitting.join(", ")
    )]
    Format {
        /// The trace's name, as given.
        name: String,
        /// Those in which the first request can be read.
        fitting: Vec<&'static str>,
    },
    /// The first line is of no format.
    #[error(
        "the trace {name} is of no known format: it begins with '{begin}'; `tonearm-lab study --help` shows how the \
         lines of each format look"
    )]
    Unknown {
        /// The trace's name, as given.
        name: String,
        /// How its first line begins.
        begin: String,
    },
    /// The file has bytes of value 0.
    #[error(
        "the trace {name} is not text; `tonearm-lab study --help` shows the formats that are read (blkparse makes text of \
         blktrace's files)"
    )]
    NoText {
        /// The trace's name, as given.
        name: String,
    },
    /// A line of the trace is wrong.
    #[error("{error}{advice}")]
    Trace {
        /// File, line and reason.
        error: TraceError,
        /// What to do; begins with a semicolon.
        advice: String,
    },
    /// Nothing in the trace can be used.
    #[error(
        "the trace {name} has no read and no write{}; {}",
        of_device(*device),
        match others[..] {
            [] => "is it complete, and is --format right?".to_string(),
            _ => format!("it has requests of {}", listed(others)),
        }
    )]
    Empty {
        /// The trace's name, as given.
        name: String,
        /// The only device that was asked for.
        device: Option<u32>,
        /// Devices that the trace has.
        others: Vec<u32>,
    },
    /// The blocks of the trace are too many for a simulation.
    #[error(
        "the blocks that the trace {name} touches up to line {line} have {} GiB, and a study holds at most {} GiB; take one --device, or a part of the trace (--requests, --for)",
        gib(*bytes),
        gib(FOOTPRINT_BYTES_MAX)
    )]
    Footprint {
        /// The trace's name, as given.
        name: String,
        /// The last line that was read.
        line: u64,
        /// Bytes of the blocks.
        bytes: u64,
    },
    /// The store of the trace is larger than a drive.
    #[error(
        "the trace {name} touches {} GiB, which needs {} GiB of {what} at {percent} % utilisation, and {drive} has {} \
         GiB; take a larger drive, {more}one --device, or a part of the trace (--requests, --for)",
        gib(*footprint_bytes),
        gib(*needed_bytes),
        gib(*drive_bytes)
    )]
    Fit {
        /// The trace's name, as given.
        name: String,
        /// Bytes of the trace's blocks.
        footprint_bytes: u64,
        /// Bytes that the store takes of the drive.
        needed_bytes: u64,
        /// The kind of the drive: "each drive" or "the log drive".
        what: &'static str,
        /// Utilisation of the store that is too large.
        percent: u64,
        /// The drive.
        drive: String,
        /// What it has.
        drive_bytes: u64,
        /// More --disks, where that helps.
        more: &'static str,
    },
    /// The engine refuses such a store.
    #[error("such a store cannot be made: {0}")]
    Plan(#[from] EngineError),
    /// The engine failed.
    #[error("{case}: {source}")]
    Engine {
        /// What was simulated.
        case: String,
        /// The error of the engine.
        source: DiskError,
    },
}

fn gib(bytes: u64) -> String {
    crate::report::number(bytes as f64 / f64::from(1 << 30))
}

fn of_device(device: Option<u32>) -> String {
    device.map_or(String::new(), |device| format!(" of device {device}"))
}

fn listed(devices: &[u32]) -> String {
    let names: Vec<String> = devices.iter().map(u32::to_string).collect();
    let word = if devices.len() == 1 {
        "device"
    } else {
        "devices"
    };
    format!("{word} {}", names.join(", "))
}
