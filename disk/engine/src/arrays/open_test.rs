//! What a candidate turns out to be, by its own descriptor and that of the primary member.

use super::{Judged, Verdict};
use tonearm_device::raid::Trouble;
use tonearm_format::{ArrayDescriptor, ArrayLevel, ArrayMember, ArrayMissing};

fn descriptor() -> ArrayDescriptor {
    let member = |index: u8| ArrayMember {
        uuid: [index; 16],
        path: format!("m{index}"),
    };
    ArrayDescriptor {
        store: [7; 16],
        array: [8; 16],
        generation: 5,
        level: ArrayLevel::Raid5,
        clean: true,
        own_index: None,
        stripe_bytes: 65536,
        rows: 16,
        missing: None,
        records_offset: 0,
        records_bytes: 0,
        trailer_offset: 0,
        members: (0..3).map(member).collect(),
    }
}

/// The verdict on a device that was found in the place of a member, or named, whose own descriptor differs by `change`.
fn verdict(is_named: bool, change: impl FnOnce(&mut ArrayDescriptor)) -> Verdict {
    let (known, mut own) = (descriptor(), descriptor());
    own.own_index = Some(1);
    change(&mut own);
    let candidate = Judged {
        own: Some(&own),
        bytes: known.member_bytes(),
        is_named,
    };
    candidate.verdict(&known, "store")
}

#[test]
fn a_member_is_known_by_its_identity() {
    assert_eq!(verdict(false, |_| {}), Verdict::Member(1, None));
    // The members have changed their places.
    let moved = verdict(false, |own| own.members.swap(1, 2));
    assert_eq!(moved, Verdict::Member(2, None));
    // It has the update that never reached the primary member.
    let ahead = verdict(false, |own| own.generation = 6);
    assert_eq!(ahead, Verdict::Member(1, None));
}

#[test]
fn what_lacks_an_update_is_stale() {
    let old = verdict(false, |own| own.generation = 4);
    assert!(matches!(old, Verdict::Member(1, Some(Trouble::Stale(_)))));
    let (mut known, mut own) = (descriptor(), descriptor());
    own.own_index = Some(1);
    for (replaced, is_stale) in [(false, true), (true, false)] {
        known.missing = Some(ArrayMissing {
            member: 1,
            replaced,
            rebuilt_rows: 0,
        });
        let candidate = Judged {
            own: Some(&own),
            bytes: u64::MAX,
            is_named: false,
        };
        let found = candidate.verdict(&known, "store");
        assert_eq!(matches!(found, Verdict::Member(1, Some(_))), is_stale);
    }
}

#[test]
fn what_is_no_member_is_left_out_or_refused() {
    for is_named in [false, true] {
        let refused = |verdict: Verdict| matches!(verdict, Verdict::Refused(_));
        assert!(refused(verdict(is_named, |own| own.store = [9; 16])));
        assert!(refused(verdict(is_named, |own| own.array = [9; 16])));
        assert!(refused(verdict(is_named, |own| own.generation = 7)));
        // A device that the caller has named is not left out in silence.
        let replaced = verdict(is_named, |own| own.members[1].uuid = [9; 16]);
        assert_eq!(refused(replaced), is_named);
        let blank = Judged {
            own: None,
            bytes: u64::MAX,
            is_named,
        };
        assert_eq!(refused(blank.verdict(&descriptor(), "store")), is_named);
    }
}

#[test]
fn a_truncated_member_counts_as_missing() {
    let (known, mut own) = (descriptor(), descriptor());
    own.own_index = Some(0);
    let candidate = Judged {
        own: Some(&own),
        bytes: known.member_bytes() - 1,
        is_named: true,
    };
    let found = candidate.verdict(&known, "store");
    assert!(matches!(
        found,
        Verdict::Member(0, Some(Trouble::Missing(_)))
    ));
}
