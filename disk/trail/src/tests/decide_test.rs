use crate::decide::{Case, Finding, Join, Sight, decide};

/// The findings of each case, written apart from the code: sight, and the values of `before_log_end`, `proven` and
/// `followed` that belong to the case.
fn expected(finding: &Finding) -> Vec<Case> {
    let whole =
        |joins: &[Join]| matches!(finding.sight, Sight::Whole(join) if joins.contains(&join));
    let missing = finding.sight == Sight::Missing;
    let doubtful = missing && !finding.before_log_end && !finding.proven;
    let rows = [
        (Case::Replay, whole(&[Join::Fresh, Join::Continues])),
        (Case::AbandonedCommit, whole(&[Join::NewEpoch])),
        (Case::BrokenCommit, whole(&[Join::Breaks])),
        (Case::Unreadable, finding.sight == Sight::Unreadable),
        (Case::DamagedBeforeTail, missing && finding.before_log_end),
        (
            Case::DamagedProven,
            missing && finding.proven && !finding.before_log_end,
        ),
        (Case::TornTail, doubtful && finding.followed),
        (Case::End, doubtful && !finding.followed),
    ];
    rows.into_iter()
        .filter_map(|(case, meets)| meets.then_some(case))
        .collect()
}

#[test]
fn every_finding_has_the_case_of_the_one_rule_that_it_meets() {
    let joins = [Join::Fresh, Join::Continues, Join::NewEpoch, Join::Breaks];
    let sights = joins.map(Sight::Whole).into_iter();
    for sight in sights.chain([Sight::Missing, Sight::Unreadable]) {
        for bits in 0..8 {
            let finding = Finding {
                sight,
                before_log_end: bits & 1 != 0,
                proven: bits & 2 != 0,
                followed: bits & 4 != 0,
            };
            assert_eq!(expected(&finding), [decide(&finding)], "{finding:?}");
        }
    }
}
