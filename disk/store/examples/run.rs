//! The cost of calls of a store: by a thread that is alone, by several threads, and with a hand-over to an engine
//! thread.
//!
//!     cargo run --release -p tonearm-store --example run -- [FOLDER]

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use tonearm_store::files::{Files, Open};
use tonearm_store::{CreateOptions, Store, StoreOptions, create};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> Result<()> {
    let folder = match std::env::args_os().nth(1) {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let path = folder.path().join("store.tn");
    create(&path, &CreateOptions::default())?;
    let store = Store::open(&path, StoreOptions::default())?;
    report("a trivial job", 1, 1_000_000, |_| {
        store.block_size()?;
        Ok(())
    })?;
    report("a trivial job", 4, 250_000, |_| {
        store.block_size()?;
        Ok(())
    })?;
    let (jobs, inbox) = channel::<u32>();
    let (answers, outbox) = channel();
    std::thread::spawn(move || inbox.iter().try_for_each(|job| answers.send(job)));
    // Once at full speed, once with pauses, as by clients that have other work between calls.
    let hand_over = |round| {
        jobs.send(round)?;
        outbox.recv()?;
        Ok(())
    };
    report_alone(
        "handed to a thread and back, without pause",
        100_000,
        Duration::ZERO,
        hand_over,
    )?;
    report_alone(
        "handed to a thread and back, every 1 ms",
        1000,
        Duration::from_millis(1),
        hand_over,
    )?;
    let files = store.files()?;
    let create = Open {
        create: true,
        exclusive: false,
    };
    let file = files.open("data", create)?;
    files.write(file, None, 0, &[7; 1 << 20])?;
    report("4 KiB read from memory", 1, 200_000, |round| {
        files.read(file, None, u64::from(round % 256) * 4096, &mut [0; 4096])?;
        Ok(())
    })?;
    report(
        "a unit of one 4-KiB block, not durable",
        1,
        20_000,
        |round| {
            let unit = files.begin()?;
            files.write(file, Some(unit), u64::from(round % 256) * 4096, &[7; 4096])?;
            files.end(unit, false)?;
            Ok(())
        },
    )?;
    files.flush()?;
    for threads in [1, 4] {
        report(
            "a unit of one 4-KiB block, durable",
            threads,
            500,
            |round| {
                let unit = files.begin()?;
                files.write(file, Some(unit), u64::from(round % 256) * 4096, &[7; 4096])?;
                files.end(unit, true)?;
                Ok(())
            },
        )?;
    }
    store.close()?;
    Ok(())
}

/// Calls by several threads, and the time of each over all.
fn report(
    what: &str,
    threads: u32,
    rounds: u32,
    call: impl Fn(u32) -> Result<()> + Sync,
) -> Result<()> {
    let started = Instant::now();
    std::thread::scope(|scope| -> Result<()> {
        let run = || (0..rounds).try_for_each(&call);
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        for thread in running {
            thread.join().map_err(|_| "a thread has panicked")??;
        }
        Ok(())
    })?;
    let each = started.elapsed() / (threads * rounds);
    println!("{what}, {threads} threads: {each:?}");
    Ok(())
}

/// The median of calls by one thread with a pause before each.
fn report_alone(
    what: &str,
    rounds: u32,
    pause: Duration,
    call: impl Fn(u32) -> Result<()>,
) -> Result<()> {
    let mut times = Vec::new();
    for round in 0..rounds {
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
        let started = Instant::now();
        call(round)?;
        times.push(started.elapsed());
    }
    times.sort();
    println!("{what}: {:?}", times[times.len() / 2]);
    Ok(())
}
