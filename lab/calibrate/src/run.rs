//! The whole calibration, step by step.

use crate::arm::{Arm, Commands};
use crate::cache::Memory;
use crate::error::Error;
use crate::flash::Flash;
use crate::journal::Journal;
use crate::layout::Layout;
use crate::probe::{Hooks, Method, Probe};
use crate::spindle::Spindle;
use std::ops::Range;
use std::rc::Rc;
use tonearm_device::Device;
use tonearm_rt::Rt;

/// Fewest sectors that can be calibrated: some cylinders of any drive.
pub const LEAST_SECTORS: u64 = 65_536;

/// The permissions and limits of a calibration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Sectors that are measured. No other sector is read or written.
    pub region: Range<u64>,
    /// The content of the region may be destroyed.
    pub may_write: bool,
}

/// The results.
#[derive(Clone, PartialEq, Debug)]
pub struct Findings {
    /// The options of the calibration.
    pub options: Options,
    /// Sectors of the device.
    pub sectors: u64,
    /// The kind of drive.
    pub kind: Kind,
}

/// The kind of drive.
#[derive(Clone, PartialEq, Debug)]
pub enum Kind {
    /// One with a platter.
    Disk(Box<Disk>),
    /// A drive whose responses do not depend on a platter.
    Flash(Flash),
}

/// The results for a drive with a platter.
#[derive(Clone, PartialEq, Debug)]
pub struct Disk {
    /// How the platter turns.
    pub spindle: Spindle,
    /// The places of sectors.
    pub layout: Layout,
    /// Seek times.
    pub arm: Arm,
    /// The overheads of commands.
    pub commands: Commands,
    /// Buffer, write cache and bus.
    pub memory: Memory,
    /// The tracks of a cylinder were found; otherwise one is assumed.
    pub heads_found: bool,
    /// How places were seen.
    pub method: Method,
}

/// Calibrates `device`. The journal is also returned after an error: with it, a later call continues where
/// this one ended.
pub async fn calibrate(
    rt: &Rt,
    device: Rc<dyn Device>,
    options: Options,
    journal: Journal,
    hooks: Hooks,
) -> (Result<Findings, Error>, Journal) {
    let mut probe = Probe::new(
        rt,
        device,
        options.region.clone(),
        options.may_write,
        journal,
        hooks,
    );
    let sectors = probe.sectors();
    let found = run(&mut probe).await.map(|kind| Findings {
        options,
        sectors,
        kind,
    });
    (found, probe.journal)
}

async fn run(probe: &mut Probe) -> Result<Kind, Error> {
    let sectors = probe.region.end - probe.region.start;
    if sectors < LEAST_SECTORS {
        return Err(Error::RegionTooSmall {
            sectors,
            least: LEAST_SECTORS,
        });
    }
    probe.phase("rotation", 0.0);
    let Some(memory) = probe.find_method().await? else {
        return Ok(Kind::Flash(probe.flash().await?));
    };
    let spindle = probe.spindle;
    let mut layout = probe.map().await?;
    probe.repeats = 1;
    let heads_found = probe.find_heads(&mut layout).await?;
    let memory = probe.memory(memory, &layout).await?;
    let bus = (memory.read_sector, memory.write_sector);
    let (arm, commands) = probe.arm(&layout, bus).await?;
    probe.phase("done", 1.0);
    Ok(Kind::Disk(Box::new(Disk {
        spindle,
        layout,
        arm,
        commands,
        memory,
        heads_found,
        method: probe.method,
    })))
}
