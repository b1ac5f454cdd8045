//! The blocks that the tests write, their content, and what is written.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_engine::{CommitChange, Engine, EngineError, OpenOptions};
use tonearm_rt::Rt;
use tonearm_sim::{Oracle, fill, read_stamps};

pub const BLOCK: usize = 4096;
/// Blocks in use, on both sides of the border between the first two groups.
pub const FIRST: u64 = 956;
pub const COUNT: u64 = 120;

/// The stamps of the blocks. Every byte of each block is verified.
pub async fn stamps(engine: &Engine) -> Result<Vec<u64>, String> {
    let found = read_stamps(engine, FIRST, COUNT).await;
    found.map_err(|stop| stop.to_string())
}

/// Writes, trims, flushes and waits by `seed`.
///
/// # Errors
/// When the store fails.
pub async fn workload(
    rt: Rt,
    engine: Engine,
    oracle: Rc<RefCell<Oracle>>,
    trims: bool,
    seed: u64,
) -> Result<(), EngineError> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut below = move |bound: u64| rng.next_u64() % bound;
    let mut stamp = seed << 28;
    for _ in 0..45 {
        let most = [1, 4, 30][below(3) as usize];
        let count = 1 + below(most);
        let range: Range<u64> = {
            let first = FIRST + below(COUNT - count + 1);
            first..first + count
        };
        match below(10) {
            0..7 => {
                let permit = engine.reserve(count * BLOCK as u64).await?;
                let mut buf = BufPool::new(0).alloc(count as usize * BLOCK);
                let mut model = Vec::new();
                for (block, number) in buf.chunks_exact_mut(BLOCK).zip(range.clone()) {
                    // The lowest byte is for patches.
                    stamp += 1 << 8;
                    fill(block, stamp, number, false);
                    model.push((number, stamp));
                }
                buf.attach(Rc::new(permit));
                let admission = engine.admit(count, 0).await?;
                let data = buf.share();
                let change = CommitChange::Write {
                    first: range.start,
                    data,
                };
                let lsn = engine.commit(admission, vec![change])?;
                let index = oracle.borrow_mut().change(&model);
                if below(3) == 0 {
                    engine.wait_durable(lsn).await?;
                    oracle.borrow_mut().acknowledge(index);
                }
            }
            7 if trims => {
                let first = range.start;
                let count = (count * 3).min(FIRST + COUNT - first);
                let admission = engine.admit(0, 1).await?;
                let change = match below(2) {
                    0 => CommitChange::Trim { first, count },
                    _ => CommitChange::Zero { first, count },
                };
                engine.commit(admission, vec![change])?;
                let model: Vec<(u64, u64)> = (first..first + count).map(|b| (b, 0)).collect();
                oracle.borrow_mut().change(&model);
            }
            8 => {
                let index = oracle.borrow().last();
                engine.flush().await?;
                oracle.borrow_mut().acknowledge(index);
            }
            _ => rt.sleep(Nanos::from_micros(below(3000))).await,
        }
    }
    Ok(())
}

pub fn restless() -> OpenOptions {
    OpenOptions {
        memory_bytes: 512 << 10,
        write_back_after: Nanos::from_micros(700),
        ..OpenOptions::default()
    }
}

/// Options with which nothing is written home by itself.
pub fn patient() -> OpenOptions {
    OpenOptions {
        write_back_after: Nanos::from_secs(3600),
        ..OpenOptions::default()
    }
}

pub fn same(
    found: &[u64],
    expected: &[u64],
    when: &str,
    lost: Option<usize>,
) -> Result<(), String> {
    let differs = found.iter().zip(expected).position(|(a, b)| a != b);
    match differs {
        None => Ok(()),
        Some(at) => Err(format!(
            "{when}, without member {lost:?}: block {} has {:x} in place of {:x}",
            FIRST + at as u64,
            found[at],
            expected[at]
        )),
    }
}
