//! Units of several operations: others see all of one or nothing, also after a power cut.

use super::{Listing, State, Step, Tree, dump};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tonearm_base::Lsn;
use tonearm_fs::{Fs, FsError, Inode};

/// Most operations of a unit.
const STEPS: u32 = 9;

/// Runs a unit, and ends or aborts it. `now` are the files before, and `before` is the last commit. Gives the files that it has
/// changed.
pub(super) async fn run(
    random: &mut ChaCha8Rng,
    fs: &Fs,
    state: &Rc<RefCell<State>>,
    now: Listing,
    before: Lsn,
) -> Result<BTreeSet<u64>, String> {
    let text = |error: FsError| error.to_string();
    let unit = fs.begin().map_err(text)?;
    let outer = state.borrow().tree.clone();
    let (mut tree, mut files, mut steps) = (outer.clone(), BTreeSet::new(), Vec::new());
    for _ in 0..1 + random.next_u32() % STEPS {
        let step = Step::choose(random, &tree);
        let expected = step.apply(&mut tree);
        let made = step.make(unit.fs(), &tree).await;
        if made != expected {
            return Err(format!(
                "in a unit after {steps:?}, {step:?} gives {made:?} and not {expected:?}\n{now}"
            ));
        }
        files.extend(step.files(&tree));
        steps.push(step);
        // What has been freed since by commits of its own is not seen.
        if dump(fs).await.map_err(text)? != *now {
            return Err(format!("others see a part of a unit: {steps:?}"));
        }
    }
    let seen = dump(unit.fs()).await.map_err(text)?;
    if after_next(&seen) != after_next(&tree.listing()) {
        let expected = tree.listing();
        return Err(format!("a unit sees\n{seen}\nand not\n{expected}"));
    }
    let marks = || fs.disk().engine().marks();
    if random.next_u32().is_multiple_of(3) {
        drop(unit);
        let kept = aborted(fs, outer, &tree);
        let ways = vec![now];
        state.borrow_mut().done(kept, ways, before, marks(), false);
        return Ok(BTreeSet::new());
    }
    let ways = vec![now, Rc::new(tree.listing())];
    {
        let mut state = state.borrow_mut();
        state.under_way = ways.clone();
        state.next = Some(tree.clone());
    }
    let before_it = inodes(fs, &files).await;
    let lsn = unit.commit().await.map_err(text)?;
    // A unit may leave a file as it was, its times too.
    let after_it = inodes(fs, &files).await;
    files.retain(|ino| {
        let is_same = outer.files.get(ino) == tree.files.get(ino);
        !is_same || before_it[ino] != after_it[ino]
    });
    let is_durable = random.next_u32().is_multiple_of(2);
    if is_durable {
        let waited = fs.disk().wait_durable(lsn).await;
        waited.map_err(|error| error.to_string())?;
    }
    let mut state = state.borrow_mut();
    state.done(tree, ways, before, marks(), true);
    Ok(files)
}

/// The inodes of files, as they are committed.
async fn inodes(fs: &Fs, files: &BTreeSet<u64>) -> BTreeMap<u64, Option<Inode>> {
    let mut found = BTreeMap::new();
    for ino in files {
        let attr = fs.attr(*ino).await.ok();
        found.insert(*ino, attr.map(|attr| attr.inode));
    }
    found
}

/// The listing without the number of the next file, which is that of the committed files.
fn after_next(listing: &str) -> &str {
    listing.split_once('\n').map_or("", |(_, files)| files)
}

/// The files after a unit that has no effect but on handles, where `tree` are its own.
fn aborted(fs: &Fs, mut outer: Tree, tree: &Tree) -> Tree {
    outer.taken = outer.taken.max(tree.next);
    for ino in tree.open.difference(&outer.open) {
        match outer.files.contains_key(ino) {
            true => continue,
            false => fs.close_handle(*ino),
        }
    }
    let closed: Vec<u64> = outer.open.difference(&tree.open).copied().collect();
    let is_there = |ino: &u64| outer.files.contains_key(ino);
    outer.open = tree.open.iter().copied().filter(is_there).collect();
    for ino in closed {
        outer.reap(ino);
    }
    outer
}
