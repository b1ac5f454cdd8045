//! Callers that share a device write.

use super::log_test::{append, geometry, start, world, write};
use crate::FlushCause;
use crate::Trail;
use crate::log::group_commit::GroupCommit;
use tonearm_base::{BufPool, Nanos};
use tonearm_format::LogState;
use tonearm_rt::Rt;

/// Runs clients, each with its number of commits and the microseconds that it pauses before each. The device
/// writes, and the end of the first client.
fn run(thinks_us: &[(u64, u64)]) -> (u64, Nanos) {
    let geometry = geometry(64, 64);
    let world = world(&geometry);
    let rt = Rt::new(world.driver());
    let (rt2, thinks) = (rt.clone(), thinks_us.to_vec());
    rt.block_on(async move {
        let pool = BufPool::new(1 << 20);
        let trail = start(&rt2, &pool, &geometry, 1, LogState::default());
        let clients = thinks.into_iter().enumerate();
        let clients: Vec<_> = clients
            .map(|(number, (commits, think_us))| {
                let (rt, pool, trail) = (rt2.clone(), pool.clone(), trail.clone());
                rt2.spawn(async move {
                    for version in 0..commits {
                        let number = number as u64;
                        rt.sleep(Nanos::from_micros(think_us + version % 3)).await;
                        commit(&trail, &pool, number, version).await;
                    }
                    rt.now()
                })
            })
            .collect();
        let mut first_end = Nanos(u64::MAX);
        for client in clients {
            first_end = first_end.min(client.await);
        }
        (trail.stats().writes, first_end)
    })
}

async fn commit(trail: &Trail, pool: &BufPool, block: u64, version: u64) {
    let lsn = append(trail, vec![write(pool, block, 1, version)]).await;
    trail.wait_durable(lsn, FlushCause::Commit).await.unwrap();
    // There is no home here. Without this the log would fill.
    trail.advance();
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
