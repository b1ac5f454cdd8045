//! Arrays pass the conformance suite of devices, with all members and without one.

use crate::common::{CLEAN, UNIT, World, without};
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::Device;
use tonearm_device::raid::{Raid0, Raid5State, RaidError};
use tonearm_world::conformance;

#[test]
fn raid0_conforms() {
    for (members, unit) in [(1, 4096), (2, 512), (3, UNIT), (5, 1 << 20)] {
        let world = World::new(members as u64, members, 6 << 20);
        let devices = world.devices.clone();
        let array = Raid0::new(&BufPool::new(1 << 20), "array", devices, unit).unwrap();
        let array: Rc<dyn Device> = Rc::new(array);
        world.rt.block_on(conformance::all(array));
    }
}

#[test]
fn raid5_conforms_healthy_suspect_and_degraded() {
    for (members, unit) in [(3, 4096), (4, UNIT), (5, 512), (6, 1 << 20)] {
        let states = [CLEAN, Raid5State::default()];
        for state in states.into_iter().chain((0..members).map(without)) {
            for records in [false, true] {
                let world = World::new(members as u64, members + 1, 4 << 20);
                let array = world.open(members, unit, state, records).unwrap();
                world.rt.block_on(conformance::all(Rc::new(array.clone())));
                assert_eq!(array.failure(), None);
                let missing = state.missing.map(|missing| missing.member);
                assert_eq!(array.state().missing.map(|m| m.member), missing);
                if missing.is_none() {
                    let checked = array.clone();
                    let wrong = world
                        .rt
                        .block_on(async move { checked.check_parity(|_, _| {}).await });
                    assert_eq!(wrong, Ok(0), "{members} members, {unit} bytes");
                }
            }
        }
    }
}

#[test]
fn raid5_conforms_with_a_record_for_every_write() {
    let world = World::new(1, 5, 4 << 20);
    let given = world.members(4);
    let array = world.open_given(given, UNIT, CLEAN, true, true).unwrap();
    world.rt.block_on(conformance::all(Rc::new(array.clone())));
    assert!(array.stats().records > 0);
}

#[test]
fn arrays_stack() {
    let world = World::new(3, 6, 4 << 20);
    let halves = [0, 3].map(|first| {
        let given = world.devices[first..first + 3]
            .iter()
            .cloned()
            .map(Some)
            .collect();
        Rc::new(world.open_given(given, UNIT, CLEAN, false, false).unwrap()) as Rc<dyn Device>
    });
    let array = Raid0::new(&BufPool::new(0), "raid50", halves.to_vec(), 4 * UNIT).unwrap();
    world.rt.block_on(conformance::all(Rc::new(array)));
}

#[test]
fn members_that_form_no_array_are_refused_with_the_reason() {
    let world = World::new(1, 4, 4 << 20);
    let refused = |members: usize, unit: u64| match world.open(members, unit, CLEAN, false) {
        Err(RaidError::Shape(why)) => why,
        other => panic!("{:?}", other.map(|_| ())),
    };
    assert!(refused(2, UNIT).contains("3 to 32"));
    assert!(refused(3, 1000).contains("blocks of 512 bytes"));
    assert!(refused(3, 0).contains("stripe unit of 0 bytes"));
    assert!(refused(3, 8 << 20).contains("smallest member has 4194304 bytes"));
    let two = vec![Some(world.devices[0].clone()), None, None];
    let lost = world
        .open_given(two, UNIT, CLEAN, false, false)
        .map(|_| ())
        .unwrap_err();
    assert!(
        lost.to_string()
            .starts_with("the array has lost member 2 of array"),
        "{lost}"
    );
}
