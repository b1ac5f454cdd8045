//! Lists and blocks.

#![allow(clippy::unwrap_used)]

use crate::common::{BLOCK, begun, bytes, cuts, on_disk, store, with, with_rt};
use tonearm_base::Nanos;
use tonearm_disk::{BlockId, Disk, DiskError, ErrorKind, ListId, OpenOptions};
use tonearm_rt::Rt;
use tonearm_world::SimOptions;

const B: u64 = BLOCK as u64;

async fn sound(disk: &Disk) -> (u64, u64) {
    let report = disk.check_lists().await.unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
    (report.lists, report.blocks)
}

/// A list of `count` blocks, in one unit.
async fn make(disk: &Disk, count: usize) -> (ListId, Vec<BlockId>) {
    let mut aru = disk.begin();
    let list = aru.new_list().await.unwrap();
    let mut blocks = Vec::new();
    for _ in 0..count {
        let after = blocks.last().copied();
        blocks.push(aru.new_block(list, after).await.unwrap());
    }
    aru.end().await.unwrap();
    (list, blocks)
}

#[test]
fn blocks_are_inserted_at_the_head_and_after_others() {
    let image = on_disk(async |disk| {
        let list = disk.new_list().await.unwrap();
        assert_eq!(disk.list_blocks(list).await.unwrap(), []);
        let b = disk.new_block(list, None).await.unwrap();
        let a = disk.new_block(list, None).await.unwrap();
        let d = disk.new_block(list, Some(b)).await.unwrap();
        let c = disk.new_block(list, Some(b)).await.unwrap();
        assert_eq!(disk.list_blocks(list).await.unwrap(), [a, b, c, d]);
        disk.write_block(c, &[3; BLOCK]).await.unwrap();
        disk.delete_block(b).await.unwrap();
        assert_eq!(disk.list_blocks(list).await.unwrap(), [a, c, d]);
        assert_eq!(disk.first_block(list).await.unwrap(), Some(a));
        assert_eq!(disk.last_block(list).await.unwrap(), Some(d));
        assert_eq!(disk.next_block(c).await.unwrap(), Some(d));
        assert_eq!(disk.next_block(d).await.unwrap(), None);
        assert_eq!(sound(&disk).await, (1, 3));
        assert_eq!(disk.volumes().len(), 1, "the area is no volume");
        assert!(disk.volume(".lists").is_err());
    });
    with(&image, OpenOptions::default(), async |disk| {
        let lists = disk.lists().await.unwrap();
        let blocks = disk.list_blocks(lists[0]).await.unwrap();
        assert_eq!((lists.len(), blocks.len()), (1, 3));
        let content = bytes(vec![disk.read_block(blocks[1]).await.unwrap()]);
        assert_eq!(content, [3; BLOCK]);
        assert_eq!(sound(&disk).await, (1, 3));
    });
}

#[test]
fn errors_of_lists_and_blocks_leave_a_unit_as_it_was() {
    on_disk(async |disk| {
        let kind = |error: DiskError| error.kind();
        let none = disk.list_blocks(ListId(1)).await.unwrap_err();
        assert_eq!(kind(none), ErrorKind::NotFound, "there is no area yet");
        let (list, blocks) = make(&disk, 2).await;
        let (other, _) = make(&disk, 1).await;
        let mut aru = disk.begin();
        let x = aru.new_block(list, Some(blocks[0])).await.unwrap();
        let elsewhere = aru.new_block(other, Some(x)).await.unwrap_err();
        assert!(
            matches!(elsewhere, DiskError::NotOnList { .. }),
            "{elsewhere}"
        );
        for block in [BlockId(0), BlockId(1), BlockId(200), BlockId(u64::MAX)] {
            assert_eq!(
                kind(aru.read_block(block).await.unwrap_err()),
                ErrorKind::NotFound
            );
            assert_eq!(
                kind(aru.delete_block(block).await.unwrap_err()),
                ErrorKind::NotFound
            );
            let write = aru.write_block(block, &[1; BLOCK]).await;
            assert_eq!(kind(write.unwrap_err()), ErrorKind::NotFound);
        }
        for list in [ListId(0), ListId(77), ListId(u64::MAX)] {
            assert_eq!(
                kind(aru.delete_list(list).await.unwrap_err()),
                ErrorKind::NotFound
            );
        }
        let short = aru.write_block(x, &[1; 10]).await.unwrap_err();
        assert_eq!(kind(short), ErrorKind::Invalid);
        aru.end().await.unwrap();
        assert_eq!(
            disk.list_blocks(list).await.unwrap(),
            [blocks[0], x, blocks[1]]
        );
        sound(&disk).await;
    });
}

#[test]
fn insertions_of_two_units_in_one_place_are_merged() {
    on_disk(async |disk| {
        let (list, blocks) = make(&disk, 2).await;
        let (mut a, mut b) = (disk.begin(), disk.begin());
        let x = a.new_block(list, Some(blocks[0])).await.unwrap();
        let y = b.new_block(list, Some(blocks[0])).await.unwrap();
        assert_ne!(x, y);
        assert_eq!(
            a.list_blocks(list).await.unwrap(),
            [blocks[0], x, blocks[1]]
        );
        assert_eq!(
            b.list_blocks(list).await.unwrap(),
            [blocks[0], y, blocks[1]]
        );
        a.end().await.unwrap();
        b.end().await.unwrap();
        assert_eq!(
            disk.list_blocks(list).await.unwrap(),
            [blocks[0], y, x, blocks[1]]
        );
        sound(&disk).await;
    });
}

/// Both have looked at the list before either can commit.
#[test]
fn insertions_of_two_waiting_units_are_merged() {
    on_disk(async |disk| {
        let (list, blocks) = make(&disk, 2).await;
        let (mut a, mut b) = (disk.begin(), disk.begin());
        let x = a.new_block(list, Some(blocks[0])).await.unwrap();
        let y = b.new_block(list, Some(blocks[0])).await.unwrap();
        disk.engine().drain().await.unwrap();
        let memory = disk.engine().options().memory_bytes;
        let all = disk.engine().reserve(memory).await.unwrap();
        let (mut a, mut b) = (a.end(), b.end());
        begun(&mut a).await;
        begun(&mut b).await;
        drop(all);
        a.await.unwrap();
        b.await.unwrap();
        assert_eq!(
            disk.list_blocks(list).await.unwrap(),
            [blocks[0], y, x, blocks[1]]
        );
        sound(&disk).await;
    });
}

/// As above, without units.
#[test]
fn waiting_simple_operations_are_merged() {
    on_disk(async |disk| {
        let (list, blocks) = make(&disk, 3).await;
        disk.engine().drain().await.unwrap();
        let memory = disk.engine().options().memory_bytes;
        let all = disk.engine().reserve(memory).await.unwrap();
        let mut a = disk.new_block(list, Some(blocks[0]));
        let mut b = disk.new_block(list, Some(blocks[0]));
        let mut gone = disk.delete_block(blocks[1]);
        let mut late = disk.new_block(list, Some(blocks[1]));
        let mut write = disk.write_block(blocks[1], &[1; BLOCK]);
        begun(&mut a).await;
        begun(&mut b).await;
        begun(&mut gone).await;
        begun(&mut late).await;
        begun(&mut write).await;
        drop(all);
        let (x, y) = (a.await.unwrap(), b.await.unwrap());
        assert_ne!(x, y);
        gone.await.unwrap();
        // The predecessor and the block have been deleted meanwhile.
        let errors = [late.await.unwrap_err(), write.await.unwrap_err()];
        for error in errors {
            assert!(matches!(error, DiskError::NoBlock(_)), "{error}");
        }
        assert_eq!(
            disk.list_blocks(list).await.unwrap(),
            [blocks[0], y, x, blocks[2]]
        );
        // What was taken for the refused operation is free again.
        let again = disk.new_block(list, Some(x)).await.unwrap();
        assert_eq!(again, BlockId(y.0 + 1));
        sound(&disk).await;
    });
}

#[test]
fn a_unit_conflicts_when_its_predecessor_or_list_is_gone() {
    on_disk(async |disk| {
        let (list, blocks) = make(&disk, 3).await;
        let free = disk.shadow_bytes();
        let (mut a, mut b, mut c) = (disk.begin(), disk.begin(), disk.begin());
        a.new_block(list, Some(blocks[1])).await.unwrap();
        b.write_block(blocks[1], &[1; BLOCK]).await.unwrap();
        c.delete_block(blocks[1]).await.unwrap();
        disk.delete_block(blocks[1]).await.unwrap();
        for unit in [a, b, c] {
            let error = unit.end().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        }
        let mut a = disk.begin();
        a.new_block(list, None).await.unwrap();
        disk.delete_list(list).await.unwrap();
        assert_eq!(a.end().await.unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!((sound(&disk).await, disk.shadow_bytes()), ((0, 0), free));
    });
}

#[test]
fn freed_ids_are_reused_once_no_unit_knows_them() {
    on_disk(async |disk| {
        let (list, blocks) = make(&disk, 4).await;
        disk.write_block(blocks[1], &[1; BLOCK]).await.unwrap();
        let watcher = disk.begin();
        disk.delete_block(blocks[1]).await.unwrap();
        let other = disk.new_block(list, Some(blocks[0])).await.unwrap();
        assert_ne!(other, blocks[1], "a unit may know it");
        watcher.abort();
        let again = disk.new_block(list, Some(blocks[0])).await.unwrap();
        assert_eq!(again, blocks[1], "after its predecessor");
        assert_eq!(
            bytes(vec![disk.read_block(again).await.unwrap()]),
            [0; BLOCK]
        );
        sound(&disk).await;
    });
}

#[test]
fn list_blocks_are_contiguous() {
    on_disk(async |disk| {
        let (_, a) = make(&disk, 50).await;
        let adjacent = a.windows(2).filter(|pair| pair[1].0 == pair[0].0 + 1);
        assert_eq!(adjacent.count(), 49);
    });
}

#[test]
fn the_area_grows_to_the_last_block_of_the_store() {
    let (_, image) = with(&store(4 << 20), OpenOptions::default(), async |disk| {
        let (list, mut blocks) = make(&disk, 300).await;
        let free = disk.free_bytes();
        let error = loop {
            let last = blocks.last().copied();
            match disk.new_block(list, last).await {
                Ok(block) => blocks.push(block),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        assert!(free > 0 && disk.free_bytes() < 3 * B);
        assert!(blocks.len() > 1000, "{}", blocks.len());
        assert_eq!(disk.list_blocks(list).await.unwrap(), blocks);
        // In one unit, and at once.
        let before = disk.stats().commits;
        disk.delete_list(list).await.unwrap();
        assert_eq!(disk.stats().commits, before + 1);
        assert_eq!(sound(&disk).await, (0, 0));
        let (_, blocks) = make(&disk, 900).await;
        assert_eq!(sound(&disk).await, (1, blocks.len() as u64));
    });
    with(&image, OpenOptions::default(), async |disk| {
        assert_eq!(sound(&disk).await, (1, 900));
    });
}

/// Makes blocks until the store is full, which it still is a second later.
async fn fill(rt: Rt, disk: Disk) {
    let list = disk.new_list().await.unwrap();
    while disk.new_block(list, None).await.is_ok() {}
    rt.sleep(Nanos::from_secs(1)).await;
    assert!(disk.new_block(list, None).await.is_err(), "it was not full");
}

/// While the growth of the area for one program is under way, its space is neither the area's nor free. The others wait for it.
#[test]
fn allocations_wait_while_the_area_grows() {
    for spare in 0..8 {
        let image = store((4 << 20) + spare * 100 * B);
        let (options, sim) = (OpenOptions::default(), SimOptions::default());
        with_rt(&image, options, sim, async |rt, disk| {
            let clients: Vec<_> = (0..64)
                .map(|_| rt.spawn(fill(rt.clone(), disk.clone())))
                .collect();
            for client in clients {
                client.await;
            }
        });
    }
}

#[test]
fn deleting_a_long_list_needs_no_walk_before_the_end() {
    on_disk(async |disk| {
        let (list, blocks) = make(&disk, 700).await;
        let mut aru = disk.begin();
        aru.write_block(blocks[3], &[1; BLOCK]).await.unwrap();
        aru.delete_list(list).await.unwrap();
        assert!(disk.shadow_bytes() < 2 * B);
        let gone = aru.read_block(blocks[3]).await.unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotFound);
        // Blocks that others add meanwhile are deleted too.
        disk.new_block(list, Some(blocks[5])).await.unwrap();
        aru.end().await.unwrap();
        assert_eq!((sound(&disk).await, disk.shadow_bytes()), ((0, 0), 0));
    });
}

#[test]
fn after_a_cut_at_any_step_lists_are_whole() {
    let image = store(4 << 20);
    let mut kinds = std::collections::BTreeSet::new();
    for seed in 0..4 {
        let left = cuts(&image, seed, async |disk, acknowledged| {
            let (list, mut blocks) = make(&disk, 20).await;
            disk.flush().await.unwrap();
            acknowledged.set(1);
            for round in 0..6u8 {
                let mut aru = disk.begin();
                for at in [3, 9, 15] {
                    aru.delete_block(blocks.remove(at)).await.unwrap();
                    let new = aru.new_block(list, Some(blocks[at - 1])).await.unwrap();
                    aru.write_block(new, &[round + 1; BLOCK]).await.unwrap();
                    blocks.insert(at, new);
                }
                let mut never = disk.begin();
                never.new_block(list, None).await.unwrap();
                aru.end().await.unwrap();
                if round % 2 == 1 {
                    disk.flush().await.unwrap();
                    acknowledged.set(u64::from(round) + 2);
                }
                if round == 3 {
                    disk.engine().drain().await.unwrap();
                }
            }
        });
        for (left, acknowledged) in left {
            let found = with(&left, OpenOptions::default(), async |disk| {
                let (lists, blocks) = sound(&disk).await;
                if lists == 0 {
                    return None;
                }
                assert_eq!((lists, blocks), (1, 20), "never 19 or 21");
                let list = disk.lists().await.unwrap()[0];
                let mut written = Vec::new();
                for block in disk.list_blocks(list).await.unwrap() {
                    let content = bytes(vec![disk.read_block(block).await.unwrap()]);
                    written.push(content[0]);
                    assert!(content.iter().all(|byte| *byte == content[0]));
                }
                let round = written[3];
                assert_eq!((written[9], written[15]), (round, round));
                Some(u64::from(round))
            })
            .0;
            match found {
                None => assert_eq!(acknowledged, 0),
                Some(round) => assert!(round + 1 >= acknowledged, "{round} {acknowledged}"),
            }
            kinds.insert(found);
        }
    }
    assert!(kinds.len() > 4, "{kinds:?}");
}
