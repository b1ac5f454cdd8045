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
