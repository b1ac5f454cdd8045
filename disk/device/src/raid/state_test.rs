//! With which state an array opens, by the members that are there.

use super::state::{Missing, Raid5State, RaidError};

/// The missing member and its rebuilt stripes, at an opening after a state that names those in `saved`.
fn opened(
    saved: Option<(usize, u64)>,
    is_there: [bool; 3],
) -> Result<Option<(usize, u64)>, RaidError> {
    let missing = |(member, rebuilt_rows)| Missing {
        member,
        rebuilt_rows,
    };
    let state = Raid5State {
        clean: true,
        missing: saved.map(missing),
    };
    let names = ["a", "b", "c"].map(str::to_string);
    let state = state.at_opening(&is_there, &names)?;
    Ok(state
        .missing
        .map(|missing| (missing.member, missing.rebuilt_rows)))
}

#[test]
fn one_member_may_be_missing() {
    assert_eq!(opened(None, [true; 3]), Ok(None));
    assert_eq!(opened(None, [true, false, true]), Ok(Some((1, 0))));
    // The failed member itself, and a replacement.
    assert_eq!(opened(Some((1, 0)), [true; 3]), Ok(Some((1, 0))));
    assert_eq!(opened(Some((1, 7)), [true; 3]), Ok(Some((1, 7))));
    // The replacement is gone, and what was rebuilt with it.
    assert_eq!(opened(Some((1, 7)), [true, false, true]), Ok(Some((1, 0))));
}

#[test]
fn two_members_may_not() {
    let lost = |saved, is_there| match opened(saved, is_there) {
        Err(RaidError::Lost { first, second, .. }) => (first, second),
        other => panic!("{other:?}"),
    };
    let names = |first: &str, second: &str| (first.to_string(), second.to_string());
    assert_eq!(lost(None, [false, true, false]), names("a", "c"));
    assert_eq!(lost(Some((1, 7)), [true, true, false]), names("b", "c"));
    assert!(matches!(
        opened(Some((3, 0)), [true; 3]),
        Err(RaidError::Shape(_))
    ));
}
