//! The systems of Figures 5 and 6 (ARU, Table 1) on a simulated drive.

use super::files::LoadError;
use super::minix::{BLOCKS, Minix};
use super::programs::{Large, Phase, Small, large, small};
use super::tonearm::{Tonearm, Units};
use crate::harness::{Machine, SimStore, StoreShape};
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::{Device, Section};
use tonearm_disk::{DiskError, HomeParams};
use tonearm_drive_file::DriveFile;
use tonearm_format::Placement;
use tonearm_fs::Deletion;
use tonearm_rt::{Data, IoError};

pub const MIB: u64 = 1 << 20;
/// The partition of ARU 5.3.
pub const STORE_BYTES: u64 = BLOCKS * 4096;
/// The segments of ARU 5.3.
pub const SEGMENTS: HomeParams = HomeParams::Segments {
    segment_bytes: SEGMENT_BYTES,
    spare_percent: 10,
    placement: Placement::Append,
};
const SEGMENT_BYTES: u32 = 512 << 10;
pub const LOG_BYTES: u64 = 32 * MIB;
/// Of written blocks in a store, and of the cache of Minix.
pub const MEMORY_BYTES: u64 = 32 * MIB;

/// A file system, and how its operations become recovery units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum System {
    /// That of a store.
    Tonearm(HomeParams, Units, Deletion),
    /// Minix in place.
    Minix,
}

/// "old" of ARU, Table 1.
pub const OLD: System = System::Tonearm(SEGMENTS, Units::Sequential, Deletion::Blocks);
/// "new".
pub const NEW: System = System::Tonearm(SEGMENTS, Units::Concurrent, Deletion::Blocks);
/// "new, delete".
pub const NEW_DELETE: System = System::Tonearm(SEGMENTS, Units::Concurrent, Deletion::List);

/// The store of the experiment.
pub fn shape(drive: &DriveFile, home: HomeParams) -> StoreShape<'_> {
    StoreShape {
        log_bytes: Some(LOG_BYTES),
        memory_bytes: MEMORY_BYTES,
        ..StoreShape::new(drive, home, STORE_BYTES)
    }
}

/// A drive with a new store on each of `count` partitions.
pub fn stores(
    drive: &DriveFile,
    home: HomeParams,
    count: u64,
    seed: u64,
) -> Result<(Rc<Machine>, Vec<SimStore>), DiskError> {
    let shape = shape(drive, home);
    let bytes = shape.plan()?.bytes_of(0).next_multiple_of(MIB);
    let machine = Machine::new(drive, bytes * count, seed);
    let stores = (0..count).map(|index| {
        let part = bytes * index..bytes * (index + 1);
        let part: Rc<dyn Device> = Rc::new(Section::new(machine.drive.clone(), part));
        SimStore::create_on(&shape, &machine.rt, part)
    });
    let stores = stores.collect::<Result<Vec<_>, _>>()?;
    Ok((Rc::new(machine), stores))
}

/// Runs the phases of small files on `count` file systems on partitions of one drive, each with so many programs.
pub fn run_small(
    drive: &DriveFile,
    seed: u64,
    system: System,
    (count, programs): (u64, usize),
    load: Small,
) -> Result<[Phase; 3], LoadError> {
    match system {
        System::Tonearm(home, units, deletion) => {
            let (machine, stores) = stores(drive, home, count, seed)?;
            let own = machine.clone();
            machine.rt.block_on(async move {
                let mut systems = Vec::new();
                for store in &stores {
                    systems.push(Tonearm::open(&own, store, units, deletion).await?);
                }
                let phases = small(&own, &systems, programs, load).await?;
                for system in systems {
                    system.close().await?;
                }
                Ok(phases)
            })
        }
        System::Minix => {
            let machine = Rc::new(Machine::new(drive, STORE_BYTES, seed));
            let own = machine.clone();
            machine.rt.block_on(async move {
                let minix = Minix::format(&own, MEMORY_BYTES).await?;
                small(&own, &[minix], programs, load).await
            })
        }
    }
}

/// Runs the phases of the large file.
pub fn run_large(
    drive: &DriveFile,
    seed: u64,
    system: System,
    load: Large,
) -> Result<[Phase; 5], LoadError> {
    match system {
        System::Tonearm(home, units, deletion) => {
            let (machine, stores) = stores(drive, home, 1, seed)?;
            let own = machine.clone();
            machine.rt.block_on(async move {
                let system = Tonearm::open(&own, &stores[0], units, deletion).await?;
                let phases = large(&own, &system, load, seed).await?;
                system.close().await?;
                Ok(phases)
            })
        }
        System::Minix => {
            let machine = Rc::new(Machine::new(drive, STORE_BYTES, seed));
            let own = machine.clone();
            machine.rt.block_on(async move {
                let minix = Minix::format(&own, MEMORY_BYTES).await?;
                large(&own, &minix, load, seed).await
            })
        }
    }
}

/// The drive's bandwidth in bytes a second, writing and reading, in requests of a segment, one after the other, over the first
/// 20 MiB.
pub fn bandwidth(drive: &DriveFile, seed: u64) -> Result<[f64; 2], IoError> {
    const BYTES: u64 = 20 * MIB;
    let machine = Rc::new(Machine::new(drive, BYTES, seed));
    let own = machine.clone();
    machine.rt.block_on(async move {
        let device: Rc<dyn Device> = own.drive.clone();
        let pool = BufPool::new(MIB as usize);
        let mut rates = [0.0; 2];
        for (index, rate) in rates.iter_mut().enumerate() {
            let meter = own.meter();
            for at in (0..BYTES).step_by(SEGMENT_BYTES as usize) {
                let buf = pool.alloc_zeroed(SEGMENT_BYTES as usize);
                match index {
                    0 => device.write(at, Data::whole(buf)).await?,
                    _ => drop(device.read(at, buf).await?),
                }
            }
            *rate = BYTES as f64 * 1e9 / meter.end().time.0 as f64;
        }
        Ok(rates)
    })
}
