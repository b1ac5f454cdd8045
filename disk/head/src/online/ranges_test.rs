//! Tests of recurring gaps.

use super::*;

fn gap(end: (u64, u64)) -> Gap {
    Gap {
        end,
        missing: 88,
        turns: 0.5,
    }
}

#[test]
fn three_gaps_predict_the_next_one() {
    // Ranges of 30 tracks of 186 sectors, less 88.
    let mut ranges = Ranges::new();
    for k in 1..=2_u64 {
        ranges.learn(gap((5492 * k - 10, 5492 * k + 5)), 186);
    }
    assert!(ranges.next(11_000).is_none());
    ranges.learn(gap((5492 * 3 - 186, 5492 * 3 + 3)), 186);
    let next = ranges.next(5492 * 3 + 10).unwrap();
    assert!(next.end.0 <= 5492 * 4 && 5492 * 4 <= next.end.1);
    assert!(next.end.1 - next.end.0 < 100, "{next:?}");
    assert!(
        ranges
            .between(5492 * 3 + 100, 5492 * 3 + 300, 186)
            .is_none()
    );
    let (_, must) = ranges.between(5492 * 4 - 150, 5492 * 4 + 90, 186).unwrap();
    assert!(must);
}

#[test]
fn a_missing_gap_is_forgotten() {
    let mut ranges = Ranges::new();
    for k in 1..=3_u64 {
        ranges.learn(gap((5492 * k, 5492 * k)), 186);
    }
    ranges.lost();
    assert!(ranges.next(20_000).is_none());
    assert_eq!(ranges.last().unwrap().missing, 88);
}
