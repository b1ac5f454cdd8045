//! The size of a segment that `tonearm create` gives the engine.

use crate::cli::{Create, RedundancyMode, SegmentSize};
use anyhow::{Context, bail};
use tonearm_drive_file::DriveFile;
use tonearm_format::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};
use tonearm_layout::separation::cost;

/// Share of the largest segment I/O efficiency (HyLog, equation 6). It makes a segment four times what the drive transfers
/// while it finds a place.
const EFFICIENCY_SHARE: f64 = 0.8;

/// Bytes of a segment.
///
/// # Errors
/// When the size is not possible, or a drive is to choose it that is not known.
pub fn bytes(arguments: &Create) -> anyhow::Result<u32> {
    match arguments.segment_size {
        SegmentSize::Bytes(bytes) => u32::try_from(bytes).ok().with_context(|| {
            format!("a segment of {bytes} bytes is not possible; 1MiB is a good one")
        }),
        SegmentSize::Auto => of_drive(arguments),
    }
}

/// The power of two nearest to equation 6 for each drive that a segment keeps busy.
fn of_drive(arguments: &Create) -> anyhow::Result<u32> {
    let Some(name) = &arguments.data_drive else {
        bail!(
            "--segment-size auto needs --data-drive: the file of a data drive that `tonearm-lab calibrate` made, or a name that \
             `tonearm-lab drive list` knows"
        );
    };
    let file = DriveFile::find(name)?;
    let Some(disk) = &file.spec.disk else {
        bail!("{name} has no platter, so no size of a segment follows from it; 1MiB is a good one");
    };
    let wanted = cost::segment_bytes(EFFICIENCY_SHARE, disk.positioning(), disk.sustained_rate());
    let drives = match arguments.redundancy {
        RedundancyMode::None => 1,
        RedundancyMode::Raid0 => arguments.data.len(),
        RedundancyMode::Raid5 => arguments.data.len().saturating_sub(1),
    };
    let drives = drives.max(1) as u64;
    let stripe = match arguments.redundancy {
        RedundancyMode::None => 0,
        _ => arguments.stripe,
    };
    let most = u64::from(SEGMENT_BYTES_MAX) / drives;
    let mut each = u64::from(SEGMENT_BYTES_MIN).max(stripe);
    // The next power of two is nearer when the wanted size is beyond its mean with this one.
    while each * 2 <= most && wanted > each as f64 * std::f64::consts::SQRT_2 {
        each *= 2;
    }
    u32::try_from(each * drives).context("the stripes are too large for a segment")
}
