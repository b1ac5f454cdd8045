//! The memory that a process takes for a store, as the system reports it. The test runs in a process of its own.

use crate::Jobs;
use std::process::Command;
use tonearm_base::Nanos;
use tonearm_store::{CreateOptions, Store, StoreOptions, create};

const MEMORY: u64 = 16 << 20;
const BLOCKS: u64 = 20_480;
/// Other memory of the program, including its threads and tables.
const BESIDES: u64 = 32 << 20;

/// Zeroes in a part of each block make the store keep a whole block, although the caller has sent no data.
#[test]
fn partial_zeroes_stay_within_the_memory_limit() {
    const NAME: &str = "rss::partial_zeroes_stay_within_the_memory_limit";
    if std::env::var_os("TONEARM_RSS").is_some() {
        zero_parts();
        return;
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture"])
        .env("TONEARM_RSS", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{text}");
    let (_, peak) = text.split_once("VmHWM:").expect("the child tells");
    let kib: u64 = peak.split_whitespace().next().unwrap().parse().unwrap();
    assert!(
        kib << 10 < 2 * MEMORY + BESIDES,
        "{kib} KiB for {MEMORY} bytes of memory"
    );
}

fn zero_parts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.tn");
    // The log has room for all of it.
    let options = CreateOptions {
        size_bytes: BLOCKS * 4096 + (8 << 20),
        log_bytes: Some(256 << 20),
        ..CreateOptions::default()
    };
    create(&path, &options).unwrap();
    let mut options = StoreOptions::default();
    options.open.memory_bytes = MEMORY;
    options.open.map_cache_bytes = 4 << 20;
    // Blocks are written back only when memory is short.
    options.open.write_back_after = Nanos::from_secs(3600);
    let store = Store::open(&path, options).unwrap();
    let done = store.run(|context| async move {
        let made = context.disk.create_volume("v", BLOCKS * 4096, [7; 16], 0);
        made.await.unwrap();
        let tasks: Vec<_> = (0..32u64)
            .map(|number| {
                let volume = context.disk.volume("v").unwrap();
                context.rt.spawn(async move {
                    for block in (number..BLOCKS).step_by(32) {
                        let zeroed = volume.write_zeroes(block * 4096 + 512, 512, false, false);
                        zeroed.await.unwrap();
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
    });
    done.unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM:"));
    println!("{}", peak.unwrap());
    store.close().unwrap();
}
