use super::{Stall, Stalled, unseen};
use tonearm_base::Nanos;
use tonearm_disk::{EventClass, Events, StoreEvent};
use tonearm_rt::Rt;
use tonearm_store::MemberLoad;
use tonearm_world::{SimOptions, SimWorld};

fn events() -> Events {
    let world = SimWorld::new(SimOptions::default(), Vec::new());
    Events::new(&Rt::new(world.driver()))
}

fn damaged(block: u64) -> StoreEvent {
    StoreEvent::ReadFailed {
        why: format!("block {block} is damaged"),
    }
}

#[test]
fn state_changes_have_a_line_each_and_damage_is_merged() {
    let events = events();
    events.note(StoreEvent::ArrayLost { why: "a".into() });
    events.note(StoreEvent::ReadOnly { why: "b".into() });
    for block in 0..1000 {
        events.note(damaged(block));
    }
    let state = unseen(&events, EventClass::State, 0);
    assert_eq!(state.len(), 2, "{state:?}");
    assert!(state[1].contains("READ-ONLY"), "{state:?}");
    let damage = unseen(&events, EventClass::Damage, 0);
    assert_eq!(damage.len(), 1);
    assert!(damage[0].contains("block 999 is damaged"), "{damage:?}");
    assert!(damage[0].contains("999 more"), "{damage:?}");
    let last = unseen(&events, EventClass::Damage, 999);
    assert!(!last[0].contains("more since"), "{last:?}");
    assert_eq!(unseen(&events, EventClass::Damage, 1000), [""; 0]);
    assert_eq!(unseen(&events, EventClass::Space, 0), [""; 0]);
}

#[test]
fn a_stall_has_a_line_at_its_beginning_and_one_at_its_end() {
    let mut stall = Stall::default();
    let mut line = |now: u64, oldest: Option<u64>, stuck: u64| {
        let member = MemberLoad {
            path: "/dev/sdb".into(),
            requests: 10,
            time: Nanos(10),
            under_way: 4,
            stalled: Nanos::from_secs(stuck),
        };
        let stalled = || Stalled {
            requests: 3,
            waits_for_space: false,
            members: vec![member],
        };
        let oldest = oldest.map(Nanos::from_secs);
        stall.line(Nanos::from_secs(now), oldest, stalled)
    };
    assert_eq!(line(10, None, 0), None);
    assert_eq!(line(11, Some(4), 4), None);
    let begins = line(12, Some(5), 5).expect("a line");
    assert!(
        begins.contains("3 requests") && begins.contains("/dev/sdb has ended none of 4"),
        "{begins}"
    );
    assert_eq!(line(13, Some(6), 6), None);
    let over = line(19, Some(1), 0).expect("a line");
    assert!(over.contains("12"), "it began at 7: {over}");
    assert_eq!(line(20, None, 0), None);
    let again = line(40, Some(7), 0).expect("a line");
    assert!(again.contains("no drive stands still"), "{again}");
}
