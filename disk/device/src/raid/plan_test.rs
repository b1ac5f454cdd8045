//! Which reads an update needs, and when a power cut endangers what it leaves alone.

use super::cut::{Band, Payload, Piece, bands};
use super::geometry::Unit::{Column, Parity};
use super::plan::{BandPlan, Method, StripeNow};
use tonearm_rt::Op;

/// Changes bytes 0 to 8 of these columns.
fn band(columns: &[usize]) -> Band {
    let piece = |column: &usize| Piece {
        column: *column,
        range: 0..8,
        payload: Payload::Zeroes(Op::Zero),
    };
    bands(columns.iter().map(piece).collect(), None).remove(0)
}

#[test]
fn the_method_with_fewer_reads_is_used() {
    let all = StripeNow::default();
    for (changed, method, reads) in [
        (&[0][..], Method::ReadModifyWrite, vec![Parity, Column(0)]),
        // Both take three reads.
        (
            &[0, 1],
            Method::ReadModifyWrite,
            vec![Parity, Column(0), Column(1)],
        ),
        (
            &[0, 1, 3],
            Method::ReconstructWrite,
            vec![Column(2), Column(4)],
        ),
        (&[0, 1, 2, 3, 4], Method::FullWrite, vec![]),
    ] {
        let plan = BandPlan::new(&band(changed), 5, None, all);
        let units: Vec<_> = plan.reads.iter().map(|(unit, _)| *unit).collect();
        assert_eq!(
            (plan.method, units, plan.endangers),
            (method, reads, false),
            "{changed:?}"
        );
    }
}

#[test]
fn parity_that_may_be_stale_is_not_read() {
    let now = StripeNow {
        is_suspect: true,
        is_recorded: false,
    };
    let plan = BandPlan::new(&band(&[0]), 5, None, now);
    assert_eq!(plan.method, Method::ReconstructWrite);
    assert!(plan.reads.iter().all(|(unit, _)| *unit != Parity));
}

#[test]
fn units_that_are_left_alone_are_endangered() {
    let recorded = StripeNow {
        is_suspect: false,
        is_recorded: true,
    };
    let plan = |changed: &[usize], missing, now| BandPlan::new(&band(changed), 3, missing, now);
    assert!(plan(&[0], None, recorded).endangers);
    assert!(!plan(&[0, 1, 2], None, recorded).endangers);
    assert!(!plan(&[0], None, StripeNow::default()).endangers);
    // The missing unit exists only as the XOR of the others.
    let kept = plan(&[0], Some(Column(1)), StripeNow::default());
    assert_eq!(
        (kept.method, kept.endangers),
        (Method::ReadModifyWrite, true)
    );
    let changed = plan(&[1], Some(Column(1)), StripeNow::default());
    assert_eq!(
        (changed.method, changed.endangers),
        (Method::ReconstructWrite, false)
    );
    let data = plan(&[0], Some(Parity), recorded);
    assert_eq!((data.method, data.reads.len()), (Method::DataAlone, 0));
    assert!(!data.endangers);
}
