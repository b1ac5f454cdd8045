//! Each call that promises durability, as the last one before a power cut: no later operation makes it durable. A cut in the middle
//! of the call leaves all of it, or nothing.

#![allow(clippy::unwrap_used)]

use crate::common::{BLOCK, Open, bytes, in_world, segments, store, with};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tonearm_base::{BufPool, Slice};
use tonearm_disk::{Ack, Disk, ErrorKind, OpenOptions, Volume};
use tonearm_world::{Crash, DiskImage};

const B: u64 = BLOCK as u64;
/// Blocks of the volume `main`, all of sevens.
const BLOCKS: u64 = 16;
/// Images of one cut.
const IMAGES: u64 = 6;

/// A change of `main`: which bytes get which content.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Change {
    Write,
    Trim,
    Zeroes { keep_space: bool },
}

const CHANGES: [Change; 4] = [
    Change::Write,
    Change::Trim,
    Change::Zeroes { keep_space: false },
    Change::Zeroes { keep_space: true },
];

/// Whole blocks, parts of blocks with whole ones between, a part of one block, and the end of the volume.
const RANGES: [(u64, u64); 4] = [
    (2 * B, 3 * B),
    (2 * B - 100, 2 * B + 300),
    (5 * B + 8, 100),
    (13 * B, 3 * B),
];

impl Change {
    async fn make(self, main: &Volume, (offset, len): (u64, u64), durable: bool) {
        let done = match self {
            Self::Write => {
                let data: Vec<u8> = (0..len).map(|at| at as u8 | 1).collect();
                main.write(offset, slice(&data), durable).await
            }
            Self::Trim => main.trim(offset, len, durable).await,
            Self::Zeroes { keep_space } => {
                main.write_zeroes(offset, len, keep_space, durable).await
            }
        };
        done.unwrap();
    }

    fn model(self, (offset, len): (u64, u64)) -> Vec<u8> {
        let mut model = vec![7; (BLOCKS * B) as usize];
        let (from, to) = (offset as usize, (offset + len) as usize);
        match self {
            Self::Write => {
                let data = (0..len).map(|at| at as u8 | 1);
                model.splice(from..to, data);
            }
            Self::Trim => {
                let (first, end) = (from.next_multiple_of(BLOCK), to / BLOCK * BLOCK);
                model[first.min(end)..end].fill(0);
            }
            Self::Zeroes { .. } => model[from..to].fill(0),
        }
        model
    }
}

fn slice(data: &[u8]) -> Slice {
    let mut data = BufPool::new(0).copy_of(data);
    // As if its memory were paid for.
    data.attach(Rc::new(()));
    data.share()
}

/// Both layouts with `main` full of sevens, at home.
fn filled() -> [DiskImage; 2] {
    [store(8 << 20), segments(8 << 20)].map(|image| {
        let fill = async |disk: Disk| {
            disk.resize_volume("main", BLOCKS * B).await.unwrap();
            let main = disk.volume("main").unwrap();
            let sevens = slice(&vec![7; (BLOCKS * B) as usize]);
            main.write(0, sevens, false).await.unwrap();
        };
        with(&image, OpenOptions::default(), fill).1
    })
}

/// The power fails right after `work`.
fn cut_after(
    image: &DiskImage,
    options: OpenOptions,
    work: impl AsyncFnOnce(&Disk) + 'static,
) -> Crash {
    let cut = in_world(image, options, async move |open: Open| {
        work(&open.disk).await;
        open.world.crash()
    });
    cut.0
}

async fn content(volume: &Volume) -> Vec<u8> {
    bytes(volume.read(0, volume.size_bytes()).await.unwrap())
}

/// All images of `crash` are as `look` wants them.
fn looks(crash: &Crash, look: impl AsyncFn(Disk, u64) + Clone + 'static) {
    for seed in 0..IMAGES {
        let look = look.clone();
        let image = crash.images(seed).remove(0);
        with(&image, OpenOptions::default(), async move |disk| {
            look(disk, seed).await;
        });
    }
}

#[test]
fn durable_volume_change_survives_an_immediate_cut() {
    for image in filled() {
        for change in CHANGES {
            for range in RANGES {
                if change == Change::Trim && range.1 < B {
                    // It has no block to give back, and so nothing to make durable.
                    continue;
                }
                for ack in [Ack::Flush, Ack::Write] {
                    let options = OpenOptions {
                        ack,
                        ..OpenOptions::default()
                    };
                    // In the mode of Trail's contract every change is durable.
                    let durable = ack == Ack::Flush;
                    let crash = cut_after(&image, options, async move |disk| {
                        let main = disk.volume("main").unwrap();
                        // An earlier change, which is not asked to be durable, is so as well.
                        Change::Write.make(&main, (9 * B, 7), false).await;
                        change.make(&main, range, durable).await;
                    });
                    looks(&crash, async move |disk, seed| {
                        let mut expected = change.model(range);
                        expected[9 * BLOCK..9 * BLOCK + 7].copy_from_slice(&[1, 1, 3, 3, 5, 5, 7]);
                        let found = content(&disk.volume("main").unwrap()).await;
                        assert!(
                            found == expected,
                            "{change:?} of {range:?}, {ack:?}, {seed}"
                        );
                    });
                }
            }
        }
    }
}

/// A change for a writer that outlives the process: it is on the drive, in its cache at least, when the call ends.
#[test]
fn kernel_client_change_survives_process_exit() {
    for image in filled() {
        for change in CHANGES {
            for range in RANGES {
                let options = OpenOptions {
                    // A commit that no caller waits for would stay in memory.
                    commit_delay: tonearm_base::Nanos::from_secs(60),
                    ..OpenOptions::default()
                };
                let (left, _) = in_world(&image, options, async move |open: Open| {
                    let main = open.disk.volume("main").unwrap().for_kernel_client();
                    change.make(&main, range, false).await;
                    open.world.images().remove(0)
                });
                with(&left, OpenOptions::default(), async move |disk| {
                    let found = content(&disk.volume("main").unwrap()).await;
                    assert!(found == change.model(range), "{change:?} of {range:?}");
                });
            }
        }
    }
}

/// Changes of the volume table, a unit over two volumes in memory and one that is spilled, a flush and a checkpoint.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Call {
    Create,
    Grow,
    Shrink,
    Delete,
    ReadOnly,
    Unit,
    LargeUnit,
    Flush,
    Checkpoint,
    Close,
}

const CALLS: [Call; 10] = [
    Call::Create,
    Call::Grow,
    Call::Shrink,
    Call::Delete,
    Call::ReadOnly,
    Call::Unit,
    Call::LargeUnit,
    Call::Flush,
    Call::Checkpoint,
    Call::Close,
];

impl Call {
    fn options(self) -> OpenOptions {
        let memory_bytes = match self {
            // Its shadows do not fit.
            Self::LargeUnit => 64 << 10,
            _ => OpenOptions::default().memory_bytes,
        };
        OpenOptions {
            memory_bytes,
            ..OpenOptions::default()
        }
    }

    async fn make(self, disk: &Disk) {
        let main = disk.volume("main").unwrap();
        match self {
            Self::Create => disk.create_volume("other", B, [3; 16], 1).await.unwrap(),
            Self::Grow => disk.resize_volume("main", 20 * B).await.unwrap(),
            Self::Shrink => disk.resize_volume("main", 3 * B + 5).await.unwrap(),
            Self::Delete => disk.delete_volume("main").await.unwrap(),
            Self::ReadOnly => disk.set_read_only("main", true).await.unwrap(),
            Self::Unit | Self::LargeUnit => {
                let mut unit = disk.begin();
                let file = unit.create_volume("f", 8 * B, [1; 16], 1);
                let file = file.await.unwrap();
                // In turns, and parts of blocks.
                for block in 0..8 {
                    unit.write(&main, block * B + 8, &[1; 100]).await.unwrap();
                    unit.write(&file, block * B, &[2; BLOCK]).await.unwrap();
                }
                assert_eq!(unit.spilled_blocks() > 0, self == Self::LargeUnit);
                let lsn = unit.end().await.unwrap();
                disk.wait_durable(lsn).await.unwrap();
            }
            Self::Flush | Self::Checkpoint | Self::Close => {
                Change::Write.make(&main, RANGES[1], false).await;
                Change::Trim.make(&main, (10 * B, B), false).await;
                match self {
                    Self::Flush => disk.flush().await.unwrap(),
                    Self::Checkpoint => drop(disk.checkpoint().await.unwrap()),
                    _ => disk.close().await.unwrap(),
                }
            }
        }
    }

    async fn look(self, disk: &Disk, case: &str) {
        if self == Self::Delete {
            let error = disk.volume("main").err().unwrap();
            assert_eq!(error.kind(), ErrorKind::NotFound, "{case}");
            return;
        }
        let main = disk.volume("main").unwrap();
        let found = content(&main).await;
        let mut expected = vec![7; (BLOCKS * B) as usize];
        match self {
            Self::Create => assert_eq!(disk.volume("other").unwrap().size_bytes(), B, "{case}"),
            Self::Grow => expected.resize(20 * BLOCK, 0),
            Self::Shrink => expected.truncate(3 * BLOCK + 5),
            Self::Delete => {}
            Self::ReadOnly => assert!(main.read_only(), "{case}"),
            Self::Unit | Self::LargeUnit => {
                for block in expected.chunks_mut(BLOCK).take(8) {
                    block[8..108].fill(1);
                }
                let file = content(&disk.volume("f").unwrap()).await;
                assert!(file == vec![2; 8 * BLOCK], "{case}: the other volume");
            }
            Self::Flush | Self::Checkpoint | Self::Close => {
                expected = Change::Write.model(RANGES[1]);
                expected[10 * BLOCK..11 * BLOCK].fill(0);
            }
        }
        assert!(found == expected, "{case}");
    }
}

#[test]
fn durable_calls_survive_an_immediate_power_cut() {
    for image in filled() {
        for call in CALLS {
            let crash = cut_after(&image, call.options(), async move |disk| {
                call.make(disk).await
            });
            looks(&crash, async move |disk, seed| {
                call.look(&disk, &format!("{call:?}, image {seed}")).await;
            });
        }
    }
}

/// Each volume and file: its bytes, and whether it is read-only.
type State = BTreeMap<String, (Vec<u8>, bool)>;

async fn state(disk: &Disk) -> State {
    let mut state = State::new();
    for entry in disk.volumes() {
        let volume = disk.volume(&entry.name).unwrap();
        let found = (content(&volume).await, volume.read_only());
        state.insert(entry.name, found);
    }
    state
}

/// The store of `image` after `work` and an orderly end.
fn state_after(
    image: &DiskImage,
    options: OpenOptions,
    work: impl AsyncFnOnce(&Disk) + 'static,
) -> State {
    let (_, image) = in_world(image, options, async move |open: Open| {
        work(&open.disk).await;
        open.disk.close().await.unwrap();
    });
    with(&image, OpenOptions::default(), async |disk| {
        state(&disk).await
    })
    .0
}

/// How many blocks of each volume are other ones than in each of `states`, where it has another length, or is missing.
fn differences(found: &State, states: &[State]) -> String {
    let other = |name: &String, bytes: &[u8], state: &State| {
        let known = state
            .get(name)
            .filter(|(other, _)| other.len() == bytes.len());
        known.map(|(other, _)| {
            let blocks = other.chunks(BLOCK).zip(bytes.chunks(BLOCK));
            blocks.filter(|(one, other)| one != other).count()
        })
    };
    let volumes = found.iter().map(|(name, (bytes, _))| {
        let blocks: Vec<_> = states
            .iter()
            .map(|state| other(name, bytes, state))
            .collect();
        format!("{name} of {} bytes: {blocks:?}", bytes.len())
    });
    volumes.collect::<Vec<_>>().join(", ")
}

/// Cuts the power at each step of the drive while `work` runs: each of several images is in one of `states`. How many were in each.
fn cut_everywhere(
    image: &DiskImage,
    options: OpenOptions,
    states: &[State],
    case: &str,
    work: impl AsyncFnOnce(&Disk) + 'static,
) -> Vec<usize> {
    let (crashes, _) = in_world(image, options, async move |open: Open| {
        let crashes: Rc<RefCell<Vec<Crash>>> = Rc::default();
        let seen = crashes.clone();
        open.world
            .on_io(move |_, crash| seen.borrow_mut().push(crash.clone()));
        work(&open.disk).await;
        open.world.clear_hook();
        crashes.take()
    });
    let mut met = vec![0; states.len()];
    for (step, crash) in crashes.iter().enumerate() {
        for seed in 0..IMAGES {
            let left = crash.images((step as u64) << 8 | seed).remove(0);
            let (found, _) = with(&left, OpenOptions::default(), async |disk| {
                state(&disk).await
            });
            let known = states.iter().position(|state| *state == found);
            let step = format!("{case}, step {step} of {}, image {seed}", crashes.len());
            let known = known.unwrap_or_else(|| panic!("{step}: {}", differences(&found, states)));
            met[known] += 1;
        }
    }
    met
}

/// A write, trim or zeroing of a volume is one commit, however many records and tracks of the log it takes.
#[test]
fn a_cut_during_a_change_leaves_all_of_it_or_nothing() {
    let mut met = [0; 2];
    for image in filled() {
        for change in CHANGES {
            // The last one fits onto no track of the log.
            for range in RANGES.into_iter().chain([(0, BLOCKS * B)]) {
                let options = OpenOptions::default;
                let work = async move |disk: &Disk| {
                    let main = disk.volume("main").unwrap();
                    change.make(&main, range, true).await;
                    disk.checkpoint().await.unwrap();
                };
                let old = state_after(&image, options(), async |_| {});
                let mut new = old.clone();
                new.insert("main".to_owned(), (change.model(range), false));
                let case = format!("{change:?} of {range:?}");
                let states = [old, new];
                let all = cut_everywhere(&image, options(), &states, &case, work);
                (0..2).for_each(|index| met[index] += all[index]);
            }
        }
    }
    assert!(met.iter().all(|met| *met > 100), "{met:?}");
}

#[test]
fn a_cut_during_a_call_leaves_all_of_it_or_nothing() {
    for image in filled() {
        for call in CALLS {
            let options = || call.options();
            let mut states = vec![state_after(&image, options(), async |_| {})];
            if matches!(call, Call::Flush | Call::Checkpoint | Call::Close) {
                // Of the two changes before it, the first one may be there alone.
                let first = async |disk: &Disk| {
                    let main = disk.volume("main").unwrap();
                    Change::Write.make(&main, RANGES[1], false).await;
                };
                states.push(state_after(&image, options(), first));
            }
            let same = match call {
                // It leaves what a flush leaves, and the store open for an end of its own.
                Call::Close => Call::Flush,
                call => call,
            };
            let whole = async move |disk: &Disk| same.make(disk).await;
            states.push(state_after(&image, options(), whole));
            let case = format!("{call:?}");
            let whole = async move |disk: &Disk| call.make(disk).await;
            let met = cut_everywhere(&image, options(), &states, &case, whole);
            assert!(met[0] > 0 && met[met.len() - 1] > 0, "{call:?}: {met:?}");
        }
    }
}
