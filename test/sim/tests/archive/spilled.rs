//! All blocks of a store are read for a base while large units are spilled into some of them.

use super::*;
use tonearm_archive::Source;
use tonearm_sim::archives::MAIN;

#[test]
fn base_blocks_read_during_a_spill_are_not_damaged() {
    let (mut spilled, mut read) = (0, 0);
    for seed in 0..6 {
        let layout = [Layout::Overwrite, Layout::Hylog, Layout::Segments][seed as usize % 3];
        let image = shape(layout, 64).create_with_spare(2 << 20);
        let counts = image.with_disk(seed, async |_, rt, disk| {
            let engine = disk.engine().clone();
            let source = EngineSource::new(&engine, &rt, clock(&rt, START_MS));
            let is_over = Rc::new(Cell::new(false));
            let over = is_over.clone();
            let reader = rt.spawn(async move {
                let mut passes = 0;
                while !over.get() {
                    let mut next = 0;
                    while next < engine.size_blocks() {
                        next = source.blocks(next, 64 << 10).await.unwrap().next;
                    }
                    passes += 1;
                }
                passes
            });
            let main = disk.volume("main").unwrap();
            for round in 0..40u8 {
                // Three times as large as the memory for it.
                let mut unit = disk.begin();
                let content = vec![round + 1; MAIN as usize];
                unit.write(&main, 0, &content).await.unwrap();
                unit.end().await.unwrap();
                disk.flush().await.unwrap();
            }
            is_over.set(true);
            (disk.spill_bytes() / BLOCK, reader.await)
        });
        spilled += counts.0;
        read += counts.1;
    }
    println!("{spilled} blocks spilled, read {read} times");
    assert!(spilled > 100 && read > 100, "{spilled}, {read}");
}
