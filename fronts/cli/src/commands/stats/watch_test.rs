use super::{COLUMNS, LINES, page};
use crate::control::{
    CommandStats, LatencyStats, MemberStats, MountStats, NbdStats, OperationStats, RecentStats,
    RequestStats, ServerStats, SpaceStats, UblkStats, UnderWayStats, VhostStats,
};
use std::time::Duration;

/// A server with as much to show as there can be, after `requests` requests of each kind.
fn busy(requests: u64) -> ServerStats {
    let names = [
        "read",
        "write",
        "flush",
        "trim",
        "write_zeroes",
        "block_status",
    ];
    let command = |name: &&str| CommandStats {
        command: (*name).into(),
        requests,
        bytes: requests << 16,
        errors: requests / 2,
    };
    let latency = |name: &&str| LatencyStats {
        command: (*name).into(),
        p99_ns: 5_400_000,
        recent: RecentStats {
            count: requests,
            p50_ns: 123_456_789,
            p99_ns: 1_234_567_890,
            max_ns: 12_345_678_900,
        },
        ..LatencyStats::default()
    };
    let all = RequestStats {
        commands: names.iter().map(command).collect(),
        latencies: names.iter().take(3).map(latency).collect(),
    };
    let member = |number: u64| MemberStats {
        path: format!("/dev/disk/by-id/a-very-long-name-of-a-drive-with-its-number-{number}"),
        requests: requests * 100,
        time_ns: requests * 100_000_000,
        under_way: 64,
        stalled_ns: 61_000_000_000,
    };
    ServerStats {
        version: "1".into(),
        pid: 4_000_000,
        uptime_s: 1e8,
        store: tonearm_disk::StoreStats {
            segments: 1 << 40,
            array_members: 9,
            archive_state: 2,
            waiting_for_space: true,
            failure: Some("a long reason ".repeat(20)),
            ..Default::default()
        },
        space: SpaceStats {
            size_bytes: 1000 << 40,
            free_bytes: 1 << 40,
            used_bytes: Some(1001 << 40),
        },
        events: vec!["/dev/sdb has failed and is not used any more; ".repeat(5); 9],
        under_way: UnderWayStats {
            requests: 99_999,
            oldest_ns: 61_000_000_000,
        },
        members: (0..9).map(member).collect(),
        nbd: NbdStats {
            requests: all.clone(),
            ..NbdStats::default()
        },
        vhost: VhostStats {
            rings: 64,
            requests: all.clone(),
        },
        ublk: UblkStats {
            queues: 1,
            requests: all,
        },
        mount: Some(MountStats {
            operations: vec![OperationStats {
                operation: "fallocate".into(),
                requests,
                ..OperationStats::default()
            }],
            ..MountStats::default()
        }),
    }
}

#[test]
fn the_page_fits_a_terminal_of_80_columns_and_24_lines() {
    let second = Duration::from_secs(1);
    let (before, now) = (busy(1_000_000), busy(2_000_000_000));
    for text in [page(&now, None), page(&now, Some((second, &before)))] {
        assert!(text.lines().count() <= LINES, "{text}");
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(COLUMNS), "{text}");
    }
}

#[test]
fn stall_is_visible_despite_lifetime_latencies() {
    let mut now = busy(10);
    now.nbd.requests.latencies[1].recent = RecentStats::default();
    let text = page(&now, Some((Duration::from_secs(1), &busy(10))));
    assert!(
        text.contains("99,999 requests under way, the oldest for 61"),
        "{text}"
    );
    assert!(text.contains("stands for"), "{text}");
    assert!(!text.contains("5.4 ms"), "{text}");
    assert!(!text.contains("NBD write "), "none was answered: {text}");
}

#[test]
fn page_shows_store_usage_in_one_line() {
    let text = page(&busy(10), Some((Duration::from_secs(1), &busy(10))));
    let line = "space 999 TiB of 1000 TiB (100 %) in use; 1001 TiB used below the store";
    assert!(text.lines().any(|found| found == line), "{text}");
    let mut device = busy(10);
    device.space.used_bytes = None;
    let text = page(&device, None);
    let line = "space 999 TiB of 1000 TiB (100 %) in use";
    assert!(text.lines().any(|found| found == line), "{text}");
}
