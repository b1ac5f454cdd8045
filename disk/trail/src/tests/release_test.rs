use crate::Releases;
use tonearm_base::Lsn;

#[test]
fn a_commit_stays_until_it_is_durable_and_nobody_holds_it() {
    let mut releases = Releases::new(Lsn(1));
    (1..=3).for_each(|lsn| releases.add_commit(Lsn(lsn)));
    releases.hold(Lsn(2));
    // Nobody holds the first, but it is not durable.
    assert_eq!(releases.advance(Lsn(0)), Lsn(1));
    assert_eq!(releases.advance(Lsn(3)), Lsn(2));
    releases.release(Lsn(2));
    assert_eq!(releases.advance(Lsn(2)), Lsn(3));
    assert_eq!((releases.advance(Lsn(3)), releases.len()), (Lsn(4), 0));
}
