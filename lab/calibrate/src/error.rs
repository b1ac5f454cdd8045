//! Reasons why a calibration ended without a result.

use std::path::PathBuf;
use tonearm_rt::IoError;

/// Why a calibration ended without a result.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum Error {
    #[error("the drive cannot {what} sector {lba}: {source}")]
    Io {
        what: &'static str,
        lba: u64,
        #[source]
        source: IoError,
    },
    #[error(transparent)]
    TooFewSectors(#[from] tonearm_head_study::TooFewSectors),
    #[error(
        "this host does not keep to the times of the profile's plan: most writes were sent too late; take it on a host with less to do"
    )]
    LateHost,
    #[error("interrupted")]
    Interrupted,
    #[error("a read or write of sector {lba}, outside of the region {start}..{end}, was refused")]
    OutsideRegion { lba: u64, start: u64, end: u64 },
    #[error(
        "the region has {sectors} sectors, but at least {least} are needed; choose a larger one"
    )]
    RegionTooSmall { sectors: u64, least: u64 },
    #[error(
        "the layout at sector {lba} cannot be made out ({why}); the drive may rewrite its tracks elsewhere (shingled), have tracks without skew, or answer too irregularly"
    )]
    Layout { lba: u64, why: &'static str },
    #[error("{path}: {source}")]
    State {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(
        "{path} is not the state of this calibration ({why}); resume it with the options that began it, or choose another file with --state"
    )]
    ForeignState { path: PathBuf, why: String },
}
