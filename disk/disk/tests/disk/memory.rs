//! The memory that a store keeps is charged to its budget, and its statistics report it.

#![allow(clippy::unwrap_used)]

use crate::common::{BLOCK, Open, in_world, with_log};
use std::cell::Cell;
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_disk::{Disk, OpenOptions, Volume};
use tonearm_rt::Rt;

const B: u64 = BLOCK as u64;
const BLOCKS: u64 = 4096;
const MEMORY: u64 = 2 << 20;
/// Buffers besides: device writes and tables that are under way, what is read to be merged or copied.
const BESIDES: u64 = 3 << 20;

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Zeroes in a part of each block.
    Zeroes,
    /// Whole blocks, several at a time.
    Blocks,
    /// Bytes across blocks, by callers that reserve nothing.
    Bytes,
    /// As many bytes as blocks have, between them.
    Between,
    /// Blocks of units.
    Units,
    /// Lists alone.
    Lists,
}

async fn client(pool: BufPool, disk: Disk, volume: Volume, kind: Kind, number: u64) {
    let mut random = number + 1;
    for _ in 0..150 {
        random = random
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let block = (random >> 33) % (BLOCKS - 16);
        let len = match kind {
            Kind::Blocks | Kind::Between => (1 + (random >> 50) % 7) * B,
            _ => 700,
        };
        let mut data = pool.alloc(len as usize);
        data.fill(number as u8);
        match kind {
            Kind::Zeroes => {
                let zeroed = volume.write_zeroes(block * B + 512, 512, false, false);
                zeroed.await.unwrap();
            }
            Kind::Blocks | Kind::Between => {
                data.attach(Rc::new(volume.reserve(len).await.unwrap()));
                let offset = block * B
                    + if matches!(kind, Kind::Between) {
                        512
                    } else {
                        0
                    };
                volume.write(offset, data.share(), false).await.unwrap();
            }
            Kind::Bytes => {
                let offset = block * B + 3800;
                volume.write(offset, data.share(), false).await.unwrap();
            }
            Kind::Units => {
                let mut aru = disk.begin();
                for block in [block, block + 5] {
                    aru.write(&volume, block * B, &[number as u8; 3 * BLOCK])
                        .await
                        .unwrap();
                }
                aru.end().await.unwrap();
            }
            Kind::Lists => {
                let list = disk.new_list().await.unwrap();
                disk.new_block(list, None).await.unwrap();
            }
        }
    }
}

/// The most that buffers took, and the most that they took beyond what the statistics counted.
async fn watch(rt: Rt, pool: BufPool, disk: Disk, over: Rc<Cell<bool>>) -> (u64, u64, u64) {
    let (mut most, mut uncounted, mut acknowledged) = (0, 0, 0);
    while !over.get() {
        rt.sleep(Nanos::from_micros(20)).await;
        let stats = disk.stats();
        let kept = pool.in_use_bytes() as u64 - stats.map_cache_bytes;
        most = most.max(kept);
        uncounted =
            uncounted.max(kept.saturating_sub(stats.memory_used_bytes + disk.shadow_bytes()));
        acknowledged = acknowledged.max(stats.memory_used_bytes);
    }
    (most, uncounted, acknowledged)
}

#[test]
fn retained_memory_is_charged_and_reported() {
    let kinds = [
        Kind::Zeroes,
        Kind::Blocks,
        Kind::Bytes,
        Kind::Between,
        Kind::Units,
        Kind::Lists,
    ];
    for kind in kinds {
        for segments in [false, true] {
            // The log would keep all of it.
            let image = with_log(64 << 20, 64 << 20, segments);
            let options = OpenOptions {
                memory_bytes: MEMORY,
                map_cache_bytes: 1 << 20,
                ..OpenOptions::default()
            };
            let work = async move |open: Open| {
                let Open { rt, pool, disk, .. } = open;
                disk.resize_volume("main", BLOCKS * B).await.unwrap();
                let volume = disk.volume("main").unwrap();
                let over = Rc::new(Cell::new(false));
                let watching = watch(rt.clone(), pool.clone(), disk.clone(), over.clone());
                let watching = rt.spawn(watching);
                let clients: Vec<_> = (0..32)
                    .map(|number| {
                        let (pool, disk) = (pool.clone(), disk.clone());
                        rt.spawn(client(pool, disk, volume.clone(), kind, number))
                    })
                    .collect();
                for client in clients {
                    client.await;
                }
                over.set(true);
                let found = watching.await;
                disk.engine().drain().await.unwrap();
                rt.sleep(Nanos::from_millis(1)).await;
                assert_eq!(
                    disk.stats().memory_used_bytes,
                    0,
                    "nothing is kept any more"
                );
                disk.close().await.unwrap();
                found
            };
            let ((most, uncounted, acknowledged), _) = in_world(&image, options, work);
            eprintln!(
                "{kind:?}, segments {segments}: {most} kept, {uncounted} uncounted, {acknowledged} acknowledged"
            );
            assert!(
                acknowledged > MEMORY / 3 || matches!(kind, Kind::Lists),
                "{kind:?}: {acknowledged} acknowledged"
            );
            assert!(
                most < MEMORY + MEMORY / 4 + BESIDES,
                "{kind:?}: {most} kept"
            );
            assert!(
                uncounted < BESIDES,
                "{kind:?}: {uncounted} kept and not counted"
            );
        }
    }
}
