//! The smallest units: the third benchmark of ARU 5.2.

use super::setup::{SEGMENTS, stores};
use crate::experiment::{Context, Outcome};
use crate::report::{Bound, Finding};
use tonearm_disk::DiskError;
use tonearm_drive_file::DriveFile;

/// Bytes of log and the time, in ns, for `count` units, which are empty or `change` one word of a block.
fn smallest(
    drive: &DriveFile,
    seed: u64,
    count: u64,
    change: bool,
) -> Result<(u64, u64), DiskError> {
    let (machine, mut stores) = stores(drive, SEGMENTS, 1, seed)?;
    let own = machine.clone();
    machine.rt.block_on(async move {
        let store = stores.remove(0);
        let disk = store.open().await?;
        let list = disk.new_list().await?;
        let block = disk.new_block(list, None).await?;
        let mut page = vec![0xa5; 4096];
        disk.write_block(block, &page).await?;
        disk.flush().await?;
        let (meter, log_bytes) = (own.meter(), disk.stats().log_bytes);
        for number in 0..count {
            let mut unit = disk.begin();
            if change {
                page[..8].copy_from_slice(&number.to_le_bytes());
                unit.write_block(block, &page).await?;
            }
            unit.end().await?;
        }
        disk.flush().await?;
        let (spent, log_bytes) = (meter.end(), disk.stats().log_bytes - log_bytes);
        disk.close().await?;
        Ok((log_bytes, spent.time.0))
    })
}

/// Runs it.
pub fn smallest_units(context: &Context<'_>, drive: &DriveFile, outcome: &mut Outcome) {
    let seed = context.seed(0);
    let units = context.count(500_000, 50_000);
    let results = context.map(&[false, true], |change| {
        smallest(drive, seed, units, *change).expect("units end")
    });
    let each = |amount: u64| amount as f64 / units as f64;
    outcome.findings.extend([
        Finding::shown("an empty unit: log", each(results[0].0), "bytes")
            .paper("25 (24 segments of 0.5 MB for 500,000)")
            .bound(Bound::AtMost(0.0))
            .because("A unit without changes has nothing to tell the log. It is dropped, so it is not the paper's empty unit."),
        Finding::shown(
            "the smallest unit that is not empty, one word of a block: log",
            each(results[1].0),
            "bytes",
        )
        .paper("25, an empty one")
        .bound(Bound::AtMost(32.0)),
        Finding::shown(
            "the smallest unit that is not empty: time of the drive",
            each(results[1].1) / 1e3,
            "us",
        )
        .paper("78.47, an empty one, with the processor's"),
    ]);
}
