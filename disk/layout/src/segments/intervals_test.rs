use crate::segments::SegmentsOptions;
use crate::segments::intervals::Separation;
use crate::separation::Decision;
use crate::separation::cost::Efficiency;
use tonearm_base::Nanos;
use tonearm_format::Placement;

fn separation(placement: Placement, hot_writes: Option<f64>) -> Separation {
    let options = SegmentsOptions {
        store: [1; 16],
        block_size: 4096,
        segment_bytes: 1 << 20,
        size_blocks: 1000,
        map_cache_bytes: 1 << 20,
        policy: Default::default(),
        plugging: Default::default(),
        placement,
        separation_interval: Nanos::from_secs(1200),
        given: None,
        writes_while_reading: 8,
        read_only: false,
    };
    let mut known = Separation::new(&options, Nanos(0)).expect("blocks are separated");
    known.decision = hot_writes.map(|hot_writes| {
        let decision = Decision {
            hot_writes,
            ..Decision::default()
        };
        (decision, Efficiency::constant(30.0))
    });
    known
}

#[test]
fn round_size_grows_with_the_overwritten_share() {
    let blocks = |hot_writes| separation(Placement::Hylog, hot_writes).round_blocks(128, 508);
    assert_eq!(blocks(None), 128);
    assert_eq!(blocks(Some(1.0)), 128);
    assert_eq!(blocks(Some(0.5)), 256);
    assert_eq!(blocks(Some(0.0)), 128 * 64);
}

#[test]
fn wolf_round_holds_the_blocks_that_it_sorts() {
    assert_eq!(
        separation(Placement::Wolf, Some(0.5)).round_blocks(128, 508),
        508
    );
}
