use super::log_test::{append, device, geometry, write};
use crate::log::bound::Bound;
use crate::{Trail, TrailOptions, TrailStart};
use tonearm_base::{BufPool, Lsn, Nanos};
use tonearm_rt::Rt;
use tonearm_world::{DiskImage, SimOptions, SimWorld};

const MAX: Nanos = Nanos::from_millis(10);

fn ms(millis: u64) -> Nanos {
    Nanos::from_millis(millis)
}

#[test]
fn a_flush_is_due_when_half_of_the_bound_is_over() {
    let mut bound = Bound::new(MAX, Lsn(5));
    assert_eq!((bound.flush_at(), bound.missed_at()), (None, None));
    bound.committed(ms(100), Lsn(6));
    bound.committed(ms(103), Lsn(7));
    assert_eq!(bound.flush_at(), Some(ms(105)));
    assert_eq!(bound.missed_at(), Some(ms(110) + 1));
    bound.durable(ms(106), Lsn(6));
    assert_eq!(bound.flush_at(), Some(ms(108)), "the next one");
    bound.durable(ms(109), Lsn(7));
    assert_eq!((bound.flush_at(), bound.missed_at()), (None, None));
    assert_eq!(bound.observed(ms(500)), (ms(6), 0));
}

#[test]
fn each_commit_that_misses_the_bound_counts_once() {
    let mut bound = Bound::new(MAX, Lsn(0));
    for (at, lsn) in [(0, 1), (0, 2), (0, 3), (4, 4), (20, 5)] {
        bound.committed(ms(at), Lsn(lsn));
    }
    bound.overdue(ms(10));
    assert_eq!(bound.observed(ms(10)), (ms(10), 0), "in time until now");
    bound.overdue(ms(11));
    bound.overdue(ms(12));
    assert_eq!(bound.observed(ms(12)), (ms(12), 3), "while they wait");
    assert_eq!(bound.missed_at(), Some(ms(14) + 1));
    bound.durable(ms(25), Lsn(5));
    assert_eq!(bound.observed(ms(99)), (ms(25), 4));
}

/// Runs `work` with a log that has a bound, on a drive with writes of `latency`.
fn with_bound<F: Future<Output = ()> + 'static>(
    latency: Nanos,
    work: impl FnOnce(Rt, BufPool, Trail) -> F,
) {
    let geometry = geometry(16, 16);
    let options = SimOptions {
        latency,
        ..SimOptions::default()
    };
    let world = SimWorld::new(options, vec![DiskImage::new((1 << 20) + geometry.bytes())]);
    let rt = Rt::new(world.driver());
    let pool = BufPool::new(1 << 20);
    let options = TrailOptions {
        delay_max: Some(MAX),
        ..TrailOptions::default()
    };
    let start = TrailStart {
        epoch: 1,
        ..TrailStart::default()
    };
    let trail = Trail::start(&rt, &pool, vec![device(&rt)], geometry, start, options);
    rt.block_on(work(rt.clone(), pool, trail));
}

#[test]
fn commits_become_durable_without_a_caller_that_waits() {
    with_bound(Nanos::from_micros(70), |rt, pool, trail| async move {
        for version in 0..50 {
            let lsn = append(&trail, vec![write(&pool, version % 7, 1, version)]).await;
            rt.sleep(ms(version % 4)).await;
            if lsn.0 > 12 {
                let old = Lsn(lsn.0 - 12);
                assert!(trail.durable() >= old, "{old} is 10 ms old and more");
            }
        }
        rt.sleep(MAX).await;
        assert_eq!(trail.durable(), Lsn(50));
        let stats = trail.stats();
        assert!(stats.delay_max >= ms(5) && stats.delay_max < MAX);
        assert_eq!(stats.delays_missed, 0);
        // Idle: nothing is flushed.
        rt.sleep(ms(1000)).await;
        assert_eq!(trail.stats(), stats);
        assert!(stats.flushes + stats.durable_writes < 30, "{stats:?}");
    });
}

#[test]
fn unresponsive_device_misses_the_durability_bound() {
    with_bound(ms(35), |rt, pool, trail| async move {
        let missed = trail.bound_missed();
        append(&trail, vec![write(&pool, 1, 1, 1)]).await;
        missed.await;
        assert!(rt.now() > MAX && rt.now() < ms(12), "{:?}", rt.now());
        assert_eq!((trail.durable(), trail.stats().delays_missed), (Lsn(0), 1));
        rt.sleep(ms(60)).await;
        let stats = trail.stats();
        assert_eq!((trail.durable(), stats.delays_missed), (Lsn(1), 1));
        assert!(stats.delay_max >= ms(35), "{stats:?}");
    });
}
