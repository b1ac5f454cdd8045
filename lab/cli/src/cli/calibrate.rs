//! `tonearm-lab calibrate`: a drive's file from the drive itself.

use clap::{Args, ValueEnum};
use std::ops::Range;
use std::path::PathBuf;
use tonearm_terminal::size;

/// `tonearm-lab calibrate`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm-lab calibrate --drive atlas10k --out mine.toml
        a simulated drive, in virtual time: to see how it works
  tonearm-lab calibrate /dev/sdx --out sdx.toml
        by reads alone: changes nothing, takes longer, and leaves out what only writes show
  tonearm-lab calibrate /dev/sdx --allow-destroy --out sdx.toml --profile sdx.profile
        by writes: ALL THAT IS ON THE DEVICE IS LOST
  tonearm-lab calibrate /dev/sdx --allow-destroy --region 0B..4GiB --out sdx.toml
        destroys the first 4 GiB alone, and looks at nothing else
  tonearm-lab calibrate /dev/sdx --allow-destroy --out sdx.toml --resume
        goes on after Ctrl-C, a crash or a power cut

The drive is seen through the times of reads and writes alone. The result is a drive file, as
`tonearm-lab drive show|bench|validate` and `tonearm create --log-drive` take it; without --out it goes
to standard output. A device that is mounted or in other use is never touched.")]
pub struct Calibrate {
    /// The block device (or a file, which is measured as a drive without a platter)
    #[arg(required_unless_present = "drive", conflicts_with = "drive")]
    pub device: Option<PathBuf>,
    /// Calibrate a simulated drive instead: a name of `tonearm-lab drive list`, or a .toml file
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub drive: Option<String>,
    /// Write the drive's file there
    #[arg(long, value_name = "FILE.toml")]
    pub out: Option<PathBuf>,
    /// Take a profile for the Disk Mimic, too, and write it there
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// How fine the profile is
    #[arg(long, value_enum, value_name = "short|paper", default_value_t = ProfileGrid::Short)]
    pub profile_grid: ProfileGrid,
    /// Write to the device; what is in the region is lost. If a Tonearm store is there, it has to be
    /// named: --allow-destroy=UUID
    #[arg(long, value_name = "UUID", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub allow_destroy: Option<String>,
    /// Keep to this part of the device, such as 1GiB..5GiB [default: all of it]
    #[arg(long, value_name = "FROM..TO", value_parser = region)]
    pub region: Option<Range<u64>>,
    /// Where the state is kept, for --resume [default: NAME.calibration here; none for --drive]
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Go on with a calibration that was interrupted
    #[arg(long)]
    pub resume: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// How fine a profile is.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProfileGrid {
    /// Requests up to 32 KiB, think times by 1 ms, three samples: minutes
    Short,
    /// As in the Disk Mimic paper: requests up to 200 KiB, by 0.1 ms, 25 samples: days
    Paper,
}

/// `1GiB..5GiB` in bytes.
fn region(text: &str) -> Result<Range<u64>, String> {
    let advice = || "two sizes, such as 0B..4GiB, the first one smaller".to_string();
    let (from, to) = text.split_once("..").ok_or_else(advice)?;
    let zero = matches!(from.trim(), "" | "0" | "0B");
    let from = if zero { 0 } else { size::parse(from)? };
    let to = size::parse(to)?;
    if from >= to {
        return Err(advice());
    }
    if !from.is_multiple_of(4096) || !to.is_multiple_of(4096) {
        return Err("both ends must be multiples of 4096 bytes".into());
    }
    Ok(from..to)
}
