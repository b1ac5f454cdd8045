//! The page of metrics, in the OpenMetrics text format that Prometheus reads.

use crate::control::{
    CommandStats, NbdStats, OperationStats, RequestStats, ServerStats, UnderWayStats, UnitStats,
};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;
use tonearm_disk::{NumberKind, NumberUnit, StoreStats};

/// For the head of the answer.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The page.
///
/// # Errors
/// Never fails: a string takes all of it.
pub fn render(stats: &ServerStats) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("tonearm");
    registry.register_collector(Box::new(Page(stats.clone())));
    let mut page = String::new();
    text::encode(&mut page, &registry)?;
    Ok(page)
}

#[derive(Debug)]
struct Page(ServerStats);

/// One number of a command.
type OfCommand = fn(&CommandStats) -> u64;

/// One number of an operation of the mount.
type OfOperation = fn(&OperationStats) -> u64;

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_numbers(&mut encoder)?;
        self.encode_times(&mut encoder)?;
        let ServerStats {
            nbd, vhost, ublk, ..
        } = &self.0;
        encode_requests(&mut encoder, "nbd", &nbd.requests)?;
        encode_requests(&mut encoder, "vhost", &vhost.requests)?;
        encode_requests(&mut encoder, "ublk", &ublk.requests)?;
        self.encode_operations(&mut encoder)?;
        let labels = [("version", self.0.version.as_str())];
        let mut build =
            encoder.encode_descriptor("build", "Version of the server", None, MetricType::Info)?;
        build.encode_info(&labels)
    }
}

impl Page {
    fn encode_numbers(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (store, nbd) = (&self.0.store, &self.0.nbd);
        for number in StoreStats::NUMBERS {
            let value = (number.value)(store);
            let (name, help) = (number.metric, number.help.trim_end_matches('.'));
            match (number.unit, number.kind) {
                (NumberUnit::Count, kind) => count(encoder, name, help, None, kind, value)?,
                (NumberUnit::Bytes, kind) => {
                    count(encoder, name, help, Some(&Unit::Bytes), kind, value)?;
                }
                (NumberUnit::Nanoseconds, _) => {
                    let seconds = value as f64 / 1e9;
                    gauge(encoder, name, help, Some(&Unit::Seconds), seconds)?;
                }
            }
        }
        for number in NbdStats::NUMBERS {
            let (name, value) = (format!("nbd_{}", number.name), (number.value)(nbd));
            let help = number.help.trim_end_matches('.');
            count(encoder, &name, help, None, number.kind, value)?;
        }
        let help = "Rings of disks of virtual machines that run";
        let (kind, rings) = (NumberKind::Gauge, self.0.vhost.rings);
        count(encoder, "vhost_rings", help, None, kind, rings)?;
        let help = "Devices of ublk that are served";
        count(encoder, "ublk_queues", help, None, kind, self.0.ublk.queues)?;
        let UnderWayStats {
            requests,
            oldest_ns,
        } = self.0.under_way;
        let help = "Requests of all clients that are under way";
        count(encoder, "requests_under_way", help, None, kind, requests)?;
        let help = "Age of the oldest request under way";
        let (unit, age) = (Some(&Unit::Seconds), oldest_ns as f64 / 1e9);
        gauge(encoder, "oldest_request", help, unit, age)?;
        self.encode_members(encoder)?;
        let space = &self.0.space;
        for (name, help, value) in [
            (
                "store_size",
                "Bytes for volumes and files",
                Some(space.size_bytes),
            ),
            (
                "store_free",
                "Bytes that no volume has",
                Some(space.free_bytes),
            ),
            (
                "store_used",
                "Bytes that the files of the store take in their file systems, with the log",
                space.used_bytes,
            ),
        ] {
            if let Some(value) = value {
                count(encoder, name, help, Some(&Unit::Bytes), kind, value)?;
            }
        }
        let help = "1 while write-back or the log waits for space";
        let waits = i64::from(store.waiting_for_space);
        gauge(encoder, "waiting_for_space", help, None, waits)?;
        let help = "1 since a failure has made the store read-only";
        let failed = i64::from(store.failure.is_some());
        gauge(encoder, "failed", help, None, failed)
    }

    /// Requests and their times, by member.
    fn encode_members(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (help, kind) = ("Requests to a member that have ended", MetricType::Counter);
        let mut family = encoder.encode_descriptor("member_requests", help, None, kind)?;
        for member in &self.0.members {
            let labels = [("member", member.path.as_str())];
            ConstCounter::new(member.requests).encode(family.encode_family(&labels)?)?;
        }
        let (help, unit) = ("Time that requests to a member took", Some(&Unit::Seconds));
        let mut family = encoder.encode_descriptor("member_request", help, unit, kind)?;
        for member in &self.0.members {
            let labels = [("member", member.path.as_str())];
            let time = ConstCounter::new(member.time_ns as f64 / 1e9);
            time.encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn encode_times(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let store = &self.0.store;
        let batch = match store.log_writes {
            0 => 0.0,
            writes => store.commits as f64 / writes as f64,
        };
        let seconds = Some(&Unit::Seconds);
        gauge(
            encoder,
            "batch_commits_mean",
            "Commits for each device write of the log, on average",
            None,
            batch,
        )?;
        gauge(
            encoder,
            "uptime",
            "Time since the server began to serve",
            seconds,
            self.0.uptime_s,
        )
    }

    fn encode_operations(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some(mount) = &self.0.mount else {
            return Ok(());
        };
        let families: [(&str, &str, Option<&Unit>, OfOperation); 3] = [
            ("mount_operations", "Operations answered", None, |one| {
                one.requests
            }),
            (
                "mount_operation",
                "Bytes of content in operations that succeeded",
                Some(&Unit::Bytes),
                |one| one.bytes,
            ),
            (
                "mount_operation_errors",
                "Operations answered with an error",
                None,
                |one| one.errors,
            ),
        ];
        for (name, help, unit, value) in families {
            let mut family = encoder.encode_descriptor(name, help, unit, MetricType::Counter)?;
            for operation in &mount.operations {
                let labels = [("operation", operation.operation.as_str())];
                let counter = ConstCounter::new(value(operation));
                counter.encode(family.encode_family(&labels)?)?;
            }
        }
        for number in UnitStats::NUMBERS {
            let name = format!("mount_units_{}", number.name);
            let value = (number.value)(&mount.units);
            count(encoder, &name, number.help, None, number.kind, value)?;
        }
        let help = "Time from the arrival of an operation to its answer";
        let mut family = encoder.encode_descriptor(
            "mount_operation",
            help,
            Some(&Unit::Seconds),
            MetricType::Counter,
        )?;
        for operation in &mount.operations {
            let labels = [("operation", operation.operation.as_str())];
            let counter = ConstCounter::new(operation.time_ns as f64 / 1e9);
            counter.encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

/// Counters and latencies of a front end, whose names begin with `front`.
fn encode_requests(
    encoder: &mut DescriptorEncoder<'_>,
    front: &str,
    requests: &RequestStats,
) -> fmt::Result {
    let families: [(&str, &str, Option<&Unit>, OfCommand); 3] = [
        ("requests", "Requests answered", None, |command| {
            command.requests
        }),
        (
            "request",
            "Bytes of requests that succeeded",
            Some(&Unit::Bytes),
            |command| command.bytes,
        ),
        (
            "request_errors",
            "Requests answered with an error",
            None,
            |command| command.errors,
        ),
    ];
    for (name, help, unit, value) in families {
        let name = format!("{front}_{name}");
        let mut family = encoder.encode_descriptor(&name, help, unit, MetricType::Counter)?;
        for command in &requests.commands {
            let labels = [("command", command.command.as_str())];
            let counter = ConstCounter::new(value(command));
            counter.encode(family.encode_family(&labels)?)?;
        }
    }
    let help = "Time from the arrival of a request to its reply";
    let name = format!("{front}_request_latency");
    let mut family =
        encoder.encode_descriptor(&name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
    for latency in &requests.latencies {
        let labels = [("command", latency.command.as_str())];
        // The encoder sums the buckets up, and these are sums already.
        let (mut buckets, mut below) = (Vec::new(), 0);
        for (bound_ns, up_to) in &latency.buckets {
            buckets.push((*bound_ns as f64 / 1e9, up_to.saturating_sub(below)));
            below = *up_to;
        }
        buckets.push((f64::INFINITY, latency.count.saturating_sub(below)));
        let mut encoder = family.encode_family(&labels)?;
        let sum = latency.sum_ns as f64 / 1e9;
        encoder.encode_histogram::<[(&str, &str); 0]>(sum, latency.count, &buckets, None)?;
    }
    Ok(())
}

fn count(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    kind: NumberKind,
    value: u64,
) -> fmt::Result {
    match kind {
        NumberKind::Counter => {
            let counter = ConstCounter::new(value);
            let kind = counter.metric_type();
            counter.encode(encoder.encode_descriptor(name, help, unit, kind)?)
        }
        NumberKind::Gauge => {
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            gauge(encoder, name, help, unit, value)
        }
    }
}

fn gauge<N>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    value: N,
) -> fmt::Result
where
    ConstGauge<N>: EncodeMetric,
{
    let gauge = ConstGauge::new(value);
    let kind = gauge.metric_type();
    gauge.encode(encoder.encode_descriptor(name, help, unit, kind)?)
}

#[cfg(test)]
#[path = "text_test.rs"]
pub mod text_test;
