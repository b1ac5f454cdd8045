use super::Latency;
use tonearm_base::Nanos;

#[test]
fn recent_latencies_are_those_of_the_last_seconds() {
    let latency = Latency::default();
    let recent = |at: u64| {
        let histogram = latency.recent(Nanos::from_secs(at));
        (histogram.len(), histogram.max())
    };
    assert_eq!(recent(100), (0, 0));
    latency.record(Nanos(1000), Nanos::from_secs(101));
    latency.record(Nanos(50), Nanos::from_secs(107));
    assert_eq!(recent(107).0, 2);
    latency.record(Nanos(50), Nanos::from_secs(112));
    let (count, max) = recent(113);
    assert!(
        count == 2 && max < 100,
        "the first one is forgotten: {count}, {max}"
    );
    assert_eq!(recent(130), (0, 0));
    latency.with(|all| assert_eq!(all.len(), 3));
}
