//! Sets of bits compared with sets of numbers.

use crate::skip_set::SkipSet;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn any_set() -> impl Strategy<Value = BTreeSet<usize>> {
    prop::collection::btree_set(0_usize..200, 0..60)
}

proptest! {
    #[test]
    fn shifted_meets_are_those_of_a_plain_set(one in any_set(), other in any_set(), by in -250_i64..250) {
        let mut set = SkipSet::of(200, one.iter().copied());
        let any = set.keep_shifted(&SkipSet::of(200, other.iter().copied()), by);
        let shifted = |skip: usize| usize::try_from(skip as i64 + by).ok();
        let meets = |skip: &usize| shifted(*skip).is_some_and(|to| other.contains(&to));
        let expected: Vec<usize> = one.iter().copied().filter(meets).collect();
        prop_assert_eq!(set.iter().collect::<Vec<_>>(), expected.clone());
        prop_assert_eq!(any, !expected.is_empty());
        prop_assert_eq!(set.is_empty(), expected.is_empty());
        prop_assert_eq!(set.bounds(), expected.first().copied().zip(expected.last().copied()));
    }
}
