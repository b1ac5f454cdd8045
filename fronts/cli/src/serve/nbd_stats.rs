//! The counters of the NBD front end, as they are reported.

use crate::control::{CommandStats, LatencyStats, NbdStats};
use tonearm_nbd::transmission::{CommandKind, Latency, Metrics};

/// Upper bounds of the latency buckets, in nanoseconds: 16 us to 8 s, each twice the one before.
const BUCKETS: std::ops::Range<u32> = 4..24;

/// All of them.
pub fn collect(metrics: &Metrics, front: tonearm_nbd::listen::Counts) -> NbdStats {
    NbdStats {
        connections_open: metrics.connections_open.get(),
        connections_opened: metrics.connections_opened.get(),
        connections_over_limit: front.over_limit,
        handshakes_refused: front.refused,
        connections_stalled: metrics.connections_stalled.get(),
        connections_violated: metrics.connections_violated.get(),
        sends: metrics.sends.get(),
        receives: metrics.receives.get(),
        commands: CommandKind::ALL
            .iter()
            .map(|kind| command(metrics, *kind))
            .collect(),
        latencies: vec![
            latency("read", &metrics.read_latency),
            latency("write", &metrics.write_latency),
            latency("flush", &metrics.flush_latency),
        ],
    }
}

fn command(metrics: &Metrics, kind: CommandKind) -> CommandStats {
    let counters = metrics.total.of(kind);
    CommandStats {
        command: kind.name().to_string(),
        requests: counters.requests.get(),
        bytes: counters.bytes.get(),
        errors: counters.errors.get(),
    }
}

fn latency(command: &str, latency: &Latency) -> LatencyStats {
    latency.with(|histogram| {
        let mut buckets: Vec<(u64, u64)> = BUCKETS.map(|shift| (1_000 << shift, 0)).collect();
        let mut sum = 0u128;
        for value in histogram.iter_recorded() {
            let (at, count) = (
                value.value_iterated_to(),
                value.count_since_last_iteration(),
            );
            sum += u128::from(at) * u128::from(count);
            for bucket in buckets.iter_mut().filter(|(bound, _)| at <= *bound) {
                bucket.1 += count;
            }
        }
        LatencyStats {
            command: command.to_string(),
            count: histogram.len(),
            sum_ns: u64::try_from(sum).unwrap_or(u64::MAX),
            p50_ns: histogram.value_at_quantile(0.5),
            p99_ns: histogram.value_at_quantile(0.99),
            max_ns: histogram.max(),
            buckets,
        }
    })
}
