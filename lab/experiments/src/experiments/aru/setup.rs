//! The systems of Figures 5 and 6 (ARU, Table 1) on a simulated drive.

use super::files::{BLOCK, Files, LoadError};
use super::minix::{BLOCKS, Minix};
use super::on_lists::{OnLists, open_lists};
use super::programs::{Large, Phase, Small, large, small};
use super::tonearm::Tonearm;
use crate::harness::{Machine, SimStore, StoreShape};
use crate::minix_ld::Deletion;
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::Device;
use tonearm_disk::{DiskError, HomeParams};
use tonearm_drive_file::DriveFile;
use tonearm_format::Placement;
use tonearm_rt::{Data, IoError};

pub const MIB: u64 = 1 << 20;
/// The partition of ARU 5.3.
pub const STORE_BYTES: u64 = BLOCKS * 4096;
/// The segments of ARU 5.3. With a tenth to spare, 37 MB, a stream of 78 MB has more segments in use by the log than that
/// ([decision 45](../../../../../docs/decisions/0045-large-commits-are-written-once.md)).
pub const SEGMENTS: HomeParams = HomeParams::Segments {
    segment_bytes: SEGMENT_BYTES,
    spare_percent: 20,
    placement: Placement::Append,
};
const SEGMENT_BYTES: u32 = 512 << 10;
pub const LOG_BYTES: u64 = 32 * MIB;
/// Of written blocks in a store, and of the cache of Minix.
pub const MEMORY_BYTES: u64 = 32 * MIB;

/// A file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum System {
    /// Minix over the Logical Disk of a store: with one unit at a time, if `sequential`.
    Lists {
        sequential: bool,
        deletion: Deletion,
    },
    /// That of a store.
    Store(HomeParams),
    /// Minix in place.
    Minix,
}

/// "old" of ARU, Table 1.
pub const OLD: System = System::Lists {
    sequential: true,
    deletion: Deletion::HeadFirst,
};
/// "new".
pub const NEW: System = System::Lists {
    sequential: false,
    deletion: Deletion::HeadFirst,
};
/// "new, delete".
pub const NEW_DELETE: System = System::Lists {
    sequential: false,
    deletion: Deletion::List,
};

/// The store of the experiment.
pub fn shape(drive: &DriveFile, home: HomeParams) -> StoreShape<'_> {
    StoreShape {
        log_bytes: Some(LOG_BYTES),
        memory_bytes: MEMORY_BYTES,
        ..StoreShape::new(drive, home, STORE_BYTES)
    }
}

/// A drive with a new store.
pub fn store(
    drive: &DriveFile,
    home: HomeParams,
    seed: u64,
) -> Result<(Rc<Machine>, SimStore), DiskError> {
    let shape = shape(drive, home);
    let machine = Machine::new(drive, shape.plan()?.bytes_of(0), seed);
    let store = SimStore::create_on(&shape, &machine.rt, machine.drive.clone())?;
    Ok((Rc::new(machine), store))
}

/// What programs do on file systems.
pub trait Work: 'static {
    type Phases: 'static;
    /// File systems that share a Logical Disk, and blocks of their files. Of the other systems there is one.
    fn size(&self) -> (usize, usize);
    async fn run<F: Files>(
        self,
        machine: &Machine,
        systems: &[F],
    ) -> Result<Self::Phases, LoadError>;
}

/// Small files, made, read and deleted by so many programs on each of `systems` file systems.
pub struct SmallFiles {
    pub systems: usize,
    pub programs: usize,
    pub load: Small,
}

impl Work for SmallFiles {
    type Phases = [Phase; 3];

    fn size(&self) -> (usize, usize) {
        let blocks = self.load.files * (self.load.bytes.div_ceil(BLOCK) + 1);
        (self.systems, blocks)
    }

    async fn run<F: Files>(
        self,
        machine: &Machine,
        systems: &[F],
    ) -> Result<Self::Phases, LoadError> {
        small(machine, systems, self.programs, self.load).await
    }
}

/// A large file. The seed chooses the places of random writes and reads.
pub struct LargeFile {
    pub load: Large,
    pub seed: u64,
}

impl Work for LargeFile {
    type Phases = [Phase; 5];

    fn size(&self) -> (usize, usize) {
        (1, self.load.blocks + 10)
    }

    async fn run<F: Files>(
        self,
        machine: &Machine,
        systems: &[F],
    ) -> Result<Self::Phases, LoadError> {
        large(machine, &systems[0], self.load, self.seed).await
    }
}

/// Does `work` on a new `system`.
pub fn run<W: Work>(
    drive: &DriveFile,
    seed: u64,
    system: System,
    work: W,
) -> Result<W::Phases, LoadError> {
    match system {
        System::Lists {
            sequential,
            deletion,
        } => {
            let (machine, store) = store(drive, SEGMENTS, seed)?;
            let own = machine.clone();
            machine.rt.block_on(async move {
                let (count, blocks) = work.size();
                let disk = open_lists(&store, blocks as u64, sequential).await?;
                let systems = OnLists::format(&disk, &own.rt, deletion, count).await?;
                let phases = work.run(&own, &systems).await?;
                disk.store().close().await?;
                Ok(phases)
            })
        }
        System::Store(home) => {
            let (machine, store) = store(drive, home, seed)?;
            let own = machine.clone();
            machine.rt.block_on(async move {
                let system = Tonearm::open(&own, &store).await?;
                let phases = work.run(&own, std::slice::from_ref(&system)).await?;
                system.close().await?;
                Ok(phases)
            })
        }
        System::Minix => {
            let machine = Rc::new(Machine::new(drive, STORE_BYTES, seed));
            let own = machine.clone();
            machine.rt.block_on(async move {
                let minix = Minix::format(&own, MEMORY_BYTES).await?;
                work.run(&own, &[minix]).await
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
