//! Finds out whether a device, or a part of it, is in use: mounted, used as swap, or held by another device.

use anyhow::{Context, bail};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A device and the devices related to it.
#[derive(Debug, Default)]
struct Family {
    /// Numbers (`8:0`) of the device, its partitions, and the disk that it is a partition of.
    numbers: Vec<String>,
    /// Other devices (device mapper, RAID, loop) that are built on one of them.
    holders: Vec<String>,
}

/// Refuses a device that is in use.
///
/// # Errors
/// With the use, or when it cannot be found out.
pub fn refuse_in_use(path: &Path) -> anyhow::Result<()> {
    let metadata = fs::metadata(path).with_context(|| format!("{}", path.display()))?;
    let family = match metadata.file_type().is_block_device() {
        true => family(Path::new("/sys"), metadata.rdev())
            .with_context(|| format!("cannot find out who uses {}", path.display()))?,
        false => Family::default(),
    };
    let mounts = fs::read_to_string("/proc/self/mountinfo")
        .context("cannot find out what is mounted: /proc/self/mountinfo")?;
    if let Some(place) = mounted(&mounts, &family.numbers) {
        bail!(
            "{} or a part of it is mounted on {place}; unmount it first (umount {place})",
            path.display()
        );
    }
    if let Some(holder) = family.holders.first() {
        bail!(
            "{} or a part of it belongs to {holder} (RAID, LVM or the like); take that apart first",
            path.display()
        );
    }
    // Without swap there may be no such file.
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    for swap in swapped(&swaps) {
        let same_file = fs::canonicalize(path).is_ok_and(|path| path == swap);
        let number = fs::metadata(&swap).map(|swap| number(swap.rdev()));
        if same_file || number.is_ok_and(|number| family.numbers.contains(&number)) {
            bail!(
                "{} is swap space; switch it off first (swapoff {})",
                path.display(),
                swap.display()
            );
        }
    }
    Ok(())
}

fn number(device: u64) -> String {
    format!(
        "{}:{}",
        rustix::fs::major(device),
        rustix::fs::minor(device)
    )
}

/// The devices related to device number `device`, according to `sys`.
fn family(sys: &Path, device: u64) -> anyhow::Result<Family> {
    let own = fs::canonicalize(sys.join("dev/block").join(number(device)))?;
    let mut folders = vec![own.clone()];
    for entry in fs::read_dir(&own)? {
        let entry = entry?.path();
        if entry.join("partition").exists() {
            folders.push(entry);
        }
    }
    if own.join("partition").exists()
        && let Some(disk) = own.parent()
    {
        folders.push(disk.to_path_buf());
    }
    let mut family = Family::default();
    for folder in folders {
        let number = fs::read_to_string(folder.join("dev"))?;
        family.numbers.push(number.trim().to_owned());
        if let Ok(holders) = fs::read_dir(folder.join("holders")) {
            for holder in holders {
                let name = holder?.file_name();
                family.holders.push(name.to_string_lossy().into_owned());
            }
        }
    }
    Ok(family)
}

/// Where one of the devices is mounted, in the format of mountinfo.
fn mounted<'a>(mounts: &'a str, numbers: &[String]) -> Option<&'a str> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let number = fields.nth(2)?;
        let place = fields.nth(1)?;
        numbers.iter().any(|known| known == number).then_some(place)
    })
}

/// The files and devices that are swap space, in the format of /proc/swaps.
fn swapped(swaps: &str) -> impl Iterator<Item = PathBuf> {
    swaps
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .map(PathBuf::from)
}

#[cfg(test)]
#[path = "guard_test.rs"]
mod guard_test;
