//! The whole calibration, step by step.

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
    probe.method = if probe.may_write {
        Method::Durable
    } else {
        Method::Read(80)
    };
    let Some(spindle) = probe.find_spindle(probe.region.start + 8).await? else {
        return Ok(None);
    };
    probe.spindle = spindle;
    let layout = probe.map().await?;
    Ok(Some(Findings {
        spindle,
        layout,
        requests: probe.requests.get(),
    }))
}
