//! `guest-load DIR DONE STEPS`: a load in a virtual machine that checks itself. It first checks what the steps up to DONE have
//! left in DIR. Then it runs STEPS further ones, and prints `done N` once what step N wrote is durable.
//!
//! A step N writes a new file named N, overwrites the block N mod 256 of the file `table`, appends a record to the file
//! `journal`, and deletes the file of 64 steps before. Each has an fsync. Every 16 steps the page cache is emptied and
//! everything is checked.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tonearm_tests::noise;

/// Blocks of the table.
const BLOCKS: u64 = 256;
/// Bytes of a block.
const BLOCK: usize = 4096;
/// Bytes of a record of the journal.
const RECORD: usize = 64;
/// Files that are kept.
const FILES: u64 = 64;
/// Steps between two checks.
const CHECK_EVERY: u64 = 16;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("guest-load: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [dir, done, steps] = &words[..] else {
        return Err("usage: guest-load DIR DONE STEPS".to_owned());
    };
    let number = |word: &String| {
        word.parse::<u64>()
            .map_err(|error| format!("{word}: {error}"))
    };
    let (done, steps) = (number(done)?, number(steps)?);
    let load = Load {
        dir: PathBuf::from(dir),
    };
    load.check(done)?;
    println!("checked {done}");
    for step in done + 1..=done + steps {
        let stepped = load.step(step);
        stepped.map_err(|error| format!("step {step}: {error}"))?;
        println!("done {step}");
        if step % CHECK_EVERY == 0 {
            // The checks read from the disk, not from the kernel's memory.
            std::fs::write("/proc/sys/vm/drop_caches", "3").map_err(|error| error.to_string())?;
            load.check(step)?;
        }
    }
    Ok(())
}

/// The load's directory.
struct Load {
    dir: PathBuf,
}

impl Load {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn step(&self, step: u64) -> Result<(), Error> {
        let mut file = File::create(self.path(&step.to_string()))?;
        file.write_all(&content(step))?;
        file.sync_all()?;
        let table = open(&self.path("table"))?;
        table.write_all_at(&block(step), step % BLOCKS * BLOCK as u64)?;
        table.sync_data()?;
        let journal = open(&self.path("journal"))?;
        journal.write_all_at(&record(step), step * RECORD as u64)?;
        journal.sync_data()?;
        if step > FILES {
            match std::fs::remove_file(self.path(&(step - FILES).to_string())) {
                // This step had deleted it already when its guest lost the power.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                removed => removed?,
            }
        }
        File::open(&self.dir)?.sync_all()
    }

    /// Checks that everything up to step `done` is there. Of the next step there may be any part.
    fn check(&self, done: u64) -> Result<(), String> {
        let failed = |what: String, why: &str| Err(format!("after step {done}: {what} {why}"));
        let oldest = (done + 1).saturating_sub(FILES).max(1);
        for step in oldest..=done {
            // The next step may have deleted the oldest one.
            match std::fs::read(self.path(&step.to_string())) {
                Ok(found) if found == content(step) => {}
                Ok(_) => return failed(format!("file {step}"), "has other content"),
                Err(_) if step == oldest && done >= FILES => {}
                Err(error) => return failed(format!("file {step}"), &error.to_string()),
            }
        }
        for step in 1..=done.saturating_sub(FILES) {
            if self.path(&step.to_string()).exists() {
                return failed(format!("file {step}"), "is there, but was deleted");
            }
        }
        if done == 0 {
            return Ok(());
        }
        let read = |name: &str| {
            let read = std::fs::read(self.path(name));
            read.map_err(|error| format!("after step {done}: {name}: {error}"))
        };
        let table = read("table")?;
        for step in (done + 1).saturating_sub(BLOCKS).max(1)..=done {
            let from = (step % BLOCKS) as usize * BLOCK;
            let found = table.get(from..from + BLOCK).unwrap_or_default();
            let next = done + 1;
            let overwritten = step + BLOCKS == next && found == block(next);
            if found != block(step) && !overwritten {
                return failed(format!("block of step {step}"), "is not there");
            }
        }
        let journal = read("journal")?;
        for step in 1..=done {
            let from = step as usize * RECORD;
            if journal.get(from..from + RECORD) != Some(&record(step)[..]) {
                return failed(format!("record {step}"), "is not there");
            }
        }
        Ok(())
    }
}

fn open(path: &Path) -> Result<File, Error> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
}

/// Content of the file of a step: up to 48 KiB.
fn content(step: u64) -> Vec<u8> {
    noise(step, (step * 7919 % 49_152) as usize + 1)
}

fn block(step: u64) -> Vec<u8> {
    noise(step ^ 0xb10c, BLOCK)
}

fn record(step: u64) -> Vec<u8> {
    noise(step ^ 0x10_c0de, RECORD)
}
