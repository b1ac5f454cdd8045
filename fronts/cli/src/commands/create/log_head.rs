//! The parameters that `tonearm create` gives the engine for the drives of the log.

use crate::cli::{Create, HeadMode, RedundancyMode};
use anyhow::{Context, bail};
use rustix::fs::{FileType, Mode, OFlags};
use std::path::{Path, PathBuf};
use tonearm_disk::{HeadParams, LogDrive};
use tonearm_drive_file::DriveFile;
use tonearm_format::{HEADER_AREA_BYTES, HeadKind, SECTOR, SkipTable};
use tonearm_head::{Profile, Table};
use tonearm_terminal::report;

/// Bytes of the sectors in which drives count.
const DRIVE_SECTOR: u64 = 512;

/// How the heads of the log's drives are followed, if at all.
///
/// # Errors
/// When required information is missing. The error says what to do.
pub fn params(arguments: &Create) -> anyhow::Result<Option<HeadParams>> {
    let kind = match arguments.head {
        HeadMode::Sequential => return Ok(None),
        HeadMode::Auto if arguments.log_drive.is_empty() => {
            hint(arguments);
            return Ok(None);
        }
        HeadMode::Auto | HeadMode::Online => HeadKind::Online,
        HeadMode::Formula => HeadKind::Formula,
        HeadMode::Mimic => HeadKind::Mimic,
    };
    let log = log_drives(arguments);
    if log.is_empty() {
        bail!(
            "a head can be followed only on a drive that carries the log alone: name it with --log"
        );
    }
    let one_each = |what: &str, count: usize| {
        if count != 0 && count != log.len() {
            bail!(
                "there are {} log drives and {count} {what}: give one for each, in the same order",
                log.len()
            );
        }
        Ok(())
    };
    one_each("--log-drive", arguments.log_drive.len())?;
    one_each("--log-profile", arguments.log_profile.len())?;
    let mut drives = vec![LogDrive::default(); log.len()];
    for (drive, name) in drives.iter_mut().zip(&arguments.log_drive) {
        describe(drive, name, kind)?;
    }
    for (drive, path) in drives.iter_mut().zip(&arguments.log_profile) {
        drive.table = Some(table_of(path)?);
    }
    let mut sector_bytes = 0;
    for path in log {
        sector_bytes = sector_bytes.max(physical_sector(path)?);
    }
    Ok(Some(HeadParams {
        kind,
        sector_bytes,
        drives,
    }))
}

/// The drives that carry the log alone. Beside an array the primary member does.
fn log_drives(arguments: &Create) -> &[PathBuf] {
    match arguments.redundancy {
        RedundancyMode::None => &arguments.log,
        _ => std::slice::from_ref(&arguments.path),
    }
}

/// Fills in the values of the drive's file.
fn describe(drive: &mut LogDrive, name: &str, kind: HeadKind) -> anyhow::Result<()> {
    let file = DriveFile::find(name)?;
    let Some(disk) = &file.spec.disk else {
        bail!("{name} has no platter: there is no head to follow; use --head sequential");
    };
    if disk.media_cache.is_some() {
        bail!(
            "{name} has a media cache, and writes elsewhere than its host says: there is no head to follow; use --head sequential"
        );
    }
    let sectors = HEADER_AREA_BYTES / DRIVE_SECTOR..u64::MAX;
    let map = tonearm_drive_file::track_map(&file.spec, sectors)
        .with_context(|| format!("{name} has no track after its first MiB"))?;
    drive.period_ps = (60e12 / disk.rotation.rpm).round() as u64;
    if kind == HeadKind::Formula {
        let deltas = tonearm_drive_file::deltas(disk);
        drive.deltas = Some(deltas.with_context(|| {
            format!(
                "{name} has no section [disk.deltas], which the formula needs: `tonearm-lab drive deltas {name}` prints it, \
                 to be added to the file; or use --head online"
            )
        })?);
    }
    drive.tracks = Some(map);
    Ok(())
}

/// The full table of the profile at `path`.
fn table_of(path: &Path) -> anyhow::Result<SkipTable> {
    let bytes = std::fs::read(path)
        .with_context(|| format!("cannot read the profile {}", path.display()))?;
    let profile = Profile::decode(&bytes).with_context(|| format!("{}", path.display()))?;
    let table = Table::best(&profile).with_context(|| format!("{}", path.display()))?;
    Ok(tonearm_engine::sheet_table(&table))
}

/// Bytes of the smallest piece that the medium writes without reading around it. `None` for a file.
fn physical_sector(path: &Path) -> anyhow::Result<u16> {
    let is_device = |path: &Path| {
        rustix::fs::stat(path)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice)
    };
    if !is_device(path) {
        return Ok(SECTOR as u16);
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let bytes = rustix::fs::open(path, flags, Mode::empty())
        .and_then(rustix::fs::ioctl_blkpbszget)
        .with_context(|| format!("cannot find the sector size of {}", path.display()))?;
    if bytes as usize > SECTOR {
        bail!(
            "{} has sectors of {bytes} bytes, more than a block; use --head sequential",
            path.display()
        );
    }
    Ok(bytes as u16)
}

/// Tells the user how the log could be faster on a hard disk.
fn hint(arguments: &Create) {
    for path in log_drives(arguments) {
        if rotates(path) == Some(true) {
            report::note(format_args!(
                "{} says that it rotates: calibrate it first (tonearm-lab calibrate) and name the result with --log-drive, \
                 and a durable write waits neither for a seek nor for the platter",
                path.display()
            ));
        }
    }
}

/// The kernel's information about a block device.
fn rotates(path: &Path) -> Option<bool> {
    let stat = rustix::fs::stat(path).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::BlockDevice {
        return None;
    }
    let (major, minor) = (
        rustix::fs::major(stat.st_rdev),
        rustix::fs::minor(stat.st_rdev),
    );
    let queue = |folder: &str| format!("/sys/dev/block/{major}:{minor}/{folder}/rotational");
    // A partition has the queue of its disk.
    let text = ["queue", "../queue"]
        .iter()
        .find_map(|folder| std::fs::read_to_string(queue(folder)).ok())?;
    Some(text.trim() == "1")
}
