//! Access control lists, and the modes that go with them.

use super::*;

fn list(entries: &[(u16, u16, u32)]) -> Acl {
    let entry = |&(tag, permissions, id): &(u16, u16, u32)| Entry {
        tag,
        permissions,
        id,
    };
    Acl(entries.iter().map(entry).collect())
}

const NOBODY: u32 = u32::MAX;

/// user::rw-, user:7:rwx, group::r--, mask::rw-, other::---
fn named() -> Acl {
    list(&[
        (USER_OBJ, 6, NOBODY),
        (USER, 7, 7),
        (GROUP_OBJ, 4, NOBODY),
        (MASK, 6, NOBODY),
        (OTHER, 0, NOBODY),
    ])
}

#[test]
fn the_form_is_that_of_the_kernel() {
    let bytes = named().encode();
    // As `getfattr -e hex -n system.posix_acl_access` shows it on ext4.
    let first = [2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 7, 0, 7, 0];
    assert_eq!(bytes[..first.len()], first);
    assert_eq!(Acl::decode(&bytes).unwrap(), Some(named()));
    assert_eq!(Acl::decode(&[2, 0, 0, 0]).unwrap(), None);
    for length in (0..bytes.len()).filter(|length| *length != 4) {
        assert!(Acl::decode(&bytes[..length]).is_err(), "{length}");
    }
}

#[test]
fn incomplete_lists_are_refused() {
    let whole = named().0;
    let refused = |change: &dyn Fn(&mut Vec<Entry>)| {
        let mut entries = whole.clone();
        change(&mut entries);
        assert!(
            Acl::decode(&Acl(entries.clone()).encode()).is_err(),
            "{entries:?}"
        );
    };
    for without in [0, 2, 3, 4] {
        refused(&|entries| {
            entries.remove(without);
        });
    }
    refused(&|entries| entries.swap(1, 2));
    refused(&|entries| entries[0].permissions = 8);
    refused(&|entries| entries[1].tag = 3);
    refused(&|entries| entries.insert(1, entries[0]));
    let mut version = named().encode();
    version[0] = 1;
    assert!(Acl::decode(&version).is_err());
}

/// The digit of the group is the mask, if there is one.
#[test]
fn the_mode_follows_the_list_and_the_list_the_mode() {
    let acl = named();
    assert_eq!(acl.permissions(), 0o660);
    let acl = acl.with_permissions(0o100_741);
    assert_eq!(acl.permissions(), 0o741);
    assert_eq!(acl.0[2].permissions, 4, "the group's own entry stays");
    assert_eq!(acl.0[1].permissions, 7, "named entries stay");
    let small = list(&[
        (USER_OBJ, 7, NOBODY),
        (GROUP_OBJ, 5, NOBODY),
        (OTHER, 5, NOBODY),
    ]);
    assert!(small.is_minimal() && !named().is_minimal());
    let small = small.with_permissions(0o640);
    assert_eq!((small.permissions(), small.0[1].permissions), (0o640, 4));
}

/// The first that fits of owner, named user, groups, others decides; of several groups one is enough.
#[test]
fn a_user_may_write_as_the_list_says() {
    let groups = list(&[
        (USER_OBJ, 4, NOBODY),
        (USER, 6, 7),
        (USER, 4, 8),
        (GROUP_OBJ, 4, NOBODY),
        (GROUP, 7, 9),
        (MASK, 6, NOBODY),
        (OTHER, 2, NOBODY),
    ]);
    let masked = groups.clone().with_permissions(0o442);
    for (acl, uid, of, may) in [
        (&groups, 1, &[9][..], false),
        (&groups, 7, &[], true),
        (&groups, 8, &[9], false),
        (&groups, 5, &[2], false),
        (&groups, 5, &[9], true),
        (&groups, 5, &[2, 9], true),
        (&groups, 5, &[3], true),
        (&masked, 7, &[], false),
        (&masked, 5, &[9], false),
        (&masked, 5, &[3], true),
        (&Acl::of_mode(0o702), 1, &[2], true),
        (&Acl::of_mode(0o702), 5, &[2], false),
        (&Acl::of_mode(0o702), 5, &[3], true),
        (&Acl::of_mode(0o775), 5, &[2], true),
        (&Acl::of_mode(0o775), 5, &[3], false),
    ] {
        assert_eq!(acl.may_write((1, 2), uid, of), may, "{acl:?} {uid} {of:?}");
    }
}
