//! What each simulated store runs with: options, times of day, and a limit of virtual time.

use std::cell::RefCell;
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_disk::OpenOptions;
use tonearm_engine::Engine;
use tonearm_fs::Time;
use tonearm_rt::Rt;

/// Milliseconds since 1970 at which every opening begins, plus an hour for each.
pub const START_MS: u64 = 1_700_000_000_000;

/// A time of day, in milliseconds since 1970, that is `now_ms` now and goes on with the executor's clock.
pub fn clock(rt: &Rt, now_ms: u64) -> impl Fn() -> u64 + 'static {
    let (rt, start_ms) = (rt.clone(), now_ms - rt.now().0 / 1_000_000);
    move || start_ms + rt.now().0 / 1_000_000
}

/// The time of day of a file system in virtual time.
pub fn time(rt: &Rt) -> impl Fn() -> Time + 'static {
    let clock = clock(rt, START_MS);
    move || {
        let ms = clock();
        Time {
            s: (ms / 1000) as i64,
            ns: (ms % 1000) as u32 * 1_000_000,
        }
    }
}

/// Options with which units exceed the memory, and blocks are written back and change their side soon.
pub fn open_options() -> OpenOptions {
    OpenOptions {
        memory_bytes: 512 << 10,
        write_back_after: Nanos::from_millis(20),
        separation_interval: Nanos::from_millis(50),
        ..OpenOptions::default()
    }
}

/// Runs `work` to its end. An hour of virtual time counts as a hang and is an error.
pub(crate) fn within_time<T: 'static>(
    rt: &Rt,
    opened: Rc<RefCell<Option<Engine>>>,
    work: impl Future<Output = Result<T, String>> + 'static,
) -> Result<T, String> {
    let (timer, result) = (rt.clone(), Rc::new(RefCell::new(None)));
    let out = result.clone();
    rt.spawn(async move {
        let ended = work.await;
        *out.borrow_mut() = Some(ended);
    });
    rt.block_on(async move {
        let limit = timer.now() + Nanos::from_secs(3600).0;
        while timer.now() < limit {
            if let Some(ended) = result.borrow_mut().take() {
                return ended;
            }
            timer.sleep(Nanos::from_millis(10)).await;
        }
        let stats = opened.borrow().as_ref().map(Engine::stats);
        Err(format!("stuck: an hour has passed; {stats:?}"))
    })
}
