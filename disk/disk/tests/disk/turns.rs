//! Writers that wait for space get it in turn: none waits for much longer than the others, although the write-back
//! works in rounds and cleans between them.

#![allow(clippy::unwrap_used)]

use crate::common::{BLOCK, segments, with_rt};
use std::cell::RefCell;
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_disk::{Disk, OpenOptions, Volume};
use tonearm_rt::Rt;
use tonearm_world::SimOptions;

const B: u64 = BLOCK as u64;
const BLOCKS: u64 = 8192;
const CLIENTS: u64 = 8;
/// Writes of each client.
const WRITES: u64 = 5000;
/// Writes before the cleaner is in a steady state.
const WARM_UP: u64 = 3000;

async fn client(rt: Rt, volume: Volume, number: u64, waits: Rc<RefCell<Vec<Nanos>>>) {
    let pool = BufPool::new(1 << 20);
    let mut random = number + 1;
    for write in 0..WRITES {
        random = random
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let words = (0..BLOCK / 8).flat_map(|word| (random ^ word as u64).to_le_bytes());
        let content: Vec<u8> = words.collect();
        let began = rt.now();
        let permit = volume.reserve(B).await.unwrap();
        let mut buf = pool.copy_of(&content);
        buf.attach(Rc::new(permit));
        volume
            .write((random >> 33) % BLOCKS * B, buf.share(), true)
            .await
            .unwrap();
        if write >= WARM_UP {
            waits.borrow_mut().push(rt.now().since(began));
        }
    }
}

#[test]
fn busy_writer_waits_little_longer_than_others() {
    for memory_bytes in [8 << 20, 64 << 20] {
        let options = OpenOptions {
            memory_bytes,
            ..OpenOptions::default()
        };
        // Slow enough for turns to be longer than a timer is worth.
        let sim = SimOptions {
            latency: Nanos::from_millis(2),
            jitter: Nanos::from_millis(1),
            per_page: Nanos::from_millis(1),
            ..SimOptions::default()
        };
        let image = segments(BLOCKS * B + (1 << 20));
        let (waits, _) = with_rt(&image, options, sim, async |rt: Rt, disk: Disk| {
            disk.resize_volume("main", BLOCKS * B).await.unwrap();
            let volume = disk.volume("main").unwrap();
            let waits = Rc::new(RefCell::new(Vec::new()));
            let start =
                |number| rt.spawn(client(rt.clone(), volume.clone(), number, waits.clone()));
            let clients: Vec<_> = (0..CLIENTS).map(start).collect();
            for client in clients {
                client.await;
            }
            waits.take()
        });
        let mean = waits.iter().map(|wait| wait.0).sum::<u64>() / waits.len() as u64;
        let longest = waits.iter().max().unwrap().0;
        eprintln!("memory {memory_bytes}: mean {mean} ns, longest {longest} ns");
        assert!(
            longest < mean * 5 / 2,
            "{mean} ns on average, {longest} at most"
        );
    }
}
