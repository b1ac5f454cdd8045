//! What `Store::run` costs a thread that is alone, and what handing a job to another thread costs.
//!
//!     cargo run --release -p tonearm-store --example run

use std::time::Instant;
use tonearm_store::{CreateOptions, Store, StoreOptions, create};

const ROUNDS: u32 = 1_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("store.tn");
    create(&path, &CreateOptions::default())?;
    let store = Store::open(&path, StoreOptions::default())?;
    let started = Instant::now();
    for round in 0..ROUNDS {
        store.run(move |_| async move { round })?;
    }
    let alone = started.elapsed().as_nanos() / u128::from(ROUNDS);
    println!("alone: {alone} ns for each call");
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..ROUNDS / 4 {
                    store
                        .run(move |_| async move { round })
                        .map_err(|error| error.to_string())?;
                }
                Ok::<_, String>(())
            });
        }
    });
    let shared = started.elapsed().as_nanos() / u128::from(ROUNDS);
    println!("four threads: {shared} ns for each call, over all");
    store.close()?;
    Ok(())
}
