use super::*;

fn portion(commits: (u64, u64), inexact: Option<(u64, u64)>, spares_table: bool) -> CommitBatch {
    CommitBatch {
        first: Lsn(commits.0),
        last: Lsn(commits.1),
        inexact: inexact.map(|(from, until)| (Lsn(from), Lsn(until))),
        unix_ms: 1000 * commits.1,
        digest: commits.1 as u32,
        spares_table,
        entries: Vec::new(),
    }
}

/// An object has the commits of many portions. No state is given of which a moved block has a later content, whichever portion
/// brought it.
#[test]
fn object_lists_inexact_states_of_all_its_batches() {
    let cases = [
        ([None, None, None], None),
        ([Some((2, 12)), None, None], Some((2, 12))),
        ([None, Some((15, 22)), None], Some((15, 22))),
        ([None, None, Some((25, 40))], Some((25, 40))),
        ([Some((2, 12)), Some((15, 22)), None], Some((2, 22))),
        ([Some((2, 12)), None, Some((25, 40))], Some((2, 40))),
        (
            [Some((2, 12)), Some((15, 22)), Some((25, 40))],
            Some((2, 40)),
        ),
    ];
    for (inexact, expected) in cases {
        let mut object = portion((1, 10), inexact[0], true);
        object.join(&portion((11, 20), inexact[1], true));
        object.join(&portion((21, 30), inexact[2], true));
        let expected = expected.map(|(from, until)| (Lsn(from), Lsn(until)));
        assert_eq!(object.inexact, expected, "{inexact:?}");
        assert_eq!((object.first, object.last), (Lsn(1), Lsn(30)));
        assert_eq!((object.unix_ms, object.digest), (30_000, 30));
    }
}

/// A restore of the newest state reads the volume table only from objects that change it.
#[test]
fn an_object_spares_the_table_only_if_each_portion_does() {
    for changes in 0..4 {
        let spares = |portion: u32| changes != portion;
        let mut object = portion((1, 10), None, spares(0));
        object.join(&portion((11, 20), None, spares(1)));
        object.join(&portion((21, 30), None, spares(2)));
        assert_eq!(object.spares_table, changes == 3);
    }
}
