//! The page of metrics, in the OpenMetrics text format that Prometheus reads.

use crate::control::{CommandStats, ServerStats};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;

/// For the head of the answer.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The page.
///
/// # Errors
/// Never, as a string takes everything.
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
/// Name, help, unit, value.
type Count = (&'static str, &'static str, Option<Unit>, u64);

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, unit, value) in self.counters() {
            let counter = ConstCounter::new(value);
            let kind = counter.metric_type();
            counter.encode(encoder.encode_descriptor(name, help, unit.as_ref(), kind)?)?;
        }
        for (name, help, unit, value) in self.gauges() {
            gauge(
                &mut encoder,
                name,
                help,
                unit.as_ref(),
                i64::try_from(value).unwrap_or(i64::MAX),
            )?;
        }
        self.encode_times(&mut encoder)?;
        self.encode_commands(&mut encoder)?;
        self.encode_latencies(&mut encoder)?;
        let labels = [("version", self.0.version.as_str())];
        let mut build =
            encoder.encode_descriptor("build", "Version of the server", None, MetricType::Info)?;
        build.encode_info(&labels)
    }
}

impl Page {
    fn counters(&self) -> Vec<Count> {
        let (store, nbd) = (&self.0.store, &self.0.nbd);
        let bytes = || Some(Unit::Bytes);
        vec![
            (
                "commits",
                "Commits made: writes, trims and zeroings",
                None,
                store.commits,
            ),
            ("commit", "Payload of commits", bytes(), store.commit_bytes),
            ("reads", "Reads of blocks", None, store.reads),
            ("read", "Bytes read", bytes(), store.read_bytes),
            (
                "read_hits",
                "Reads served wholly from memory",
                None,
                store.read_hits,
            ),
            (
                "flush_requests",
                "Flushes that clients asked for",
                None,
                store.flush_requests,
            ),
            (
                "log_writes",
                "Device writes of the log, one for each batch",
                None,
                store.log_writes,
            ),
            (
                "log_durable_writes",
                "Device writes of the log that were written through",
                None,
                store.log_durable_writes,
            ),
            (
                "log_written",
                "Bytes written to the log",
                bytes(),
                store.log_bytes,
            ),
            (
                "log_records",
                "Log records written",
                None,
                store.log_records,
            ),
            (
                "log_flushes",
                "Flushes of the log device",
                None,
                store.log_flushes,
            ),
            (
                "log_markers",
                "Log records written only to free log space",
                None,
                store.log_markers,
            ),
            (
                "log_full_waits",
                "Times a writer waited for log space",
                None,
                store.log_full_waits,
            ),
            (
                "log_repositions",
                "Reads of the log drives for the sake of their heads",
                None,
                store.log_repositions,
            ),
            (
                "write_back_rounds",
                "Rounds of write-back",
                None,
                store.write_back_rounds,
            ),
            (
                "written_back_blocks",
                "Blocks written home",
                None,
                store.written_back_blocks,
            ),
            (
                "superseded_blocks",
                "Blocks replaced by a newer version while they were written home",
                None,
                store.superseded_blocks,
            ),
            ("home_reads", "Device reads at home", None, store.home_reads),
            (
                "home_read",
                "Bytes read at home",
                bytes(),
                store.home_read_bytes,
            ),
            (
                "home_writes",
                "Device writes at home",
                None,
                store.home_writes,
            ),
            (
                "home_written",
                "Bytes written at home",
                bytes(),
                store.home_write_bytes,
            ),
            (
                "home_flushes",
                "Flushes of data devices",
                None,
                store.home_flushes,
            ),
            (
                "table_loads",
                "Checksum tables read",
                None,
                store.table_loads,
            ),
            (
                "table_hits",
                "Checksum tables found in memory",
                None,
                store.table_hits,
            ),
            (
                "table_writes",
                "Checksum tables written",
                None,
                store.table_writes,
            ),
            (
                "checksum_errors",
                "Blocks that failed their checksum",
                None,
                store.checksum_errors,
            ),
            (
                "recovered_commits",
                "Commits recovered from the log at the start",
                None,
                store.recovered_commits,
            ),
            (
                "nbd_connections_opened",
                "Connections served",
                None,
                nbd.connections_opened,
            ),
            (
                "nbd_connections_over_limit",
                "Connections closed because too many were open",
                None,
                nbd.connections_over_limit,
            ),
            (
                "nbd_connections_stalled",
                "Connections cut because the client stalled",
                None,
                nbd.connections_stalled,
            ),
            (
                "nbd_connections_violated",
                "Connections ended because the client broke the protocol",
                None,
                nbd.connections_violated,
            ),
            (
                "nbd_handshakes_refused",
                "Handshakes that failed",
                None,
                nbd.handshakes_refused,
            ),
            (
                "nbd_sends",
                "Send operations; several replies may leave in one",
                None,
                nbd.sends,
            ),
            (
                "nbd_receives",
                "Receive operations; several requests may come in one",
                None,
                nbd.receives,
            ),
        ]
    }

    fn gauges(&self) -> Vec<Count> {
        let (store, nbd) = (&self.0.store, &self.0.nbd);
        let bytes = || Some(Unit::Bytes);
        vec![
            (
                "log_used",
                "Log space in use",
                bytes(),
                store.log_used_bytes,
            ),
            ("log_size", "Size of the log", bytes(), store.log_size_bytes),
            (
                "memory_used",
                "Written data in memory",
                bytes(),
                store.memory_used_bytes,
            ),
            (
                "memory_limit",
                "Bound on written data in memory",
                bytes(),
                store.memory_limit_bytes,
            ),
            (
                "memory_waiting_writers",
                "Writers that wait for memory",
                None,
                store.memory_waiting,
            ),
            (
                "map_cache",
                "Checksum tables in memory",
                bytes(),
                store.map_cache_bytes,
            ),
            ("segments", "Segments of the home", None, store.segments),
            (
                "segments_free",
                "Segments that can be written",
                None,
                store.free_segments,
            ),
            (
                "segments_live",
                "Live blocks and map pages in segments",
                bytes(),
                store.segments_live_bytes,
            ),
            (
                "pinned_blocks",
                "Blocks in the log and not yet at home",
                None,
                store.pinned_blocks,
            ),
            (
                "pending_ranges",
                "Ranges to be zeroed at home",
                None,
                store.pending_ranges,
            ),
            ("appended_lsn", "Last commit made", None, store.appended_lsn),
            (
                "flushed_lsn",
                "Last commit that the log device has said done",
                None,
                store.flushed_lsn,
            ),
            (
                "durable_lsn",
                "Last durable commit",
                None,
                store.durable_lsn,
            ),
            (
                "waiting_for_space",
                "1 while the medium below is full and write-back waits",
                None,
                u64::from(store.waiting_for_space),
            ),
            (
                "failed",
                "1 since a failure has made the store read-only",
                None,
                u64::from(store.failure.is_some()),
            ),
            (
                "nbd_connections_open",
                "Connections open now",
                None,
                nbd.connections_open,
            ),
        ]
    }

    fn encode_times(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let store = &self.0.store;
        let batch = match store.log_writes {
            0 => 0.0,
            writes => store.commits as f64 / writes as f64,
        };
        let lag = store.write_back_lag_ns as f64 / 1e9;
        let recovery = store.recovery_ns as f64 / 1e9;
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
            "write_back_lag",
            "Age of the oldest block that is not yet at home",
            seconds,
            lag,
        )?;
        gauge(
            encoder,
            "recovery",
            "Time that opening the store took",
            seconds,
            recovery,
        )?;
        gauge(
            encoder,
            "uptime",
            "Time since the server began to serve",
            seconds,
            self.0.uptime_s,
        )
    }

    fn encode_commands(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let commands = &self.0.nbd.commands;
        let families: [(&str, &str, Option<&Unit>, OfCommand); 3] = [
            ("nbd_requests", "Requests answered", None, |command| {
                command.requests
            }),
            (
                "nbd_request",
                "Bytes of requests that succeeded",
                Some(&Unit::Bytes),
                |command| command.bytes,
            ),
            (
                "nbd_request_errors",
                "Requests answered with an error",
                None,
                |command| command.errors,
            ),
        ];
        for (name, help, unit, value) in families {
            let mut family = encoder.encode_descriptor(name, help, unit, MetricType::Counter)?;
            for command in commands {
                let labels = [("command", command.command.as_str())];
                let counter = ConstCounter::new(value(command));
                counter.encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    fn encode_latencies(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Time from the arrival of a request to its reply";
        let mut family = encoder.encode_descriptor(
            "nbd_request_latency",
            help,
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        for latency in &self.0.nbd.latencies {
            let labels = [("command", latency.command.as_str())];
            // The encoder adds the buckets up; ours are added up already.
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
mod text_test;
