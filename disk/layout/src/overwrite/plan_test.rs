use crate::ZeroRange;
use crate::overwrite::plan::ZeroPlan;
use proptest::prelude::*;

fn range(first: u64, count: u64, keep_space: bool) -> ZeroRange {
    ZeroRange {
        first,
        count,
        keep_space,
    }
}

#[test]
fn adjacent_halves_of_a_group_are_planned_as_a_whole_group() {
    let plan = ZeroPlan::new(vec![range(15, 5, false), range(10, 5, false)], 10, 100);
    assert_eq!(plan.whole.len(), 1);
    assert_eq!(plan.whole[0].groups, 1..2);
    assert!(plan.parts.is_empty());
}

#[test]
fn the_last_group_is_whole_when_the_store_ends_in_it() {
    let plan = ZeroPlan::new(vec![range(0, 95, false)], 10, 95);
    assert_eq!(plan.whole[0].groups, 0..10);
    assert!(plan.parts.is_empty());
}

#[test]
fn a_trim_of_a_whole_store_is_one_run() {
    let blocks = 1 << 40;
    let plan = ZeroPlan::new(vec![range(0, blocks, false)], 1016, blocks);
    assert_eq!((plan.whole.len(), plan.parts.len()), (1, 0));
}

proptest! {
    /// Each block of a range is in exactly one whole group or part, and no other block is.
    #[test]
    fn plan_covers_exactly_the_given_ranges(
        size in 1u64..200,
        raw in prop::collection::vec((0u64..200, 1u64..60, any::<bool>()), 0..8),
    ) {
        let ranges: Vec<_> = raw
            .into_iter()
            .filter(|(first, _, _)| *first < size)
            .map(|(first, count, keep)| range(first, count.min(size - first), keep))
            .collect();
        let wanted: Vec<bool> = (0..size)
            .map(|block| ranges.iter().any(|r| (r.first..r.first + r.count).contains(&block)))
            .collect();
        let plan = ZeroPlan::new(ranges, 10, size);
        let mut hits = vec![0; size as usize];
        for run in &plan.whole {
            for block in run.groups.start * 10..(run.groups.end * 10).min(size) {
                hits[block as usize] += 1;
            }
        }
        for part in &plan.parts {
            prop_assert!(!plan.is_whole(part.group));
            for block in part.blocks.clone() {
                prop_assert_eq!(block / 10, part.group);
                hits[block as usize] += 1;
            }
        }
        for block in 0..size as usize {
            prop_assert_eq!(hits[block], i32::from(wanted[block]), "block {}", block);
        }
    }
}
