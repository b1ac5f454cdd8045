//! A file system in use. The power is cut at each I/O. Then the tree is sound, nothing has to be repaired, its files are those
//! after one of the operations, and everything that was synced is there.

mod fixture;
mod model;
mod step;
mod unit;

pub use fixture::{DIRECTORY, FILE, craft, inode_key, orphan_key, read, store, with_fs, with_mode};
pub use model::{File, Node, Tree, dump};
pub use step::{Step, acl, sized};

use crate::archives::Model;
use crate::campaign::{Failure, Outcome};
use crate::counts::Met;
use crate::generate::Size;
use crate::generations::{self, Opening};
use crate::runtime::open_options;
pub use crate::runtime::time;
use crate::store::{Layout, Shape, StoreImage};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tonearm_base::{Lsn, Nanos};
use tonearm_disk::{Disk, Marks, OpenOptions};
use tonearm_fs::Fs;
use tonearm_rt::Rt;

/// Bytes for the files, besides a small volume.
pub const SPACE: u64 = 3 << 20;

/// One operation in so many is a unit of several.
const UNITS: u32 = 8;

/// The listing of a file system.
type Listing = Rc<String>;

/// What a check after a cut needs, and the next generation.
#[derive(Default)]
struct State {
    tree: Tree,
    states: Model<Listing>,
    /// The states that the operation under way may leave, the last one when it is complete.
    under_way: Vec<Listing>,
    /// The tree when that operation is complete.
    next: Option<Tree>,
}

impl State {
    /// An operation has made the commits after `before`, and left one of the states `ways`, the last one after its last
    /// commit. If `is_sync`, it has waited for that.
    fn done(&mut self, tree: Tree, ways: Vec<Listing>, before: Lsn, marks: Marks, is_sync: bool) {
        let after = marks.appended;
        let mut known = self.states.0.borrow_mut();
        known.extend((before.0 + 1..=after.0).map(|lsn| (lsn, ways.clone())));
        if let Some(last) = ways.last().filter(|_| after > before && is_sync) {
            known.insert(after.0, vec![last.clone()]);
        }
        drop(known);
        self.under_way = ways.into_iter().next_back().into_iter().collect();
        (self.tree, self.next) = (tree, None);
        self.states.1.set(marks.durable);
    }
}

impl Clone for State {
    fn clone(&self) -> Self {
        Self {
            tree: self.tree.clone(),
            states: self.states.copy(),
            under_way: self.under_way.clone(),
            next: self.next.clone(),
        }
    }
}

/// Runs one seed.
///
/// # Errors
/// The first promise that does not hold.
pub fn run(seed: u64, size: Size) -> Result<Outcome, Failure> {
    let rng = ChaCha8Rng::seed_from_u64(seed ^ 0x7ee5);
    let shape = Shape {
        home: size.home(seed, 4096),
        ..Shape::small(Layout::Overwrite, 32, 1)
    };
    let image = shape.create_with_spare(SPACE);
    let mut outcome = generations::run(seed, size, rng, image, live, check)?;
    let operations = u64::from(size.generations) * size.operations;
    outcome.met.met(Met::TreeOperation, operations);
    Ok(outcome)
}

/// Opens the file system, which has a state of `state`, and checks it before anything is changed.
async fn open(
    rt: &Rt,
    image: &StoreImage,
    options: OpenOptions,
    state: &mut State,
) -> Result<(Disk, Fs, Lsn), String> {
    let disk = image.open_disk(rt, options).await;
    let disk = disk.map_err(|error| format!("the opening is refused: {error}"))?;
    sound(&disk).await?;
    let fs = Fs::open(&disk, rt, time(rt)).await;
    let fs = fs.map_err(|error| format!("the file system is not opened: {error}"))?;
    let report = sound(&disk).await?;
    if report.orphans > 0 {
        return Err(format!("{} orphans are left", report.orphans));
    }
    let listing = dump(&fs).await.map_err(|error| error.to_string())?;
    let last = disk.engine().marks().appended;
    state.states.extend(last, &state.under_way);
    let durable = state.states.1.get();
    let listing = Rc::new(listing);
    let known = state
        .states
        .0
        .borrow()
        .values()
        .any(|states| states.contains(&listing));
    if !known && durable > Lsn(0) {
        let states = state.states.0.borrow();
        let last = states.values().next_back().map(|states| {
            states
                .iter()
                .map(|state| state.to_string())
                .collect::<Vec<_>>()
                .join("or ")
        });
        return Err(format!(
            "the files never were these:\n{listing}and last {}",
            last.unwrap_or_default()
        ));
    }
    if let Some(next) = state.next.take().filter(|next| next.listing() == *listing) {
        state.tree = next;
    } else if state.tree.listing() != *listing {
        // An operation of several units, or one whose effects a cut has taken back.
        state.tree = Tree::read(&fs).await.map_err(|error| error.to_string())?;
    }
    let recovered = state.states.opened(last, listing, durable);
    state.under_way.clear();
    state.tree.close_all();
    Ok((disk, fs, recovered))
}

/// Verifies the tree and the lists.
///
/// # Errors
/// The problems.
pub async fn sound(disk: &Disk) -> Result<tonearm_fs::FsReport, String> {
    let report = tonearm_fs::check(disk)
        .await
        .map_err(|error| error.to_string())?;
    let report = report.unwrap_or_default();
    let lists = disk
        .check_lists()
        .await
        .map_err(|error| error.to_string())?;
    let mut problems = report.problems.clone();
    problems.extend(lists.problems);
    if lists.blocks != report.blocks {
        problems.push(format!(
            "{} blocks are on lists, and files have {}",
            lists.blocks, report.blocks
        ));
    }
    match problems.is_empty() {
        true => Ok(report),
        false => Err(format!("the tree is not sound: {problems:?}")),
    }
}

/// Uses the file system.
async fn live(
    rt: Rt,
    image: StoreImage,
    state: Rc<RefCell<State>>,
    opening: Opening,
) -> Result<(), String> {
    let mut random = ChaCha8Rng::seed_from_u64(opening.seed);
    let options = OpenOptions {
        commit_delay: opening.commit_delay,
        large_commit_bytes: opening.large_commit_bytes,
        large_commit_quiet: Nanos(0),
        ..open_options()
    };
    let mut own = state.borrow().clone();
    let (disk, fs, _) = open(&rt, &image, options, &mut own).await?;
    *state.borrow_mut() = own;
    let engine = disk.engine().clone();
    // The last commit that has changed each file.
    let mut changed = BTreeMap::new();
    for _ in 0..opening.operations {
        let (mut tree, states) = {
            let state = state.borrow();
            (state.tree.clone(), state.states.clone())
        };
        let now = Rc::new(tree.listing());
        // What was deleted is freed by commits of its own.
        let before = engine.marks().appended;
        states.note(states.last(), before, now.clone(), now.clone());
        if random.next_u32().is_multiple_of(UNITS) {
            let files = unit::run(&mut random, &fs, &state, now, before).await?;
            let lsn = Lsn(before.0 + 1);
            changed.extend(files.into_iter().map(|ino| (ino, lsn)));
            continue;
        }
        let step = Step::choose(&mut random, &tree);
        let mut ways = vec![now.clone()];
        ways.extend(step.between(&tree).into_iter().map(Rc::new));
        let expected = step.apply(&mut tree);
        ways.push(Rc::new(tree.listing()));
        {
            let mut state = state.borrow_mut();
            state.under_way = ways.clone();
            state.next = Some(tree.clone());
        }
        let made = step.make(&fs, &tree).await;
        if made != expected {
            return Err(format!(
                "{step:?} gives {made:?} and not {expected:?}\n{now}"
            ));
        }
        let marks = engine.marks();
        let is_sync = matches!(step, Step::Sync(_));
        state.borrow_mut().done(tree, ways, before, marks, is_sync);
        if marks.appended > before {
            // The others may be commits that free what was deleted before.
            let lsn = Lsn(before.0 + 1);
            let files = step.files(&state.borrow().tree);
            changed.extend(files.into_iter().map(|ino| (ino, lsn)));
        }
        let synced = match step {
            Step::Sync(Some(ino)) => changed.get(&ino).copied().unwrap_or_default(),
            Step::Sync(None) => before,
            _ => Lsn(0),
        };
        if marks.durable < synced {
            return Err(format!(
                "{step:?} has returned, and {synced} is not durable"
            ));
        }
        if random.next_u32().is_multiple_of(8) {
            rt.sleep(Nanos(random.next_u64() % 30_000_000)).await;
        }
    }
    let listing = dump(&fs).await.map_err(|error| error.to_string())?;
    let expected = state.borrow().tree.listing();
    if listing != expected {
        return Err(format!("the files are\n{listing}\nand not\n{expected}"));
    }
    if opening.in_order {
        drop(fs);
        disk.close().await.map_err(|error| error.to_string())?;
        let last = engine.marks().appended;
        let states = state.borrow().states.clone();
        let now = Rc::new(listing);
        states.note(states.last(), last, now.clone(), now);
        states.1.set(last);
    }
    Ok(())
}

/// Recovers the store that a cut has left, and compares.
fn check(
    left: &StoreImage,
    mut state: State,
    _opening: Opening,
    cut: u64,
    outcome: &mut Outcome,
) -> Result<(), String> {
    let known = state.states.last();
    let (found, _) = left.within_time(cut, |_, rt, image| async move {
        let (_, _, recovered) = open(&rt, &image, open_options(), &mut state).await?;
        Ok(recovered)
    });
    outcome.recovered(found?.0, known.0);
    Ok(())
}
