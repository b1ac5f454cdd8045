use crate::common::{Batch, Dice, LARGE_BLOCKS, Model, SMALL, Shape, Store, random_batch};
use proptest::prelude::*;
use tonearm_layout::Home as _;

fn run(shape: Shape, seed: u64, steps: u32) -> u64 {
    let mut dice = Dice::new(seed);
    let mut model = Model::default();
    let mut store = Store::on(shape, shape.images(), seed);
    let mut hash = 0;
    for version in 1..=steps {
        let batch = random_batch(&shape, &mut dice, version);
        store.apply(&batch);
        batch.change(&mut model);
        if dice.one_in(4) {
            hash ^= store.world.trace_hash();
            assert!(store.world.crash().is_settled(), "all is durable");
            store = Store::on(shape, store.world.crash().images(seed), seed + 1);
        }
        store.verify(&model, |_| true).unwrap();
        assert_status(&store, &model, &mut dice);
    }
    hash ^ store.world.trace_hash()
}

fn assert_status(store: &Store, model: &Model, dice: &mut Dice) {
    let size = store.shape.size_blocks();
    let first = dice.below(size);
    let count = dice.below(size - first) + 1;
    let mut at = first;
    let mut before = None;
    for (blocks, allocated) in store.status(first, count) {
        assert_ne!(
            before.replace(allocated),
            Some(allocated),
            "runs are maximal"
        );
        let known = model.0.range(at..at + blocks).count() as u64;
        assert_eq!(known, if allocated { blocks } else { 0 });
        at += blocks;
    }
    assert_eq!(at, first + count);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn a_store_behaves_as_a_map_of_blocks(seed in any::<u32>(), large in any::<bool>(), tiny_cache in any::<bool>()) {
        let shape = if large { LARGE_BLOCKS } else { SMALL };
        let cache_bytes = if tiny_cache { 0 } else { shape.cache_bytes };
        run(Shape { cache_bytes, ..shape }, u64::from(seed), 12);
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    assert_eq!(run(SMALL, 5, 8), run(SMALL, 5, 8));
    assert_ne!(run(SMALL, 5, 8), run(SMALL, 6, 8));
}

#[test]
fn a_cache_of_one_table_serves_a_store_of_many_groups() {
    let shape = Shape {
        groups: [150, 150],
        cache_bytes: 4096,
        ..SMALL
    };
    let store = Store::new(shape);
    let mut model = Model::default();
    let group = shape.group_blocks();
    for version in 1..=3 {
        let batch = Batch::blocks(
            (0..300).map(|index| index * group + u64::from(version % 2)),
            version,
        );
        store.apply(&batch);
        batch.change(&mut model);
        let stats = store.home.stats();
        assert_eq!(stats.table_writes, u64::from(version) * 300);
        assert!(stats.map_cache_bytes <= 33 * 4096, "{stats:?}");
        store.verify(&model, |_| true).unwrap();
        assert!(store.home.stats().map_cache_bytes <= 18 * 4096);
    }
}
