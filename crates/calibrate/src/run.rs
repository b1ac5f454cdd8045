//! The whole calibration, step by step.

use crate::arm::{Arm, Commands};
use crate::cache::Memory;
use crate::error::Error;
use crate::journal::Journal;
use crate::layout::Layout;
use crate::probe::{Hooks, Method, Probe};
use crate::spindle::Spindle;
use device::Device;
use rt::Rt;
use std::ops::Range;
use std::rc::Rc;

/// Fewest sectors that can be calibrated: some cylinders of any drive.
const LEAST: u64 = 65_536;

/// What may be done to the device.
#[derive(Clone, Debug)]
pub struct Options {
    /// Sectors to look at; nothing else is read or written.
    pub region: Range<u64>,
    /// What is in the region may be destroyed.
    pub may_write: bool,
}

/// What was found of a drive with a platter.
#[derive(Clone, Debug)]
pub struct Findings {
    /// How the platter turns.
    pub spindle: Spindle,
    /// Where sectors lie.
    pub layout: Layout,
    /// Seek times.
    pub arm: Arm,
    /// What commands cost.
    pub commands: Commands,
    /// Buffer, write cache and bus.
    pub memory: Memory,
    /// Tracks of a cylinder were found; else one is assumed.
    pub heads_found: bool,
    /// How places were seen.
    pub method: Method,
    /// Requests that were sent in this run.
    pub requests: u64,
}

/// Calibrates `device`. The journal comes back also after an error: with it, a later call goes on where
/// this one ended.
pub async fn calibrate(
    rt: &Rt,
    device: Rc<dyn Device>,
    options: Options,
    journal: Journal,
    hooks: Hooks,
) -> (Result<Option<Findings>, Error>, Journal) {
    let mut probe = Probe::new(
        rt,
        device,
        options.region,
        options.may_write,
        journal,
        hooks,
    );
    let found = run(&mut probe).await;
    (found, probe.journal)
}

async fn run(probe: &mut Probe) -> Result<Option<Findings>, Error> {
    let sectors = probe.region.end - probe.region.start;
    if sectors < LEAST {
        return Err(Error::RegionTooSmall {
            sectors,
            least: LEAST,
        });
    }
    probe.phase("rotation", 0.0);
    let Some(memory) = probe.find_method().await? else {
        return Ok(None);
    };
    let mut layout = probe.map().await?;
    probe.repeats = 1;
    let heads_found = probe.find_heads(&mut layout).await?;
    let memory = probe.memory(memory).await?;
    let bus = (
        memory.read_sector.unwrap_or(0.0),
        memory.write_sector.or(memory.read_sector).unwrap_or(0.0),
    );
    let (arm, commands) = probe.arm(&layout, bus).await?;
    Ok(Some(Findings {
        spindle: probe.spindle,
        layout,
        arm,
        commands,
        memory,
        heads_found,
        method: probe.method,
        requests: probe.requests.get(),
    }))
}
