//! Clients that wait for a device write together.

use super::log_test::{append, geometry, start, world, write};
use crate::Trail;
use crate::log::company::Company;
use tonearm_base::{BufPool, Nanos};
use tonearm_format::LogState;
use tonearm_rt::Rt;

/// Device writes and the time of `rounds` commits by each of some clients, that think for so many microseconds
/// between two of them.
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
    trail.wait_durable(lsn).await.unwrap();
    // Nothing goes home here: the log must not fill.
    trail.advance();
}

#[test]
fn clients_that_come_back_together_share_a_device_write() {
    let (writes, _) = run(&[(100, 1), (100, 5), (100, 9), (100, 14)]);
    assert!(writes <= 110, "{writes} device writes for 100 rounds");
}

#[test]
fn who_is_alone_or_among_those_who_think_for_long_hardly_waits() {
    let (_, alone) = run(&[(1000, 10)]);
    let (_, among) = run(&[(1000, 10), (40, 3_000), (30, 5_000), (4, 40_000)]);
    assert!(
        among.0 < alone.0 / 100 * 108,
        "{among:?} beside others, {alone:?} alone"
    );
}

#[test]
fn after_waits_in_vain_nobody_is_waited_for_for_a_while() {
    let mut company = Company::default();
    let (mut now, mut waits) = (Nanos(0), 0);
    for _ in 0..160 {
        company.sent = now;
        now += Nanos::from_micros(100).0;
        // One was served and one is left, but nobody ever joins it in time.
        company.part(now, 1, 1);
        while let Some(until) = company.awaited_until(now, 1) {
            waits += 1;
            now = until;
        }
    }
    assert!((10..=30).contains(&waits), "{waits} waits in vain");
    // Somebody comes after all: from then on each write is waited for.
    let mut joined = 0;
    for _ in 0..20 {
        company.sent = now;
        now += Nanos::from_micros(100).0;
        company.part(now, 1, 1);
        if company.awaited_until(now, 1).is_some() {
            assert_eq!(company.awaited_until(now, 2), None);
            joined += 1;
        }
    }
    assert!(joined >= 12, "{joined} writes of both");
}
