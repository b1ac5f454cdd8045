use crate::retained::RetainedCommits;
use tonearm_base::Lsn;

#[test]
fn a_commit_stays_until_it_is_durable_and_has_no_hold() {
    let mut retained = RetainedCommits::new(Lsn(1));
    (1..=3).for_each(|lsn| retained.add_commit(Lsn(lsn)));
    retained.hold(Lsn(2));
    // The first commit has no hold, but it is not durable.
    assert_eq!(retained.advance(Lsn(0)), Lsn(1));
    assert_eq!(retained.advance(Lsn(3)), Lsn(2));
    retained.release(Lsn(2));
    assert_eq!(retained.advance(Lsn(2)), Lsn(3));
    assert_eq!((retained.advance(Lsn(3)), retained.len()), (Lsn(4), 0));
}
