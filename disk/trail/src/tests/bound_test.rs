use super::fixture::{Log, OFFSET, Setup, geometry};
use crate::log::bound::Bound;
use tonearm_base::{Lsn, Nanos};
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
fn with_bound<F: Future<Output = ()> + 'static>(latency: Nanos, work: impl FnOnce(Log) -> F) {
    let geometry = geometry(16, 16);
    let options = SimOptions {
        latency,
        ..SimOptions::default()
    };
    let image = DiskImage::new(OFFSET + geometry.bytes());
    let mut setup = Setup::on(geometry, SimWorld::new(options, vec![image]));
    setup.options.delay_max = Some(MAX);
    setup.run(work);
}

#[test]
fn commits_become_durable_without_a_caller_that_waits() {
    with_bound(Nanos::from_micros(70), |log| async move {
        for version in 0..50 {
            let lsn = log.write(version % 7, 1, version).await;
            log.rt.sleep(ms(version % 4)).await;
            if lsn.0 > 12 {
                let old = Lsn(lsn.0 - 12);
                assert!(log.durable() >= old, "{old} is 10 ms old and more");
            }
        }
        log.rt.sleep(MAX).await;
        assert_eq!(log.durable(), Lsn(50));
        let stats = log.stats();
        assert!(stats.delay_max >= ms(5) && stats.delay_max < MAX);
        assert_eq!(stats.delays_missed, 0);
        // Idle: nothing is flushed.
        log.rt.sleep(ms(1000)).await;
        assert_eq!(log.stats(), stats);
        assert!(stats.flushes + stats.durable_writes < 30, "{stats:?}");
    });
}

#[test]
fn unresponsive_device_misses_the_durability_bound() {
    with_bound(ms(35), |log| async move {
        let missed = log.bound_missed();
        log.write(1, 1, 1).await;
        missed.await;
        assert!(
            log.rt.now() > MAX && log.rt.now() < ms(12),
            "{:?}",
            log.rt.now()
        );
        assert_eq!((log.durable(), log.stats().delays_missed), (Lsn(0), 1));
        log.rt.sleep(ms(60)).await;
        let stats = log.stats();
        assert_eq!((log.durable(), stats.delays_missed), (Lsn(1), 1));
        assert!(stats.delay_max >= ms(35), "{stats:?}");
    });
}
