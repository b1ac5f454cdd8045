//! What an array calls durable, as the last thing before a power cut: no later operation makes it so.

use crate::common::{self, CLEAN, World, bytes, pattern, read, without};
use crate::crash::{Cut, PIECE, UNIT, blank, cuts, recover};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_device::raid::{Missing, Raid5State, RebuildRate};
use tonearm_device::{Device, Known, Redundancy};
use tonearm_rt::{Data, IoError, Op};
use tonearm_world::DiskImage;

const MEMBERS: usize = 4;
/// Images of one cut.
const IMAGES: u64 = 24;

/// What is known of the stripe of the change when it is made.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Stripe {
    /// All members are there.
    Whole,
    /// The member with the changed unit is missing.
    WithoutUnit,
    /// Another member is missing.
    WithoutOther,
    /// The member with the parity is missing.
    WithoutParity,
    /// It is rebuilt, and the state that says so is not saved: after a cut it is as before the rebuild.
    Unsaved,
}

/// The change, of a part of a unit or of the whole stripe.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Change {
    Durable {
        whole: bool,
    },
    Flushed {
        whole: bool,
    },
    /// Zeroes, then a flush.
    Zeroed {
        whole: bool,
    },
    Punched {
        whole: bool,
    },
}

const CHANGES: [Change; 8] = [
    Change::Durable { whole: false },
    Change::Durable { whole: true },
    Change::Flushed { whole: false },
    Change::Flushed { whole: true },
    Change::Zeroed { whole: false },
    Change::Zeroed { whole: true },
    Change::Punched { whole: false },
    Change::Punched { whole: true },
];

impl Change {
    fn whole(self) -> bool {
        match self {
            Self::Durable { whole }
            | Self::Flushed { whole }
            | Self::Zeroed { whole }
            | Self::Punched { whole } => whole,
        }
    }

    async fn make(self, device: &Rc<dyn Device>, range: Range<u64>) {
        let (at, len) = (range.start, range.end - range.start);
        let data = bytes(len as usize, 99);
        match self {
            Self::Durable { .. } => return device.write_durable(at, data).await.unwrap(),
            Self::Flushed { .. } => device.write(at, data).await.unwrap(),
            Self::Zeroed { .. } => device.zero(at, len).await.unwrap(),
            Self::Punched { .. } => device.punch(at, len).await.unwrap(),
        }
        device.flush().await.unwrap();
    }

    fn content(self, len: usize) -> Vec<u8> {
        match self {
            Self::Durable { .. } | Self::Flushed { .. } => pattern(len, 99).to_vec(),
            Self::Zeroed { .. } | Self::Punched { .. } => vec![0; len],
        }
    }
}

/// A stripe, then the change of it over an earlier one that is not durable, then a cut. After it, and without any one member where
/// the array may do without one, the change is there, and so is what lies beside it.
#[test]
fn durable_change_survives_an_immediate_power_cut() {
    for stripe in [
        Stripe::Whole,
        Stripe::WithoutUnit,
        Stripe::WithoutOther,
        Stripe::WithoutParity,
        Stripe::Unsaved,
    ] {
        for change in CHANGES {
            durable_change(stripe, change);
        }
    }
}

fn durable_change(stripe: Stripe, change: Change) {
    const ROWS: u64 = 8;
    let rebuilds = stripe == Stripe::Unsaved;
    let mut images = if rebuilds {
        // Long enough that the rebuild does not end, and that nothing of it is saved.
        vec![DiskImage::new(1024 * UNIT); MEMBERS]
    } else {
        vec![DiskImage::new(ROWS * UNIT); MEMBERS]
    };
    images.push(DiskImage::new(8 * (UNIT + 4096)));
    images.push(DiskImage::new(images[0].size));
    let world = World::of(1, images);
    // Stripe 0 has its parity on the last member, and its columns on the others.
    let away = match stripe {
        Stripe::Whole => None,
        Stripe::WithoutUnit | Stripe::Unsaved => Some(0),
        Stripe::WithoutOther => Some(1),
        Stripe::WithoutParity => Some(MEMBERS - 1),
    };
    let state = away.map_or(CLEAN, without);
    world.kept.0.borrow_mut().push(state);
    let given = world.members_without(MEMBERS, away);
    let array = world.open_given(given, UNIT, state, true, false).unwrap();
    let stripes = array.stripes();
    assert_eq!(stripes.parity_member(0), MEMBERS - 1);
    assert_eq!(stripes.column(0, 0), Some(0));
    let row = 0..stripes.row_bytes();
    let range = if change.whole() {
        row.clone()
    } else {
        PIECE..3 * PIECE
    };
    let device: Rc<dyn Device> = Rc::new(array.clone());
    let (spare, rt, kept) = (
        world.devices[MEMBERS + 1].clone(),
        world.rt.clone(),
        world.kept.clone(),
    );
    let (own, written) = (array.clone(), range.clone());
    world.rt.block_on(async move {
        let filled = bytes((ROWS * row.end) as usize, 1);
        device.write(0, filled).await.unwrap();
        device.flush().await.unwrap();
        if rebuilds {
            own.replace(spare).unwrap();
            let rebuilding = own.clone();
            rt.spawn_detached(async move {
                let rate = RebuildRate::new(1 << 20);
                rebuilding.rebuild(&rate, |_, _| {}).await.ok();
            });
            while own.state().missing.unwrap().rebuilt_rows == 0 {
                rt.sleep(Nanos::from_millis(1)).await;
            }
            assert_eq!(kept.last().missing.unwrap().rebuilt_rows, 0);
        }
        // What the cut may take back, in all units of the stripe.
        device.write(0, bytes(row.end as usize, 77)).await.unwrap();
        change.make(&device, written).await;
    });
    let row_bytes = array.stripes().row_bytes();
    let crash = world.world.crash();
    for seed in 0..IMAGES {
        let after = World::of(seed, crash.images(seed));
        let given = after.members_without(MEMBERS, away);
        let state = world.kept.last();
        let array = after.open_given(given, UNIT, state, true, false).unwrap();
        let range = range.clone();
        after.rt.block_on(async move {
            let changed = std::iter::once(0..row_bytes);
            common::recover(&array, changed).await.unwrap();
            let device: Rc<dyn Device> = Rc::new(array.clone());
            let (at, len) = (range.start, (range.end - range.start) as usize);
            let case = format!("{stripe:?}, {change:?}, image {seed}");
            let check = async |when: &str| {
                let found = read(&device, at, len).await;
                assert!(found[..] == change.content(len)[..], "{case}, {when}");
                let beside = read(&device, row_bytes, (ROWS - 1) as usize * row_bytes as usize);
                let all = pattern((ROWS * row_bytes) as usize, 1);
                assert!(
                    beside.await[..] == all[row_bytes as usize..],
                    "{case}, {when}"
                );
            };
            check("recovered").await;
            if away.is_none() {
                array.fail(seed as usize % MEMBERS).await.unwrap();
                check("without a member").await;
            }
        });
    }
}

/// What ends with right parity on the medium.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Repair {
    /// The recovery after a cut.
    Recover,
    /// The comparison of all stripes.
    Resync,
    /// The repair of stripes whose content is known.
    Known,
    /// The recovery, and the orderly end.
    Close,
}

/// Parity that was corrected is right after a second cut, although nothing says any more where the first one was.
#[test]
fn corrected_parity_survives_a_second_cut() {
    let members = 3;
    let (cuts, _) = cuts(1, members, blank(members), CLEAN, false);
    for repair in [
        Repair::Recover,
        Repair::Resync,
        Repair::Known,
        Repair::Close,
    ] {
        let mut corrected = 0;
        for (at, cut) in cuts.iter().enumerate().step_by(5) {
            let (world, array) = recover(cut, members, at as u64, None, false);
            let open = cut.log.open.keys();
            let changed: Vec<Range<u64>> = open
                .map(|piece| piece * PIECE..(piece + 1) * PIECE)
                .collect();
            let own = array.clone();
            world.rt.block_on(async move {
                match repair {
                    Repair::Recover | Repair::Close => {
                        common::recover(&own, changed).await.unwrap();
                    }
                    Repair::Resync => drop(own.resync(|_, _| {}).await.unwrap()),
                    Repair::Known => {
                        // Nothing is suspect, as in a scrub that finds wrong parity.
                        common::recover(&own, []).await.unwrap();
                        for stripe in own.compare(0..own.size_bytes()).await.unwrap() {
                            let right = Known {
                                range: stripe.clone(),
                                is_right: Box::new(|_| true),
                            };
                            own.repair(vec![right], stripe).await.unwrap();
                        }
                    }
                }
                if repair == Repair::Close {
                    own.close().await.unwrap();
                }
            });
            corrected += array.stats().parity_fixed;
            let state = if world.kept.0.borrow().is_empty() {
                cut.state
            } else {
                world.kept.last()
            };
            let crash = world.world.crash();
            for seed in 0..4 {
                let again = Cut {
                    crash: crash.clone(),
                    log: cut.log.clone(),
                    state,
                };
                let (after, array) = recover(&again, members, seed, None, false);
                let wrong = after.rt.block_on(async move {
                    common::recover(&array, []).await.unwrap();
                    array.check_parity(|_, _| {}).await.unwrap()
                });
                assert_eq!(wrong, 0, "{repair:?}, cut {at}, image {seed}");
            }
        }
        assert!(corrected > 5, "{repair:?} corrects {corrected} stripes");
    }
}

/// A rebuild that has ended, and what it saved on its way, survive a cut: the replacement then counts as a member, up to the saved
/// watermark.
#[test]
fn rebuilt_stripes_that_the_state_names_survive_a_cut() {
    const MEMBER: u64 = 80 << 20;
    const WIDE: u64 = 256 << 10;
    let (members, missing) = (3, 1);
    let mut images = vec![DiskImage::new(MEMBER); members];
    images.extend([DiskImage::new(8 * (WIDE + 4096)), DiskImage::new(MEMBER)]);
    let world = World::of(3, images);
    let state = without(missing);
    world.kept.0.borrow_mut().push(state);
    let given = world.members_without(members, Some(missing));
    let array = world.open_given(given, WIDE, state, true, false).unwrap();
    let device: Rc<dyn Device> = Rc::new(array.clone());
    let (own, spare) = (array.clone(), world.devices[members + 1].clone());
    let size = array.size_bytes();
    let places = move || (0..size / WIDE).map(|place| place * WIDE);
    let (kept, drives) = (world.kept.clone(), world.world.clone());
    let crashes = world.rt.block_on(async move {
        for place in places() {
            device.write(place, bytes(512, place)).await.unwrap();
        }
        device.flush().await.unwrap();
        own.replace(spare).unwrap();
        let mut crashes = Vec::new();
        let mut known = kept.last();
        let rate = RebuildRate::default();
        let rebuilt = own.rebuild(&rate, |_, _| {
            if kept.last() != known {
                known = kept.last();
                crashes.push((drives.crash(), known));
            }
        });
        rebuilt.await.unwrap();
        crashes.push((drives.crash(), kept.last()));
        crashes
    });
    assert!(crashes.len() > 1, "{} saves", crashes.len());
    assert_eq!(crashes.last().map(|(_, state)| state.missing), Some(None));
    for (crash, state) in crashes {
        for seed in 0..4 {
            let after = World::of(seed, crash.images(seed));
            let mut given = after.members(members);
            given[missing] = match state.missing {
                Some(Missing {
                    rebuilt_rows: 0, ..
                }) => None,
                _ => Some(after.devices[members + 1].clone()),
            };
            // What is rebuilt is read from the replacement. The parity may compute the same, so another member is away where that
            // is possible.
            let done = state.missing.is_none();
            if done {
                given[0] = None;
            }
            let opened = Raid5State {
                clean: state.clean || done,
                ..state
            };
            let array = after.open_given(given, WIDE, opened, true, false).unwrap();
            let device: Rc<dyn Device> = Rc::new(array);
            after.rt.block_on(async move {
                for place in places() {
                    let found = read(&device, place, 512).await;
                    assert!(
                        found[..] == pattern(512, place)[..],
                        "{state:?}, place {place}"
                    );
                }
                let end = device.size_bytes() - 512;
                let buf = BufPool::new(0).copy_of(&[5; 512]);
                device.write(end, Data::whole(buf)).await.unwrap();
            });
        }
    }
}

/// Requests for one stripe share an update. A durable one among them is durable when it ends, whichever of them came first.
#[test]
fn a_durable_write_that_shares_its_update_survives_a_cut() {
    for durable_at in 0..3 {
        let world = World::new(5, MEMBERS, 8 * UNIT);
        let array = world.open(MEMBERS, UNIT, CLEAN, false).unwrap();
        let device: Rc<dyn Device> = Rc::new(array.clone());
        let rt = world.rt.clone();
        let drives = world.world.clone();
        let crash = world.rt.block_on(async move {
            let all = bytes(device.size_bytes() as usize, 1);
            device.write(0, all).await.unwrap();
            device.flush().await.unwrap();
            let mut durable = None;
            for at in 0..3 {
                let (own, data) = (device.clone(), bytes(PIECE as usize, 99));
                let place = at * UNIT;
                let write = rt.spawn(async move {
                    if at == durable_at {
                        own.write_durable(place, data).await.unwrap()
                    } else {
                        own.write(place, data).await.unwrap()
                    }
                });
                if at == durable_at {
                    durable = Some(write);
                }
            }
            durable.unwrap().await;
            drives.crash()
        });
        assert_eq!(array.stats().coalesced, 2);
        for seed in 0..IMAGES {
            let after = World::of(seed, crash.images(seed));
            let array = after.open(MEMBERS, UNIT, world.kept.last(), false).unwrap();
            let device: Rc<dyn Device> = Rc::new(array);
            after.rt.block_on(async move {
                let found = read(&device, durable_at * UNIT, PIECE as usize).await;
                let right = found[..] == pattern(PIECE as usize, 99)[..];
                assert!(right, "request {durable_at}, image {seed}");
            });
        }
    }
}

/// A write over several stripes, and of several parts of one, of which a member refuses one request: any one.
#[test]
fn a_write_of_which_any_part_is_refused_is_an_error() {
    for away in [None, Some(0), Some(1)] {
        for (offset, len) in [
            (PIECE, 4 * UNIT * (MEMBERS as u64 - 1)),
            (UNIT - PIECE, 2 * PIECE),
            (0, 2 * UNIT * (MEMBERS as u64 - 1)),
        ] {
            for nth in 1.. {
                let mut images = vec![DiskImage::new(8 * UNIT); MEMBERS];
                images.push(DiskImage::new(8 * (UNIT + 4096)));
                let world = World::of(1, images);
                let state = away.map_or(CLEAN, without);
                world.kept.0.borrow_mut().push(state);
                let given = world.members_without(MEMBERS, away);
                let array = world.open_given(given, UNIT, state, true, false).unwrap();
                let device: Rc<dyn Device> = Rc::new(array);
                let drives = world.world.clone();
                let (written, hit) = world.rt.block_on(async move {
                    // The state says that the array is in use, and the records are there.
                    device.write(7 * UNIT, bytes(512, 1)).await.unwrap();
                    let (mut writes, hit) = (0, Rc::new(Cell::new(false)));
                    let noted = hit.clone();
                    drives.set_fault(move |request| {
                        let is_write = request.op == Op::Write && request.device.0 < MEMBERS as u32;
                        writes += u64::from(is_write);
                        noted.set(noted.get() || is_write && writes == nth);
                        (is_write && writes == nth).then_some(IoError::ENOSPC)
                    });
                    let written = device.write(offset, bytes(len as usize, 2)).await;
                    (written, hit.get())
                });
                if !hit {
                    assert!(nth > 2, "{nth} requests");
                    assert_eq!(written, Ok(()));
                    break;
                }
                let case = format!("{away:?} is missing, {len} bytes, request {nth}");
                assert_eq!(written, Err(IoError::ENOSPC), "{case}");
            }
        }
    }
}
