use super::*;

#[test]
fn last_exact_state_precedes_inexact_intervals() {
    let mut exact = Exact::default();
    assert_eq!(exact.last(Lsn(7)), Lsn(7));
    exact.note(Lsn(10), Lsn(25));
    assert_eq!(exact.last(Lsn(9)), Lsn(9));
    assert_eq!(exact.last(Lsn(20)), Lsn(9));
    assert_eq!(exact.pending(Lsn(20)), Some(Lsn(25)));
    exact.note(Lsn(27), Lsn(40));
    assert_eq!(exact.last(Lsn(30)), Lsn(26));
    exact.note(Lsn(26), Lsn(40));
    assert_eq!(exact.last(Lsn(30)), Lsn(25));
    exact.note(Lsn(25), Lsn(40));
    // The intervals touch, so the last state is before the first of them.
    assert_eq!(exact.last(Lsn(30)), Lsn(9));
    assert_eq!(exact.last(Lsn(40)), Lsn(40));
    assert_eq!(exact.pending(Lsn(40)), None);
    assert!(exact.has(Lsn(9)) && !exact.has(Lsn(10)) && !exact.has(Lsn(39)) && exact.has(Lsn(40)));
}

#[test]
fn interval_from_zero_leaves_only_state_zero() {
    let mut exact = Exact::default();
    exact.note(Lsn(0), Lsn(5));
    assert_eq!(exact.last(Lsn(3)), Lsn(0));
    assert_eq!(exact.last(Lsn(5)), Lsn(5));
}
