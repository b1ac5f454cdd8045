use crate::decide::TABLE;
use crate::decide::{Join, Sight};
use crate::{Case, Finding, decide};

#[test]
fn every_finding_meets_exactly_one_row_and_every_row_is_met() {
    let mut met = Vec::new();
    for sight in [Sight::Whole, Sight::Missing, Sight::Unreadable] {
        for join in [Join::Fresh, Join::Continues, Join::NewEpoch, Join::Breaks] {
            for bits in 0..8 {
                let finding = Finding {
                    sight,
                    join,
                    before_tail: bits & 1 != 0,
                    proven: bits & 2 != 0,
                    followed: bits & 4 != 0,
                };
                let rows: Vec<Case> = TABLE
                    .iter()
                    .filter(|(_, meets)| meets(&finding))
                    .map(|(case, _)| *case)
                    .collect();
                assert_eq!(rows.len(), 1, "{finding:?} meets {rows:?}");
                assert_eq!(decide(&finding), rows[0]);
                met.push(rows[0]);
            }
        }
    }
    for (case, _) in TABLE {
        assert!(met.contains(&case), "{case:?} is never met");
    }
}
