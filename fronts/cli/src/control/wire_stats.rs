//! The numbers of a server, as they go over the control socket and into metrics. Those of the store are declared in
//! [`tonearm_disk::StoreStats`], those of NBD here.

use super::mount_stats::MountStats;
use serde::{Deserialize, Serialize};
use tonearm_attach::Queues;
use tonearm_base::Nanos;
use tonearm_disk::{NumberKind, StoreStats};
use tonearm_nbd::listen::Counts;
use tonearm_nbd::transmission::Metrics;
use tonearm_requests::{CommandKind, Latency, RequestMetrics};
use tonearm_store::MemberLoad;
use tonearm_vhost::Devices;

/// Upper bounds of the latency buckets, in nanoseconds: 16 us to 8 s, each twice the one before.
const BUCKETS: std::ops::Range<u32> = 4..24;

/// All numbers of a server.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct ServerStats {
    /// Version of the program.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Seconds since it began to serve.
    pub uptime_s: f64,
    /// The store.
    pub store: StoreStats,
    /// What has happened to the store and its drives since the opening: the last of each kind.
    #[serde(default)]
    pub events: Vec<String>,
    /// Requests under way, of all clients.
    #[serde(default)]
    pub under_way: UnderWayStats,
    /// Its members.
    #[serde(default)]
    pub members: Vec<MemberStats>,
    /// Its space.
    #[serde(default)]
    pub space: SpaceStats,
    /// Its clients.
    pub nbd: NbdStats,
    /// Its virtual machines.
    pub vhost: VhostStats,
    /// Programs on its devices of ublk.
    pub ublk: UblkStats,
    /// Its mount, if it has one.
    pub mount: Option<MountStats>,
}

/// Requests under way.
#[derive(Serialize, Deserialize, Clone, Copy, Default, Debug)]
pub struct UnderWayStats {
    /// Their number.
    pub requests: u64,
    /// How long ago the oldest has arrived.
    pub oldest_ns: u64,
}

/// What a member of the store was asked for.
#[derive(Serialize, Deserialize, Clone, Default, Debug)]
pub struct MemberStats {
    /// Where it is.
    pub path: String,
    /// Requests that have ended.
    pub requests: u64,
    /// Sum of the times that they took, in nanoseconds.
    pub time_ns: u64,
    /// Requests under way.
    pub under_way: u64,
    /// For how long there have been some and none of them has ended, in nanoseconds.
    pub stalled_ns: u64,
}

impl MemberStats {
    /// A snapshot.
    pub fn of(load: MemberLoad) -> Self {
        Self {
            path: load.path,
            requests: load.requests,
            time_ns: load.time.0,
            under_way: load.under_way,
            stalled_ns: load.stalled.0,
        }
    }
}

/// The space of a store.
#[derive(Serialize, Deserialize, Clone, Default, Debug)]
pub struct SpaceStats {
    /// Bytes for volumes and files.
    pub size_bytes: u64,
    /// Bytes that no volume has.
    pub free_bytes: u64,
    /// Bytes that the store's files take in their file systems, with the log; none where a member is a device.
    pub used_bytes: Option<u64>,
}

/// A number of [`NbdStats`]; its name as a metric begins with `nbd_`.
pub struct NbdNumber {
    /// Its name.
    pub name: &'static str,
    /// One sentence, with its full stop.
    pub help: &'static str,
    /// Counter or gauge.
    pub kind: NumberKind,
    /// Takes it out of a snapshot.
    pub value: fn(&NbdStats) -> u64,
}

/// Rows: help, field, kind, source.
macro_rules! nbd_stats {
    (
        |$metrics:ident, $front:ident|
        $(#[doc = $help:literal] $field:ident: $kind:ident = $value:expr;)*
    ) => {
        /// What NBD clients have asked for.
        #[derive(Serialize, Deserialize, Clone, Default, Debug)]
        pub struct NbdStats {
            $(#[doc = $help] pub $field: u64,)*
            /// Their requests.
            #[serde(flatten)]
            pub requests: RequestStats,
        }

        impl NbdStats {
            /// All of its numbers.
            pub const NUMBERS: &[NbdNumber] = &[$(NbdNumber {
                name: stringify!($field),
                help: $help.trim_ascii(),
                kind: NumberKind::$kind,
                value: |stats| stats.$field,
            }),*];

            /// A snapshot of `metrics` and of the handshakes.
            pub fn collect($metrics: &Metrics, $front: Counts, now: Nanos) -> Self {
                Self {
                    $($field: $value,)*
                    requests: RequestStats::of(&$metrics.requests, now),
                }
            }
        }
    };
}

nbd_stats! {
    |metrics, front|
    /// Connections open now.
    connections_open: Gauge = metrics.connections_open.get();
    /// Connections served.
    connections_opened: Counter = metrics.connections_opened.get();
    /// Connections closed because too many were open.
    connections_over_limit: Counter = front.over_limit;
    /// Handshakes that failed.
    handshakes_refused: Counter = front.refused;
    /// Connections cut because the client stalled.
    connections_stalled: Counter = metrics.connections_stalled.get();
    /// Connections ended because the client broke the protocol.
    connections_violated: Counter = metrics.connections_violated.get();
    /// Send operations; several replies may leave in one.
    sends: Counter = metrics.sends.get();
    /// Receive operations; several requests may come in one.
    receives: Counter = metrics.receives.get();
}

/// What virtual machines have asked for.
#[derive(Serialize, Deserialize, Clone, Default, Debug)]
pub struct VhostStats {
    /// Rings that run. A disk of a virtual machine has one or more.
    pub rings: u64,
    /// Their requests.
    #[serde(flatten)]
    pub requests: RequestStats,
}

impl VhostStats {
    /// A snapshot.
    pub fn of(devices: &Devices, now: Nanos) -> Self {
        Self {
            rings: devices.rings() as u64,
            requests: RequestStats::of(devices.metrics(), now),
        }
    }

    /// True when there is, or was, a virtual machine.
    pub fn has_served(&self) -> bool {
        let mut commands = self.requests.commands.iter();
        self.rings > 0 || commands.any(|command| command.requests > 0)
    }
}

/// What programs on devices of ublk have asked for.
#[derive(Serialize, Deserialize, Clone, Default, Debug)]
pub struct UblkStats {
    /// Queues that are served, one for each device.
    pub queues: u64,
    /// Their requests.
    #[serde(flatten)]
    pub requests: RequestStats,
}

impl UblkStats {
    /// A snapshot.
    pub fn of(queues: &Queues, now: Nanos) -> Self {
        Self {
            queues: queues.count() as u64,
            requests: RequestStats::of(queues.metrics(), now),
        }
    }

    /// True when there is, or was, a device.
    pub fn has_served(&self) -> bool {
        let mut commands = self.requests.commands.iter();
        self.queues > 0 || commands.any(|command| command.requests > 0)
    }
}

/// Requests of a front end.
#[derive(Serialize, Deserialize, Clone, Default, Debug)]
pub struct RequestStats {
    /// Each command.
    pub commands: Vec<CommandStats>,
    /// Latencies of reads, writes and flushes.
    pub latencies: Vec<LatencyStats>,
}

impl RequestStats {
    /// A snapshot at `now`.
    fn of(metrics: &RequestMetrics, now: Nanos) -> Self {
        let commands = CommandKind::ALL.iter().map(|kind| command(metrics, *kind));
        Self {
            commands: commands.collect(),
            latencies: vec![
                latency("read", &metrics.read_latency, now),
                latency("write", &metrics.write_latency, now),
                latency("flush", &metrics.flush_latency, now),
            ],
        }
    }
}

/// Counters of one command.
#[derive(Serialize, Deserialize, Clone, Default, Debug)]
pub struct CommandStats {
    /// Its name.
    pub command: String,
    /// Requests answered.
    pub requests: u64,
    /// Bytes of those that succeeded.
    pub bytes: u64,
    /// Those that did not.
    pub errors: u64,
}

/// Latencies of one command, in nanoseconds.
#[derive(Serialize, Deserialize, Clone, Default, Debug)]
pub struct LatencyStats {
    /// Its name.
    pub command: String,
    /// Requests.
    pub count: u64,
    /// Sum over all of them.
    pub sum_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99 of 100 are faster.
    pub p99_ns: u64,
    /// The slowest.
    pub max_ns: u64,
    /// Those that were answered in the last 5 to 10 seconds.
    #[serde(default)]
    pub recent: RecentStats,
    /// Upper bounds in nanoseconds, each with the number of requests up to it.
    pub buckets: Vec<(u64, u64)>,
}

/// Latencies of the last seconds, in nanoseconds.
#[derive(Serialize, Deserialize, Clone, Copy, Default, Debug)]
pub struct RecentStats {
    /// Requests.
    pub count: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99 of 100 are faster.
    pub p99_ns: u64,
    /// The slowest.
    pub max_ns: u64,
}

fn command(metrics: &RequestMetrics, kind: CommandKind) -> CommandStats {
    let counters = metrics.total.of(kind);
    CommandStats {
        command: kind.name().to_string(),
        requests: counters.requests.get(),
        bytes: counters.bytes.get(),
        errors: counters.errors.get(),
    }
}

fn latency(command: &str, latency: &Latency, now: Nanos) -> LatencyStats {
    let recent = latency.recent(now);
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
            recent: RecentStats {
                count: recent.len(),
                p50_ns: recent.value_at_quantile(0.5),
                p99_ns: recent.value_at_quantile(0.99),
                max_ns: recent.max(),
            },
            buckets,
        }
    })
}
