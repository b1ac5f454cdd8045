//! The programs of Figures 5 and 6 (ARU 5.2). They run on any file system.

use super::files::{BLOCK, Files, LoadError};
use crate::experiment::Random;
use crate::harness::{DriveSpent, Host, Machine, Meter};
use std::rc::Rc;
use tonearm_rt::JoinHandle;

/// What a phase took.
#[derive(Clone, Copy, Default, Debug)]
pub struct Phase {
    /// Of drive and host.
    pub spent: DriveSpent,
    /// Bytes written to logs.
    pub log_bytes: u64,
    /// Writes that were done again since the opening, because they ended in a conflict.
    pub conflicts: u64,
}

/// Small files: how many in all, and of how many bytes each.
#[derive(Clone, Copy, Debug)]
pub struct Small {
    /// In all file systems together.
    pub files: usize,
    /// Of each file.
    pub bytes: usize,
}

/// The large file.
#[derive(Clone, Copy, Debug)]
pub struct Large {
    /// Its blocks.
    pub blocks: usize,
    /// Reads and writes that are under way at a time.
    pub depth: usize,
}

/// The phases of Figure 5.
pub const SMALL: [&str; 3] = ["create and write", "read", "delete"];

/// The phases of Figure 6.
pub const LARGE: [&str; 5] = ["write1", "read1", "write2", "read2", "read3"];

/// In which order the programs do a phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// All programs at once, each with one operation after the other.
    SideBySide,
    /// One file of each program in turn. The next one begins when the file before is done.
    Turns,
    /// One program after the other.
    OneByOne,
}

/// A program with a directory of its own.
#[derive(Clone)]
struct Program<F> {
    system: F,
    host: Rc<Host>,
    directory: u64,
    number: usize,
    bytes: usize,
}

impl<F: Files> Program<F> {
    /// Does phase `phase` of Figure 5 on one file.
    async fn operate(&self, phase: usize, file: usize) -> Result<(), LoadError> {
        let (system, host) = (&self.system, &self.host);
        let name = format!("file{file:06}");
        let data = content(self.number << 32 | file, self.bytes);
        host.compute().await;
        match phase {
            0 => {
                let file = system.make(self.directory, &name).await?;
                host.compute().await;
                system.write(file, 0, &data).await
            }
            1 => {
                let file = system.look_up(self.directory, &name).await?;
                host.compute().await;
                same(&system.read(file, 0, self.bytes as u64).await?, &data)
            }
            _ => system.delete(self.directory, &name).await,
        }
    }
}

/// The programs of all file systems.
async fn programs_of<F: Files>(
    machine: &Machine,
    systems: &[F],
    programs: usize,
    bytes: usize,
) -> Result<Vec<Program<F>>, LoadError> {
    let mut all = Vec::new();
    for system in systems {
        for number in 0..programs {
            all.push(Program {
                system: system.clone(),
                host: machine.host.clone(),
                directory: system.make_directory(&format!("program{number}")).await?,
                number,
                bytes,
            });
        }
    }
    sync_all(systems).await?;
    Ok(all)
}

/// Does a phase on `each` files of each program, and waits until everything is on the medium.
async fn run_phase<F: Files>(
    machine: &Machine,
    systems: &[F],
    all: &[Program<F>],
    (phase, each, order): (usize, usize, Order),
) -> Result<Phase, LoadError> {
    let measured = Measured::begin(machine, systems);
    match order {
        Order::SideBySide => {
            let running = all.iter().map(|program| {
                let program = program.clone();
                machine.rt.spawn(async move {
                    for file in 0..each {
                        program.operate(phase, file).await?;
                    }
                    Ok(())
                })
            });
            all_of(running.collect()).await?;
        }
        Order::Turns => {
            for file in 0..each {
                for program in all {
                    program.operate(phase, file).await?;
                }
            }
        }
        Order::OneByOne => {
            for program in all {
                for file in 0..each {
                    program.operate(phase, file).await?;
                }
            }
        }
    }
    let phase = measured.end(systems).await?;
    sync_all(systems).await?;
    Ok(phase)
}

/// Runs the phases of Figure 5. Each file system has `programs` programs, which share its files, each in a directory of its
/// own. Everything is on the medium at the end of a phase.
pub async fn small<F: Files>(
    machine: &Machine,
    systems: &[F],
    programs: usize,
    load: Small,
) -> Result<[Phase; 3], LoadError> {
    let each = load.files / (systems.len() * programs);
    let all = programs_of(machine, systems, programs, load.bytes).await?;
    let mut phases = [Phase::default(); 3];
    for (index, phase) in phases.iter_mut().enumerate() {
        let what = (index, each, Order::SideBySide);
        *phase = run_phase(machine, systems, &all, what).await?;
    }
    Ok(phases)
}

/// Creates and writes files in one order, and reads them in each of `reads`.
pub async fn orders<F: Files>(
    machine: &Machine,
    system: &F,
    (programs, load): (usize, Small),
    writes: Order,
    reads: &[Order],
) -> Result<Vec<Phase>, LoadError> {
    let (systems, each) = (std::slice::from_ref(system), load.files / programs);
    let all = programs_of(machine, systems, programs, load.bytes).await?;
    run_phase(machine, systems, &all, (0, each, writes)).await?;
    let mut phases = Vec::new();
    for order in reads {
        phases.push(run_phase(machine, systems, &all, (1, each, *order)).await?);
    }
    Ok(phases)
}

/// Runs the phases of Figure 6, block by block.
pub async fn large<F: Files>(
    machine: &Machine,
    system: &F,
    load: Large,
    seed: u64,
) -> Result<[Phase; 5], LoadError> {
    let directory = system.make_directory("program0").await?;
    let file = system.make(directory, "large").await?;
    let systems = std::slice::from_ref(system);
    sync_all(systems).await?;
    let mut random = Random::new(seed, 7);
    // The version of each block's content.
    let mut version = 0;
    let mut phases = [Phase::default(); 5];
    for (index, phase) in phases.iter_mut().enumerate() {
        let mut order: Vec<usize> = (0..load.blocks).collect();
        if matches!(index, 2 | 3) {
            shuffle(&mut order, &mut random);
        }
        let is_write = matches!(index, 0 | 2);
        version += usize::from(is_write);
        let measured = Measured::begin(machine, systems);
        // Each of the operations under way takes the next block when it is done.
        let lanes = (0..load.depth).map(|lane| {
            let (system, host) = (system.clone(), machine.host.clone());
            let own: Vec<usize> = order
                .iter()
                .copied()
                .skip(lane)
                .step_by(load.depth)
                .collect();
            machine.rt.spawn(async move {
                for block in own {
                    let data = content(version << 32 | block, BLOCK);
                    let offset = (block * BLOCK) as u64;
                    host.compute().await;
                    match is_write {
                        true => system.write(file, offset, &data).await?,
                        false => same(&system.read(file, offset, BLOCK as u64).await?, &data)?,
                    }
                }
                Ok(())
            })
        });
        all_of(lanes.collect()).await?;
        *phase = measured.end(systems).await?;
        sync_all(systems).await?;
    }
    Ok(phases)
}

/// A phase under way.
struct Measured {
    meter: Meter,
    log_bytes: u64,
}

impl Measured {
    fn begin<F: Files>(machine: &Machine, systems: &[F]) -> Self {
        Self {
            meter: machine.meter(),
            log_bytes: systems.iter().map(Files::log_bytes).sum(),
        }
    }

    /// Ends the phase when everything is on the medium.
    async fn end<F: Files>(self, systems: &[F]) -> Result<Phase, LoadError> {
        for system in systems {
            system.sync().await?;
        }
        let log_bytes: u64 = systems.iter().map(Files::log_bytes).sum();
        Ok(Phase {
            spent: self.meter.end(),
            log_bytes: log_bytes - self.log_bytes,
            conflicts: systems.iter().map(Files::conflicts).sum(),
        })
    }
}

async fn sync_all<F: Files>(systems: &[F]) -> Result<(), LoadError> {
    for system in systems {
        system.sync().await?;
        system.sync_all().await?;
    }
    Ok(())
}

async fn all_of(running: Vec<JoinHandle<Result<(), LoadError>>>) -> Result<(), LoadError> {
    for program in running {
        program.await?;
    }
    Ok(())
}

/// The content with this number.
fn content(number: usize, bytes: usize) -> Vec<u8> {
    let word = number as u64 | 0x5a << 56;
    word.to_le_bytes().repeat(bytes.div_ceil(8))[..bytes].to_vec()
}

fn same(found: &[u8], written: &[u8]) -> Result<(), LoadError> {
    match found == written {
        true => Ok(()),
        false => Err(LoadError::Content),
    }
}

fn shuffle(order: &mut [usize], random: &mut Random) {
    for index in (1..order.len()).rev() {
        order.swap(index, random.below(index as u64 + 1) as usize);
    }
}
