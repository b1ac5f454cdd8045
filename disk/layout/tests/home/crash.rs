//! Power cuts at every moment of a write-back. The tests do what the log does afterwards: they make the interrupted
//! call again, whole or in portions.

use crate::common::{
    Batch, Dice, LARGE_BLOCKS, Model, SMALL, Shape, Store, crash_states, random_batch,
};
use tonearm_layout::ZeroRange;
use tonearm_rt::{IoError, Op};
use tonearm_world::Crash;
use tonearm_world::filters::Effect;

/// The portions in which a log may replay a batch.
fn portions(batch: &Batch, manner: u64, dice: &mut Dice) -> Vec<Batch> {
    let alone = |zeroes: Vec<ZeroRange>| Batch {
        zeroes,
        ..Batch::default()
    };
    match manner % 3 {
        0 => vec![batch.clone()],
        1 => {
            // Zeroes cut at random places, each piece by itself, then the blocks in two calls.
            let mut out = Vec::new();
            for zero in &batch.zeroes {
                let cut = dice.below(zero.count + 1);
                for (first, count) in [(zero.first, cut), (zero.first + cut, zero.count - cut)] {
                    out.push(alone(vec![ZeroRange {
                        first,
                        count,
                        keep_space: zero.keep_space,
                    }]));
                }
            }
            let mut halves = [Batch::default(), Batch::default()];
            for (block, version) in &batch.blocks {
                halves[dice.below(2) as usize]
                    .blocks
                    .insert(*block, *version);
            }
            out.extend(halves);
            out
        }
        _ => {
            // Like a log that has dropped superseded changes: zeroes around the blocks, blocks first.
            let blocks = Batch {
                blocks: batch.blocks.clone(),
                ..Batch::default()
            };
            let mut around = Vec::new();
            for zero in &batch.zeroes {
                let mut first = zero.first;
                let end = zero.first + zero.count;
                let inside = batch.blocks.range(zero.first..end).map(|(block, _)| *block);
                for border in inside.chain([end]) {
                    around.push(ZeroRange {
                        first,
                        count: border - first,
                        keep_space: zero.keep_space,
                    });
                    first = border + 1;
                }
            }
            vec![blocks, alone(around)]
        }
    }
}

struct Cut<'a> {
    shape: Shape,
    before: &'a Model,
    batch: &'a Batch,
    seed: u64,
}

impl Cut<'_> {
    /// Untouched blocks read right at once. All blocks read right after the replay, even if a power cut interrupts the
    /// replay.
    fn check(&self, crash: &Crash, depth: u32) {
        let mut dice = Dice::new(self.seed);
        let images = crash.images(self.seed);
        let store = Store::on(self.shape, images, self.seed);
        let untouched = |block| !self.batch.touches(block);
        if dice.one_in(2) {
            // In the other half of the cases the replay starts with an empty cache.
            store
                .verify(self.before, untouched)
                .unwrap_or_else(|why| panic!("before replay, seed {}: {why}", self.seed));
        }
        let mut after = self.before.clone();
        self.batch.change(&mut after);
        let replay = portions(self.batch, dice.below(3), &mut dice);
        let states = crash_states(&store.world, || {
            for portion in &replay {
                store.apply(portion);
            }
        });
        store
            .verify(&after, |_| true)
            .unwrap_or_else(|why| panic!("after replay, seed {}: {why}", self.seed));
        Store::on(self.shape, store.world.crash().images(self.seed), 1)
            .verify(&after, |_| true)
            .unwrap_or_else(|why| panic!("reopened, seed {}: {why}", self.seed));
        if depth > 0 {
            let again = &states[dice.below(states.len() as u64) as usize];
            Cut {
                seed: self.seed + 1,
                ..*self
            }
            .check(again, depth - 1);
        }
    }
}

/// Power cuts at every I/O of `batches`, each with `images` outcomes. Returns their number.
fn cut_everywhere(shape: Shape, batches: &[Batch], images: u64, seed: u64) -> usize {
    let mut model = Model::default();
    let store = Store::on(shape, shape.images(), seed);
    let mut cuts = 0;
    for batch in batches {
        let states = crash_states(&store.world, || store.apply(batch));
        for (index, crash) in states.iter().enumerate() {
            for image in 0..images {
                let cut = Cut {
                    shape,
                    before: &model,
                    batch,
                    seed: seed * 1_000_003 + (index as u64) * 101 + image,
                };
                cut.check(crash, u32::from(image == 0));
                cuts += 1;
            }
        }
        batch.change(&mut model);
    }
    cuts
}

#[test]
fn log_repairs_a_power_cut_anywhere_in_random_batches() {
    let mut cuts = 0;
    for seed in 0..20 {
        let shape = match seed % 5 {
            0 | 2 => SMALL,
            1 | 3 => Shape {
                cache_bytes: 0,
                ..SMALL
            },
            _ => LARGE_BLOCKS,
        };
        let mut dice = Dice::new(seed);
        let batches: Vec<_> = (1..=5)
            .map(|version| random_batch(&shape, &mut dice, version))
            .collect();
        cuts += cut_everywhere(shape, &batches, 3, seed);
    }
    assert!(cuts > 4_000, "{cuts} cuts");
}

#[test]
fn log_repairs_a_power_cut_in_a_trim_of_whole_groups() {
    let group = SMALL.group_blocks();
    let old = Batch::blocks(
        (0..30)
            .chain(group..group + 30)
            .chain(2 * group..2 * group + 9),
        1,
    );
    let newer = Batch::blocks([5, group + 7, 2 * group + 3], 2);
    let mut trim = Batch::zero(0, 2 * group, false);
    trim.blocks = [(8, 3), (group + 8, 3), (2 * group + 4, 3)].into();
    for seed in 0..3 {
        cut_everywhere(
            SMALL,
            &[old.clone(), newer.clone(), trim.clone()],
            12,
            50 + seed,
        );
    }
}

/// A process ends between its writes and its flush. The next one writes the same groups, and then the power fails.
/// Without the flush at the start both slots of a table could be torn.
#[test]
fn earlier_calls_survive_a_kill_and_then_a_power_cut() {
    for seed in 0..12 {
        let store = Store::on(SMALL, SMALL.images(), seed);
        let group = SMALL.group_blocks();
        let mut before = Model::default();
        for version in 1..=1 + (seed as u32 % 2) {
            let batch = Batch::blocks((0..20).chain(group..group + 20), version);
            store.apply(&batch);
            batch.change(&mut before);
        }
        store
            .faults
            .on(|access| access.op == Op::Flush, Effect::Fail(IoError::EIO));
        let killed = Batch::blocks([3, 30, group + 5], 8);
        store.try_apply(&killed).unwrap_err();
        let store = store.killed_and_reopened();
        let next = Batch::blocks([4, 31, group + 6], 9);
        let states = crash_states(&store.world, || store.apply(&next));
        for (index, crash) in states.iter().enumerate() {
            for image in 0..8 {
                let images = crash.images(seed * 7919 + index as u64 * 31 + image);
                let reopened = Store::on(SMALL, images, seed);
                let untouched = |block| !killed.touches(block) && !next.touches(block);
                reopened.verify(&before, untouched).unwrap();
                let mut after = before.clone();
                for batch in [&killed, &next] {
                    reopened.apply(batch);
                    batch.change(&mut after);
                }
                reopened.verify(&after, |_| true).unwrap();
            }
        }
    }
}
