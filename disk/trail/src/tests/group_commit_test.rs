//! Callers that share a device write.

use super::fixture::{Log, Setup};
use crate::log::group_commit::GroupCommit;
use tonearm_base::Nanos;

/// Runs clients, each with its number of commits and the microseconds that it pauses before each. The device
/// writes, and the end of the first client.
fn run(thinks_us: &[(u64, u64)]) -> (u64, Nanos) {
    let mut setup = Setup::new(64, 64);
    let thinks = thinks_us.to_vec();
    setup.run(|log| async move {
        let clients = thinks.into_iter().enumerate();
        let clients: Vec<_> = clients
            .map(|(number, (commits, think_us))| {
                let own = log.clone();
                log.rt.spawn(async move {
                    for version in 0..commits {
                        let number = number as u64;
                        own.rt
                            .sleep(Nanos::from_micros(think_us + version % 3))
                            .await;
                        commit(&own, number, version).await;
                    }
                    own.rt.now()
                })
            })
            .collect();
        let mut first_end = Nanos(u64::MAX);
        for client in clients {
            first_end = first_end.min(client.await);
        }
        (log.stats().writes, first_end)
    })
}

async fn commit(log: &Log, block: u64, version: u64) {
    let lsn = log.write(block, 1, version).await;
    log.wait(lsn).await;
    // There is no home here. Without this the log would fill.
    log.advance();
}

#[test]
fn clients_that_come_back_together_share_a_device_write() {
    let (writes, _) = run(&[(100, 1), (100, 5), (100, 9), (100, 14)]);
    assert!(writes <= 110, "{writes} device writes for 100 rounds");
}

#[test]
fn lone_client_hardly_waits_among_idle_clients() {
    let (_, alone) = run(&[(1000, 10)]);
    let (_, among) = run(&[(1000, 10), (40, 3_000), (30, 5_000), (4, 40_000)]);
    assert!(
        among.0 < alone.0 / 100 * 108,
        "{among:?} among others, {alone:?} alone"
    );
}

#[test]
fn fruitless_waits_reduce_later_waits() {
    let mut group = GroupCommit::default();
    let (mut now, mut waits) = (Nanos(0), 0);
    for _ in 0..160 {
        group.sent = now;
        now += Nanos::from_micros(100).0;
        // One caller has its commit and one is left. No other ever joins it in time.
        group.released(now, 1, 1);
        while let Some(until) = group.waits_until(now, 1) {
            waits += 1;
            now = until;
        }
    }
    assert!((10..=30).contains(&waits), "{waits} waits in vain");
    // Another caller comes in time: from then on each write waits.
    let mut joined = 0;
    for _ in 0..20 {
        group.sent = now;
        now += Nanos::from_micros(100).0;
        group.released(now, 1, 1);
        if group.waits_until(now, 1).is_some() {
            assert_eq!(group.waits_until(now, 2), None);
            joined += 1;
        }
    }
    assert!(joined >= 12, "{joined} writes of both");
}
