//! Writes with FUA before a caller waits.

use super::fixture::{Log, Setup};
use crate::TrailStats;
use crate::log::predict::WaitPredictor;
use tonearm_base::Nanos;

/// What a client does again and again.
#[derive(Clone, Copy)]
struct Habit {
    commits: u64,
    /// Microseconds after each commit.
    pause_us: u64,
    /// Waits for the last commit.
    waits: bool,
}

/// A client that flushes when its write is answered.
const FLUSHES: Habit = Habit {
    commits: 1,
    pause_us: 20,
    waits: true,
};

/// Each of `clients` clients, which begin one after the other, has each of `habits` a hundred times. The log's counters at the
/// end of each habit.
fn run(clients: u64, habits: &'static [Habit]) -> Vec<TrailStats> {
    let mut setup = Setup::new(64, 64);
    setup.run(|log| async move {
        let mut stats = Vec::new();
        for habit in habits {
            let clients: Vec<_> = (0..clients)
                .map(|block| {
                    let own = log.clone();
                    log.rt.spawn(async move {
                        own.rt.sleep(Nanos::from_micros(37 * block)).await;
                        for version in 0..100 {
                            once(&own, block, version, *habit).await;
                        }
                    })
                })
                .collect();
            for client in clients {
                client.await;
            }
            stats.push(log.stats());
        }
        stats
    })
}

async fn once(log: &Log, block: u64, version: u64, habit: Habit) {
    let mut last = log.appended();
    for _ in 0..habit.commits {
        last = log.write(block, 1, version).await;
        log.rt.sleep(Nanos::from_micros(habit.pause_us)).await;
    }
    if habit.waits {
        log.wait(last).await;
    }
    // There is no home here. Without this the log would fill.
    log.advance();
}

#[test]
fn commit_among_others_is_not_predicted_to_wait() {
    let mut waits = WaitPredictor::default();
    for _ in 0..100 {
        waits.waited();
        waits.committed(true);
    }
    assert!(waits.is_likely());
    waits.waited();
    waits.committed(false);
    assert!(!waits.is_likely());
}

#[test]
fn client_waiting_for_each_commit_gets_fua_writes() {
    let stats = run(1, &[FLUSHES])[0];
    assert!(stats.durable_writes >= 90, "{stats:?}");
    assert!(stats.flushes <= 10, "{stats:?}");
}

#[test]
fn a_client_that_waits_no_longer_has_plain_writes() {
    const PAUSES: Habit = Habit {
        commits: 1,
        pause_us: 2000,
        waits: false,
    };
    let stats = run(1, &[FLUSHES, PAUSES]);
    let more = stats[1].durable_writes - stats[0].durable_writes;
    assert!(more <= 1, "{stats:?}");
}

#[test]
fn client_waiting_for_every_second_commit_gets_no_fua() {
    const PAIRS: Habit = Habit {
        commits: 2,
        ..FLUSHES
    };
    let stats = run(1, &[PAIRS])[0];
    assert!(stats.flushes >= 95, "{stats:?}");
}

#[test]
fn concurrent_clients_share_flushes() {
    for clients in 2..=8 {
        let stats = run(clients, &[FLUSHES])[0];
        assert!(
            stats.flushes + stats.durable_writes <= 230,
            "{clients} clients: {stats:?}"
        );
    }
}
