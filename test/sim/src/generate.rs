//! Makes scripts from seeds: weighted operations with hot spots, several volumes and clients, restarts, faults.

use crate::script::{End, Generation, Model, Op, Script};
use crate::store::{Heads, Layout, SPARE_PERCENT, Shape};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tonearm_base::Nanos;
use tonearm_engine::HomeParams;
use tonearm_world::{Budget, Fault, FaultKind, Place};

/// Volumes of a run, including `main`.
const VOLUMES: u64 = 4;

/// Faults that a store survives without losing anything. It may return errors meanwhile.
const SURVIVED: [FaultKind; 5] = [
    FaultKind::Slow,
    FaultKind::Stuck,
    FaultKind::Full,
    FaultKind::FailedFlush,
    FaultKind::Failed,
];
/// Faults from which a single copy cannot recover. The store detects and reports them.
const TOLD: [FaultKind; 4] = [
    FaultKind::LatentError,
    FaultKind::BitRot,
    FaultKind::Slow,
    FaultKind::Stuck,
];
/// Faults that the store may not even detect.
const LIES: [FaultKind; 6] = [
    FaultKind::LostWrite,
    FaultKind::MisdirectedWrite,
    FaultKind::MisdirectedRead,
    FaultKind::StaleRead,
    FaultKind::LyingFlush,
    FaultKind::BitRot,
];

/// The size of a run.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Operations of a generation.
    pub operations: u64,
    /// Number of generations.
    pub generations: u32,
    /// Layout of all stores. None: the seed chooses.
    pub layout: Option<Layout>,
    /// Time for which the log delays commits that are not awaited. None: the seed of each generation chooses.
    pub commit_delay: Option<Nanos>,
}

/// Commit delays that seeds choose from, in milliseconds: none, the delay of an embedded store, and a delay much longer
/// than a device write.
const LINGERS_MS: [u64; 4] = [0, 0, 1, 30];

impl Size {
    /// The parameters of the home for `seed`. Without a setting half of the stores are overwritten in place. A third of
    /// the stores with segments have the smallest spare share that is allowed.
    pub fn home(&self, seed: u64, block_size: u32) -> HomeParams {
        // This does not use the seed's random sequence, so that a seed makes the same operations on each layout.
        let choice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let chosen = match choice % 6 {
            0 => Layout::Segments,
            1 => Layout::Wolf,
            2 => Layout::Hylog,
            _ => Layout::Overwrite,
        };
        let spare_percent = match choice / 6 % 3 {
            0 => 2,
            _ => SPARE_PERCENT,
        };
        let layout = self.layout.unwrap_or(chosen);
        layout.home(block_size, spare_percent)
    }

    /// From how many bytes on a commit is large in a generation with `seed`. With one byte, most for which no caller waits are.
    pub fn large_commit_bytes(seed: u64) -> u64 {
        let choice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        [64 << 10, 1, 4096, 16 << 10][choice as usize % 4]
    }

    /// The commit delay for a generation with `seed`.
    pub fn commit_delay(&self, seed: u64) -> Nanos {
        // This does not use the random sequence either, so that older seeds still make the same runs.
        let choice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62;
        let chosen = Nanos::from_millis(LINGERS_MS[choice as usize]);
        self.commit_delay.unwrap_or(chosen)
    }
}

struct Generator {
    rng: ChaCha8Rng,
    shape: Shape,
    /// Sizes of the volumes as far as the clients know. 0 means that the volume does not exist.
    sizes: [u64; VOLUMES as usize],
    /// Every offset and length is a multiple of the block size.
    aligned: bool,
    stamp: u64,
}

/// Makes the script of `seed`, with or without faults.
pub fn generate(seed: u64, size: Size, faults: bool) -> Script {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ if faults { 0xfa17 } else { 0x70_1d });
    let mut below = |bound: u64| rng.next_u64() % bound;
    let mut shape = Shape {
        block_size: [4096, 4096, 4096, 4096, 16384][below(5) as usize],
        track_bytes: [64 << 10, 64 << 10, 128 << 10][below(3) as usize],
        tracks: 8 + below(24),
        blocks: 64 + below(64),
        split: below(3) == 0,
        heads: Heads::None,
        home: HomeParams::Overwrite,
    };
    shape.home = size.home(seed, shape.block_size);
    let ordered = below(5) == 0;
    let drives = ["atlas10k", "barracuda", "sata2tb", "ssd"];
    // Storage with an ordered cache has its own kind of power cut: see `Crash::images_ordered`.
    let model = (below(4) == 0 && !ordered).then(|| Model {
        name: drives[below(4) as usize].into(),
        write_cache: below(3) > 0,
    });
    let kinds: &[FaultKind] = match below(3) {
        _ if !faults => &[],
        0 => &SURVIVED,
        1 => &TOLD,
        _ => &LIES,
    };
    let aligned = kinds.iter().any(|kind| kind.is_lie());
    let mut generator = Generator {
        rng,
        shape,
        sizes: [shape.main_bytes(), 0, 0, 0],
        aligned,
        stamp: seed << 24,
    };
    let generations = (0..size.generations)
        .map(|index| generator.generation(size, index == 0, kinds))
        .collect();
    Script {
        shape,
        ordered,
        model,
        generations,
    }
}

impl Generator {
    fn below(&mut self, bound: u64) -> u64 {
        self.rng.next_u64() % bound.max(1)
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }

    fn generation(&mut self, size: Size, first: bool, kinds: &[FaultKind]) -> Generation {
        let operations = size.operations;
        let clients = 1 + self.below(4);
        let mut scripts = vec![Vec::new(); clients as usize];
        if first {
            // The volume shrinks to leave space for other volumes.
            let size = self.shape.main_bytes() / 4 + self.below(self.shape.main_bytes() / 8);
            let size = self.round(size).max(self.block());
            self.sizes[0] = size;
            scripts[0].push(Op::Resize { volume: 0, size });
        }
        for _ in 0..operations {
            let client = self.below(clients) as usize;
            if client == 0 && self.below(12) == 0 {
                let ops = self.exchange();
                scripts[client].extend(ops);
                continue;
            }
            let op = self.operation(client == 0);
            scripts[client].push(op);
        }
        let budget = Budget {
            faults: 3,
            kinds: kinds.to_vec(),
            drives: if self.shape.split { 2 } else { 1 },
            requests: 20 + operations,
        };
        let seed = self.rng.next_u64();
        Generation {
            seed,
            commit_delay: size.commit_delay(seed),
            memory_bytes: self.pick(&[256 << 10, 1 << 20, 8 << 20]),
            write_back_on_recovery: self.below(3) == 0,
            write_back_after: Nanos::from_millis(self.pick(&[1, 20, 1000])),
            ack_write: self.below(5) == 0,
            faults: match kinds.is_empty() {
                true => self.slow_home(),
                false => self.faults(&budget),
            },
            clients: scripts,
            end: match self.below(4) {
                0 => End::Close,
                _ => End::Cut(1 + self.below(operations * 2)),
            },
        }
    }

    fn faults(&mut self, budget: &Budget) -> Vec<Fault> {
        budget.draw(&mut self.rng)
    }

    /// If log and data are on different drives, often makes the data drive so slow that many operations happen during
    /// one read.
    fn slow_home(&mut self) -> Vec<Fault> {
        if !self.shape.split || self.below(2) == 0 {
            return Vec::new();
        }
        vec![Fault {
            drive: 1,
            after: self.below(40),
            kind: FaultKind::Slow,
            place: Place::At(0),
            span: Nanos(0),
            times: 2 + self.below(60) as u32,
        }]
    }

    /// Operations by which one volume releases blocks, another one takes them, and the first one grows again.
    fn exchange(&mut self) -> Vec<Op> {
        let (volume, other) = (self.below(VOLUMES) as u8, self.below(VOLUMES) as u8);
        let (have, theirs) = (
            self.sizes[usize::from(volume)],
            self.sizes[usize::from(other)],
        );
        let given = self.block() * (1 + self.below(8));
        if volume == other || have <= given {
            return vec![self.administration()];
        }
        let less = self.round(have - given).max(self.block());
        self.sizes[usize::from(other)] = theirs + given;
        let taken = match theirs {
            0 => Op::Create {
                volume: other,
                size: given,
            },
            _ => Op::Resize {
                volume: other,
                size: theirs + given,
            },
        };
        let back = Op::Resize { volume, size: have };
        vec![Op::Resize { volume, size: less }, taken, back]
    }

    fn block(&self) -> u64 {
        u64::from(self.shape.block_size)
    }

    fn round(&self, bytes: u64) -> u64 {
        match self.aligned {
            true => bytes / self.block() * self.block(),
            false => bytes,
        }
    }

    fn operation(&mut self, administrator: bool) -> Op {
        let roll = self.below(100);
        if administrator && roll < 25 {
            return self.administration();
        }
        let durable = self.below(5) == 0;
        let volume = match self.below(2) {
            0 => 0,
            _ => self.below(VOLUMES) as u8,
        };
        match roll {
            0..46 => {
                let (offset, len) = self.range(volume, 40 << 10);
                self.stamp += 1;
                Op::Write {
                    volume,
                    offset,
                    len,
                    stamp: self.stamp,
                    durable,
                }
            }
            46..54 => {
                let (offset, len) = self.range(volume, 200 << 10);
                let keep = self.below(2) == 0;
                Op::Zero {
                    volume,
                    offset,
                    len,
                    keep,
                    durable,
                }
            }
            54..62 => {
                let (offset, len) = self.range(volume, 200 << 10);
                Op::Trim {
                    volume,
                    offset,
                    len,
                    durable,
                }
            }
            62..80 => {
                let (offset, len) = self.range(volume, 100 << 10);
                Op::Read {
                    volume,
                    offset,
                    len,
                }
            }
            80..90 => Op::Flush,
            90..92 => Op::Scrub,
            _ => Op::Sleep {
                us: self.below(3000),
            },
        }
    }

    /// A range of at most `max` bytes. Half of all ranges begin in the volume's hot sixteenth, near its end.
    fn range(&mut self, volume: u8, max: u64) -> (u64, u64) {
        let size = self.sizes[usize::from(volume)].max(self.block());
        let (block, hot) = (self.block(), (size / 16).max(2 * self.block()).min(size));
        let offset = match self.below(2) {
            0 => size - hot + self.below(hot),
            _ => self.below(size),
        };
        let most = max.min(size - offset).max(1);
        // Most ranges are short.
        let short = self.below(3) > 0;
        let len = 1 + self.below(if short { most.min(3 * block) } else { most });
        let whole = self.aligned || self.below(4) == 0;
        if whole {
            let offset = offset / block * block;
            let len = len.next_multiple_of(block);
            return (offset, len.min((size - offset).max(block) / block * block));
        }
        (offset, len)
    }

    fn administration(&mut self) -> Op {
        let main = self.shape.main_bytes();
        let volume = self.below(VOLUMES) as u8;
        let have = self.sizes[usize::from(volume)];
        let size = 1 + self.below(main / 6);
        let size = self.round(size).max(self.block());
        if have == 0 {
            self.sizes[usize::from(volume)] = size;
            return Op::Create { volume, size };
        }
        if volume > 0 && self.below(3) == 0 {
            self.sizes[usize::from(volume)] = 0;
            return Op::Delete { volume };
        }
        // A new size, or slightly less or slightly more than before.
        let size = match self.below(3) {
            0 => size,
            1 => (have - self.below(have.min(4 * self.block()))).max(1),
            _ => have + self.below(4 * self.block()),
        };
        let size = self.round(size).max(self.block());
        self.sizes[usize::from(volume)] = size;
        Op::Resize { volume, size }
    }
}
