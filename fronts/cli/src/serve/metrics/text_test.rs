use super::render;
use crate::control::{
    CommandStats, LatencyStats, MemberStats, MountStats, NbdStats, OperationStats, RequestStats,
    ServerStats, SpaceStats, UblkStats, UnderWayStats, UnitStats, VhostStats,
};

/// A page with all metrics, each with a sample.
pub fn page() -> String {
    let store = tonearm_disk::StoreStats {
        commits: 10,
        log_writes: 4,
        recovery_ns: 1_500_000_000,
        ..Default::default()
    };
    let requests = RequestStats {
        commands: vec![CommandStats {
            command: "write".into(),
            requests: 7,
            bytes: 4096,
            errors: 1,
        }],
        latencies: vec![LatencyStats {
            command: "write".into(),
            count: 3,
            sum_ns: 3_000_000,
            buckets: vec![(1_000_000, 2), (2_000_000, 2)],
            ..LatencyStats::default()
        }],
    };
    let nbd = NbdStats {
        requests: requests.clone(),
        ..NbdStats::default()
    };
    let stats = ServerStats {
        version: "1".into(),
        pid: 1,
        uptime_s: 2.5,
        store,
        events: Vec::new(),
        under_way: UnderWayStats {
            requests: 7,
            oldest_ns: 1_500_000_000,
        },
        members: vec![MemberStats::default()],
        space: SpaceStats {
            size_bytes: 1 << 30,
            free_bytes: 0,
            used_bytes: Some(12_345),
        },
        nbd,
        vhost: VhostStats {
            rings: 2,
            requests: requests.clone(),
        },
        ublk: UblkStats {
            queues: 1,
            requests,
        },
        mount: Some(MountStats {
            operations: vec![OperationStats {
                operation: "write".into(),
                requests: 5,
                bytes: 8192,
                errors: 2,
                time_ns: 1_500_000_000,
            }],
            units: UnitStats {
                begun: 3,
                open: 1,
                ..UnitStats::default()
            },
        }),
    };
    render(&stats).expect("text")
}

#[test]
fn metrics_page_has_values_with_units_and_labels() {
    let page = page();
    for line in [
        "tonearm_commits_total 10",
        "tonearm_batch_commits_mean 2.5",
        "tonearm_recovery_seconds 1.5",
        "tonearm_uptime_seconds 2.5",
        "tonearm_nbd_requests_total{command=\"write\"} 7",
        "tonearm_nbd_request_bytes_total{command=\"write\"} 4096",
        "tonearm_nbd_request_latency_seconds_bucket{le=\"0.001\",command=\"write\"} 2",
        "tonearm_nbd_request_latency_seconds_bucket{le=\"+Inf\",command=\"write\"} 3",
        "tonearm_nbd_request_latency_seconds_count{command=\"write\"} 3",
        "tonearm_vhost_rings 2",
        "tonearm_vhost_requests_total{command=\"write\"} 7",
        "tonearm_vhost_request_latency_seconds_count{command=\"write\"} 3",
        "tonearm_ublk_queues 1",
        "tonearm_ublk_requests_total{command=\"write\"} 7",
        "tonearm_mount_operations_total{operation=\"write\"} 5",
        "tonearm_mount_operation_bytes_total{operation=\"write\"} 8192",
        "tonearm_mount_operation_errors_total{operation=\"write\"} 2",
        "tonearm_mount_operation_seconds_total{operation=\"write\"} 1.5",
        "tonearm_mount_units_open 1",
        "tonearm_mount_units_begun_total 3",
        "tonearm_build_info{version=\"1\"} 1",
    ] {
        assert!(
            page.lines().any(|found| found == line),
            "{line} is not in:\n{page}"
        );
    }
    assert!(page.ends_with("# EOF\n"));
}

#[test]
fn every_metric_has_help_and_a_type() {
    let page = page();
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().expect("a name");
        let described = page
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE "))
            .any(|described| name.starts_with(described.split(' ').next().expect("a name")));
        assert!(described && name.starts_with("tonearm_"), "{line}");
    }
}
