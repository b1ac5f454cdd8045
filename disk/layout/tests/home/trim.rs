use crate::common::{Batch, LARGE_BLOCKS, Model, SMALL, Shape, Store};
use std::cell::RefCell;
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_layout::{Home as _, ZeroRange};
use tonearm_rt::Op;

fn filled(shape: Shape) -> (Store, Model) {
    let store = Store::new(shape);
    let group = shape.group_blocks();
    let mut model = Model::default();
    let places = (0..shape.size_blocks()).filter(|block| block % group < 40 || block % 97 == 0);
    let batch = Batch::blocks(places, 1);
    store.apply(&batch);
    batch.change(&mut model);
    (store, model)
}

#[test]
fn trims_of_parts_and_of_whole_groups_leave_the_rest() {
    for shape in [SMALL, LARGE_BLOCKS] {
        for keep_space in [false, true] {
            let (store, mut model) = filled(shape);
            let group = shape.group_blocks();
            let size = shape.size_blocks();
            let batches = [
                Batch::zero(3, 5, keep_space),
                Batch::zero(group - 20, 30, keep_space),
                Batch::zero(group + 10, size - group - 10, keep_space),
                Batch::zero(0, size, keep_space),
            ];
            for batch in batches {
                store.apply(&batch);
                batch.change(&mut model);
                store.verify(&model, |_| true).unwrap();
                Store::on(shape, store.world.images(), 3)
                    .verify(&model, |_| true)
                    .unwrap();
            }
            assert_eq!(store.status(0, size), [(size, false)]);
        }
    }
}

#[test]
fn blocks_of_the_same_call_come_after_its_zeroes() {
    let (store, mut model) = filled(SMALL);
    let group = SMALL.group_blocks();
    let batch = Batch {
        zeroes: vec![
            ZeroRange {
                first: 0,
                count: group,
                keep_space: false,
            },
            ZeroRange {
                first: 2 * group + 2,
                count: 20,
                keep_space: true,
            },
        ],
        blocks: [(3, 9), (group - 1, 9), (2 * group + 5, 9)].into(),
    };
    let loads = store.home.stats().table_loads;
    store.apply(&batch);
    batch.change(&mut model);
    let loaded = store.home.stats().table_loads - loads;
    assert_eq!(
        loaded, 0,
        "a group that was zeroed whole needs no old table"
    );
    store.verify(&model, |_| true).unwrap();
    Store::on(SMALL, store.world.images(), 3)
        .verify(&model, |_| true)
        .unwrap();
}

#[test]
fn a_trimmed_range_is_zero_on_the_medium_too() {
    let (store, _) = filled(SMALL);
    let group = SMALL.group_blocks();
    store.apply(&Batch::zero(0, 10, false));
    store.apply(&Batch::zero(10, 10, true));
    store.apply(&Batch::zero(group, group, true));
    let image = &store.world.images()[0];
    let geometry = SMALL.geometry(0);
    let mut block = vec![0; 4096];
    for index in (0..20).chain(group..group + 40) {
        image.read(geometry.block_offset(index), &mut block);
        assert!(block.iter().all(|byte| *byte == 0), "block {index}");
    }
}

#[test]
fn zeroes_that_keep_their_space_are_no_trim() {
    for (keep_space, wanted, other) in [(true, Op::Zero, Op::Punch), (false, Op::Punch, Op::Zero)] {
        let (store, _) = filled(SMALL);
        let seen: Rc<RefCell<Vec<Op>>> = Rc::default();
        let (note, group) = (seen.clone(), SMALL.group_blocks());
        store.world.set_fault(move |request| {
            note.borrow_mut().push(request.op);
            None
        });
        // A part of a group, and a whole one.
        for (first, count) in [(0, 10), (group, group)] {
            store.apply(&Batch::zero(first, count, keep_space));
            let seen = seen.take();
            assert!(seen.contains(&wanted) && !seen.contains(&other), "{seen:?}");
        }
    }
}

/// A table whose load began before the trim must not come into the cache after it.
#[test]
fn table_loaded_during_a_trim_is_not_cached() {
    for delay_us in (0..400).step_by(10) {
        let (store, mut model) = filled(SMALL);
        let late = Nanos::from_micros(150);
        let store = Store::with_late_reads(SMALL, store.world.images(), late);
        let size = SMALL.size_blocks();
        let (home, rt) = (store.home.clone(), store.rt.clone());
        store.rt.block_on(async move {
            let looker = home.clone();
            let clock = rt.clone();
            let looking = rt.spawn(async move {
                clock.sleep(Nanos::from_micros(delay_us)).await;
                looker.status(0, size).await
            });
            let all = Batch::zero(0, size, false);
            home.write_back(all.zeroes, Vec::new()).await.unwrap();
            looking.await.unwrap();
        });
        model.0.clear();
        store.verify(&model, |_| true).unwrap();
        assert_eq!(store.status(0, size), [(size, false)]);
    }
}

#[test]
fn a_trim_of_holes_writes_no_table() {
    let store = Store::new(SMALL);
    store.apply(&Batch::blocks([1], 1));
    let before = store.home.stats();
    store.apply(&Batch::zero(100, 10, false));
    assert_eq!(store.home.stats().table_writes, before.table_writes);
    store.apply(&Batch::zero(1, 10, false));
    assert_eq!(store.home.stats().table_writes, before.table_writes + 1);
}
