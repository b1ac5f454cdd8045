use crate::common::{Batch, LARGE_BLOCKS, Model, SMALL, Store};
use tonearm_base::Nanos;
use tonearm_layout::{Home as _, Piece, Reader};

#[test]
fn blocks_come_back_over_the_borders_of_groups_and_members() {
    for shape in [SMALL, LARGE_BLOCKS] {
        let store = Store::new(shape);
        let group = shape.group_blocks();
        let mut model = Model::default();
        for (version, border) in [(1, group), (2, 2 * group), (3, 3 * group)] {
            let last = shape.size_blocks();
            let near = (border - 3).min(last)..(border + 3).min(last);
            let batch = Batch::blocks(near.chain([0, last - 1]), version);
            store.apply(&batch);
            batch.change(&mut model);
        }
        store.verify(&model, |_| true).unwrap();
        let reopened = Store::on(shape, store.world.images(), 2);
        reopened.verify(&model, |_| true).unwrap();
    }
}

#[test]
fn a_new_store_is_zeroes_and_costs_table_reads_alone() {
    let store = Store::new(SMALL);
    let size = SMALL.size_blocks();
    let pieces = store.pieces(0, size).unwrap();
    assert!(matches!(pieces[..], [Piece::Zero(bytes)] if bytes as u64 == size * 4096));
    assert_eq!(store.home.stats().reads, 4);
    assert_eq!(store.status(0, size), [(size, false)]);
}

#[test]
fn adjacent_blocks_are_few_device_operations() {
    let store = Store::new(SMALL);
    let group = SMALL.group_blocks();
    store.apply(&Batch::blocks(0..group, 1));
    let written = store.home.stats();
    // 1,016 blocks in writes of 1 MiB, and a table.
    assert_eq!((written.writes, written.table_writes), (4 + 1, 1));
    store.read(0, group).unwrap();
    assert_eq!(store.home.stats().reads - written.reads, 4);
}

#[test]
fn status_joins_runs_across_group_borders() {
    let store = Store::new(SMALL);
    let group = SMALL.group_blocks();
    store.apply(&Batch::blocks(group - 2..group + 3, 1));
    assert_eq!(
        store.status(group - 5, 20),
        [(3, false), (5, true), (12, false)]
    );
}

#[test]
fn reads_of_one_table_share_its_load_and_then_its_memory() {
    let store = Store::new(SMALL);
    store.apply(&Batch::blocks([1, 5, 9], 1));
    let reopened = Store::on(SMALL, store.world.images(), 2);
    let (home, rt) = (reopened.home.clone(), reopened.rt.clone());
    reopened.rt.block_on(async move {
        let reads: Vec<_> = [1, 5, 9]
            .map(|block| {
                let home = home.clone();
                rt.spawn(async move { home.read(block, 1, Reader::Client).await })
            })
            .into_iter()
            .collect();
        for read in reads {
            read.await.unwrap();
        }
        assert_eq!(home.stats().table_loads, 1);
        home.read(1, 1, Reader::Client).await.unwrap();
        assert_eq!(
            (home.stats().table_loads, home.stats().overwrite.table_hits),
            (1, 1)
        );
    });
}

#[test]
fn other_blocks_of_a_group_are_read_while_it_is_written() {
    let shape = crate::common::Shape {
        cache_bytes: 0,
        ..SMALL
    };
    let store = Store::new(shape);
    store.apply(&Batch::blocks(0..2000, 1));
    let batch = Batch::blocks((0..2000).step_by(2), 2);
    let (home, rt) = (store.home.clone(), store.rt.clone());
    let blocks = batch.home_blocks(&store);
    store.rt.block_on(async move {
        let writer = home.clone();
        let writing = rt.spawn(async move { writer.write_back(Vec::new(), blocks).await });
        for block in (0..1000).rev().map(|index| 2 * index + 1) {
            let pieces = home.read(block, 1, Reader::Client).await.unwrap();
            let Piece::Data(data) = &pieces[0] else {
                panic!("a hole at {block}")
            };
            assert_eq!(data[..], SMALL.content(block, 1)[..]);
        }
        writing.await.unwrap();
    });
}

/// Writes back 200 blocks after a read, and returns how long that takes.
fn time_after_a_read(reader: Reader) -> Nanos {
    let store = Store::new(SMALL);
    store.apply(&Batch::blocks(0..2000, 1));
    let blocks = Batch::blocks((0..2000).step_by(10), 2).home_blocks(&store);
    let (home, rt) = (store.home.clone(), store.rt.clone());
    store.rt.block_on(async move {
        home.read(5, 1, reader).await.unwrap();
        let began = rt.now();
        home.write_back(Vec::new(), blocks).await.unwrap();
        rt.now().since(began)
    })
}

#[test]
fn reads_of_clients_alone_hold_writes_back() {
    let [client, store] = [Reader::Client, Reader::Store].map(time_after_a_read);
    assert!(client.0 > 2 * store.0, "{client:?} and {store:?}");
}
