//! The table of units: one operation at a time uses a unit, and a unit is removed when its operation panics.

use super::{NotAvailable, UnitId, Units};
use std::rc::Rc;

fn id(session: u64, number: u64) -> UnitId {
    UnitId { session, number }
}

fn why(units: &Units<Rc<u32>>, id: UnitId) -> Option<NotAvailable> {
    units.take(id).map(|taken| taken.put_back()).err()
}

#[test]
fn one_operation_at_a_time_has_a_unit() {
    let units = Units::default();
    let first = units.open(Rc::new(1));
    assert_ne!(first, units.open(Rc::new(2)));
    let mut taken = units.take(first).ok().unwrap();
    assert_eq!(**taken.aru(), 1);
    assert_eq!(why(&units, first), Some(NotAvailable::InUse));
    assert!(units.contains(first));
    taken.put_back();
    assert_eq!(why(&units, first), None);
    let kept = units.take(first).ok().unwrap().keep();
    assert_eq!((*kept, units.contains(first)), (1, false));
}

#[test]
fn an_operation_that_does_not_come_to_its_end_aborts_its_unit() {
    let units = Units::default();
    let unit = Rc::new(1);
    let first = units.open(unit.clone());
    drop(units.take(first).ok().unwrap());
    assert_eq!(why(&units, first), Some(NotAvailable::NotOpen));
    assert_eq!(Rc::strong_count(&unit), 1, "it is aborted");
}

#[test]
fn a_unit_that_is_removed_while_it_is_used_does_not_come_back() {
    let units = Units::default();
    let unit = Rc::new(1);
    for removes in [
        |units: &Units<Rc<u32>>, id: UnitId| units.abort(id),
        |units: &Units<Rc<u32>>, id: UnitId| units.end_session(id.session),
        |units: &Units<Rc<u32>>, _| units.close(),
    ] {
        let first = id(3, 7);
        units.insert(first, unit.clone());
        let taken = units.take(first).ok().unwrap();
        removes(&units, first);
        assert_eq!(Rc::strong_count(&unit), 2, "the operation goes on");
        taken.put_back();
        assert_eq!(Rc::strong_count(&unit), 1);
        assert_eq!(why(&units, first), Some(NotAvailable::NotOpen));
    }
    units.insert(id(3, 8), unit.clone());
    assert!(units.is_closed() && !units.contains(id(3, 8)));
}

#[test]
fn the_end_of_a_session_takes_its_units_alone() {
    let units = Units::default();
    for (session, number) in [(1, 0), (1, u64::MAX), (2, 0), (0, 5)] {
        units.insert(id(session, number), Rc::new(0));
    }
    assert_eq!(units.count(1), 2);
    units.end_session(1);
    assert_eq!((units.count(1), units.count(2), units.count(0)), (0, 1, 1));
}
