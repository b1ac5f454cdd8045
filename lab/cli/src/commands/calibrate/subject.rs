//! The subject of a calibration: a real device, or a simulated drive in virtual time.

use super::guard;
use crate::cli::Calibrate;
use anyhow::bail;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_device::{Device, RawDevice};
use tonearm_drive::{Drive, DriveOptions};
use tonearm_drive_file::DriveFile;
use tonearm_rt::{DeviceId, Rt};
use tonearm_store::Executor;
use tonearm_terminal::report;
use tonearm_uring::{Lock, MemberKind, MemberOptions, open_member};
use tonearm_world::{SimDisk, SimOptions, SimWorld, Zeroing};

/// The device or drive to calibrate.
pub struct Subject {
    /// Path, or name of the simulated drive.
    pub name: String,
    /// Its size.
    pub size_bytes: u64,
    /// The device.
    pub device: Rc<dyn Device>,
    /// Its executor.
    pub rt: Rt,
    /// The simulated world, which counts the requests; none for a device.
    pub world: Option<SimWorld>,
    started: Nanos,
}

impl Subject {
    /// Opens what `arguments` name.
    ///
    /// # Errors
    /// When it may not be used, or cannot be opened.
    pub fn open(arguments: &Calibrate) -> anyhow::Result<Self> {
        match (&arguments.drive, &arguments.device) {
            (Some(name), _) => Self::simulated(name),
            (None, Some(path)) => Self::device(path, arguments.allow_destroy.as_deref()),
            (None, None) => bail!("name a device, or a simulated drive with --drive"),
        }
    }

    fn simulated(name: &str) -> anyhow::Result<Self> {
        let file = DriveFile::find(name)?;
        // The calibration must not depend on the phase.
        let options = DriveOptions {
            phase: 0.618,
            ..DriveOptions::default()
        };
        let drive = Drive::new(&file.spec, &options);
        let size_bytes = drive.sectors() * 512;
        let disk = SimDisk {
            image: tonearm_world::DiskImage::new(size_bytes),
            timing: Box::new(drive),
            write_cache: file.spec.write_cache.enabled,
            zeroing: Zeroing::Command,
        };
        let options = SimOptions {
            power_cuts: false,
            ..SimOptions::default()
        };
        let world = SimWorld::with_disks(options, vec![disk]);
        let rt = Rt::new(world.driver());
        let device = RawDevice::new(&rt, DeviceId(0), size_bytes, 512, name);
        Ok(Self {
            name: format!("simulated {name}"),
            size_bytes,
            device: Rc::new(device),
            started: rt.now(),
            rt,
            world: Some(world),
        })
    }

    fn device(path: &Path, allow_destroy: Option<&str>) -> anyhow::Result<Self> {
        guard::refuse_in_use(path)?;
        let executor = Executor::new()?;
        let options = MemberOptions {
            create: None,
            read_only: allow_destroy.is_none(),
            direct: true,
            lock: if allow_destroy.is_some() {
                Lock::Exclusive
            } else {
                Lock::Shared
            },
        };
        let member = open_member(path, options)?;
        if member.logical_block_size > 512 {
            bail!(
                "{} takes requests of {} bytes only; calibration needs sectors of 512 bytes (many \
                 drives can be set to these, as with `hdparm --set-sector-size 512`)",
                path.display(),
                member.logical_block_size
            );
        }
        if member.kind == MemberKind::BlockDevice && !member.direct {
            bail!(
                "{} cannot be read past the page cache, whose times say nothing of the drive",
                path.display()
            );
        }
        let size_bytes = member.size_bytes;
        let member = tonearm_store::device_of(&executor, member);
        let device = member.device.clone();
        if let Some(named) = allow_destroy {
            refuse_store(&executor, path, member, named)?;
        }
        Ok(Self {
            name: path.display().to_string(),
            size_bytes,
            device,
            started: executor.rt.now(),
            rt: executor.rt,
            world: None,
        })
    }

    /// Where the state is kept by default.
    pub fn state(&self) -> Option<PathBuf> {
        if self.world.is_some() {
            return None;
        }
        let name = Path::new(&self.name).file_name()?;
        let mut name = name.to_owned();
        name.push(".calibration");
        Some(PathBuf::from(name))
    }

    /// Title of the drive's file.
    pub fn title(&self) -> String {
        format!("{}, calibrated", self.name)
    }

    /// Time that has passed, in the drive's world.
    pub fn took(&self) -> Nanos {
        self.rt.now().since(self.started)
    }
}

/// A store is destroyed only by name.
fn refuse_store(
    executor: &Executor,
    path: &Path,
    member: tonearm_disk::MemberDevice,
    named: &str,
) -> anyhow::Result<()> {
    let pool = executor.pool.clone();
    let looked_at = executor
        .rt
        .block_on(async move { tonearm_engine::load_superblock(&pool, &member).await });
    let Ok(found) = looked_at else {
        if !named.is_empty() {
            bail!(
                "--allow-destroy={named}: there is no Tonearm store on {}; give --allow-destroy \
                 without a name if it is the right device",
                path.display()
            );
        }
        return Ok(());
    };
    let store = report::uuid(found.superblock.store);
    if named != store {
        bail!(
            "{} holds member {} of the Tonearm store {store}; if all of that store may be lost, say \
             --allow-destroy={store}",
            path.display(),
            found.superblock.member_index
        );
    }
    Ok(())
}
