//! What a study is given, and what it returns.

use super::case::Case;
use super::character::Character;
use super::recommend::Recommendation;
use crate::report::Figure;
use serde::Serialize;
use tonearm_drive_file::DriveFile;
use tonearm_format::ArrayLevel;

/// Longest warm-up, in measurements.
pub const WARM_UP_MAX: u64 = 4;

/// What is studied.
pub struct Setup {
    /// The drive of the home.
    pub drive: DriveFile,
    /// How many there are.
    pub disks: usize,
    /// How the home is spread over them.
    pub array: Option<ArrayLevel>,
    /// The drive of the log, in the cases that have one.
    pub log_drive: DriveFile,
    /// Share of the segments that hold live blocks, in percent, 25 to 98.
    pub utilisations: Vec<u64>,
    /// Requests of a measurement.
    pub requests: u64,
    /// Clients of a closed loop.
    pub clients: u64,
    /// Bound on written data in memory.
    pub memory_bytes: u64,
    /// Seed of all that is random.
    pub seed: u64,
}

/// The result of a study.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct Study {
    /// What the trace is like.
    pub trace: Character,
    /// The drive of the home.
    pub drive: String,
    /// How many there are.
    pub disks: usize,
    /// How the home is spread over them.
    pub redundancy: &'static str,
    /// The drive of the log, in the cases that have one.
    pub log_drive: String,
    /// Clients of a closed loop.
    pub clients: Option<u64>,
    /// Bound on written data in memory.
    pub memory_bytes: u64,
    /// Seed of all that is random.
    pub seed: u64,
    /// Requests before each measurement at the trace's rate.
    pub warm_up_requests: u64,
    /// Seconds between two decisions of wolf and hylog which blocks are hot: without and with a drive for the log.
    pub separation_seconds: [f64; 2],
    /// What was measured.
    pub cases: Vec<Case>,
    /// Which layout to choose.
    pub recommendation: Recommendation,
    /// The command that makes a store of the recommended layout.
    pub create: String,
    /// What makes this study weaker than others, or its trace unusual.
    pub warnings: Vec<String>,
    /// How it was measured, and what the models do not know.
    pub notes: Vec<String>,
    /// Plots.
    #[serde(skip)]
    pub figures: Vec<Figure>,
}
