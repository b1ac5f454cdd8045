//! The simulated drives of a run.

use crate::cuts::Broken;
use crate::script::Model;
use tonearm_drive::{Drive, DriveOptions};
use tonearm_drive_file::DriveFile;
use tonearm_world::{DiskImage, SimDisk, SimOptions, SimWorld, Zeroing};

/// A world for one generation of a run. Its drives follow `model`, or have random latencies.
///
/// # Errors
/// When the model does not exist.
pub fn world_of(
    model: Option<&Model>,
    seed: u64,
    images: Vec<DiskImage>,
) -> Result<SimWorld, Broken> {
    let options = SimOptions {
        seed,
        hash_content: true,
        ..SimOptions::default()
    };
    let Some(model) = model else {
        return Ok(SimWorld::new(options, images));
    };
    let spec = DriveFile::find(&model.name)
        .map_err(|error| (0, 0, error.to_string()))?
        .spec;
    let disk = |(index, image)| SimDisk {
        image,
        timing: Box::new(Drive::new(
            &spec,
            &DriveOptions {
                seed: seed.wrapping_add(index as u64),
                write_cache: Some(model.write_cache),
                phase: 0.37 * index as f64,
                ..DriveOptions::default()
            },
        )),
        write_cache: model.write_cache,
        zeroing: Zeroing::Write,
    };
    let disks = images.into_iter().enumerate().map(disk).collect();
    Ok(SimWorld::with_disks(options, disks))
}
