//! Stores that are archived. The power is cut at each I/O. Then the recovered store has every commit that the archive has,
//! the archive restores the states that the store had, and the next opening continues the archive.

mod bucket;
mod model;
mod restore;
mod step;

pub use bucket::{DELAY, ENCRYPTED, Objects, SimBucket, SimKeys};
pub use model::{Content, Model, digest};
pub use restore::{During, restorable, restore, restore_with, with_bucket};
pub use step::Step;

use crate::campaign::{Failure, Outcome};
use crate::counts::{Counts, Met};
use crate::found::contents;
use crate::generate::Size;
use crate::generations::{self, Opening};
pub use crate::runtime::{START_MS, clock, open_options};
use crate::store::{Heads, Layout, Shape, StoreImage};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::cell::RefCell;
use std::rc::Rc;
use tonearm_archive::{ArchiveError, Archiver, ArchiverOptions, Bucket, EngineSource, Target};
use tonearm_base::{Lsn, Nanos};
use tonearm_disk::{Disk, OpenOptions};
use tonearm_engine::HomeParams;
use tonearm_rt::{JoinHandle, Rt};

/// Bytes of a block.
pub const BLOCK: u64 = 4096;
/// Bytes of the volume.
pub const MAIN: u64 = 96 * BLOCK;
/// Bytes for what does not fit in memory: much, and so little that it is reused before the archive has read it.
pub const SPARE: [u64; 2] = [1 << 20, 100 * BLOCK];

/// The archive is continued after one of so many cuts.
const CONTINUE_EVERY: u64 = 4;

/// One of so many stores follows the heads of its log's drives.
const FOLLOWED_EVERY: u64 = 4;

/// Of so many halves of a request to a bad bucket one fails, and so a quarter of its requests.
const FAULTS_MANY: u32 = 7;

/// Of so many answers of a bucket one is wrong; 0 for none.
const LIES: [u32; 3] = [0, 40, 8];

/// A store with a log of so many tracks.
pub fn shape(layout: Layout, tracks: u64) -> Shape {
    Shape::small(layout, tracks, MAIN / BLOCK)
}

/// Archives the store from `start_ms` on, until the source ends.
pub fn archive(
    disk: &Disk,
    rt: &Rt,
    start_ms: u64,
    bucket: impl Bucket + 'static,
    options: ArchiverOptions,
) -> (EngineSource, JoinHandle<Result<(), ArchiveError>>) {
    let source = EngineSource::new(disk.engine(), rt, clock(rt, start_ms));
    let own = source.clone();
    let run = rt.spawn(async move { Archiver::new(&bucket, &own, options).run().await });
    (source, run)
}

/// What a check after a cut needs, and the next generation.
#[derive(Default)]
struct State {
    objects: Objects,
    model: Model,
    /// The last commit that was reported as archived in this opening.
    archived: Lsn,
    /// The content of the volume before and after the operation that is being carried out.
    under_way: Vec<Content>,
}

impl Clone for State {
    fn clone(&self) -> Self {
        Self {
            objects: Rc::new(RefCell::new(self.objects.borrow().clone())),
            model: self.model.copy(),
            archived: self.archived,
            under_way: self.under_way.clone(),
        }
    }
}

/// The time of day at an opening: an hour passes between two of them.
fn opened_ms(opening: Opening) -> u64 {
    START_MS + u64::from(opening.generation) * 3_600_000
}

/// Runs one seed.
///
/// # Errors
/// The first promise that does not hold.
pub fn run(seed: u64, size: Size) -> Result<Outcome, Failure> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0xa2c4);
    // A small log wraps around before a slow bucket has its commits.
    let tracks = [10, 32, 32][rng.next_u32() as usize % 3];
    let mut shape = Shape {
        home: size.home(seed, BLOCK as u32),
        ..shape(Layout::Overwrite, tracks)
    };
    if seed % FOLLOWED_EVERY == 1 {
        let choice = seed / FOLLOWED_EVERY;
        shape.follow(Heads::chosen(choice as u32, 1 + choice / 4 % 2));
    }
    let image = shape.create_with_spare(SPARE[seed as usize % 2]);
    generations::run(seed, size, rng, image, live, check)
}

/// Opens the store, which has a state of `state`. Returns its content.
async fn open(
    rt: &Rt,
    image: &StoreImage,
    options: OpenOptions,
    state: &mut State,
) -> Result<(Disk, Vec<u8>, Lsn), String> {
    let disk = image.open_disk(rt, options).await;
    let disk = disk.map_err(|error| format!("the opening is refused: {error}"))?;
    let main = disk.volume("main").map_err(|error| error.to_string())?;
    let content = contents(&main).await.map_err(|error| error.to_string())?;
    let last = disk.engine().marks().appended;
    state.model.extend(last, &state.under_way);
    let durable = state.model.1.get();
    let recovered = state.model.opened(last, digest(&content), durable);
    state.under_way.clear();
    Ok((disk, content, recovered))
}

/// Archives the store while it is written.
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
    let (disk, mut content, _) = open(&rt, &image, options, &mut own).await?;
    own.archived = Lsn(0);
    let (objects, model) = (own.objects.clone(), own.model.clone());
    *state.borrow_mut() = own;
    let engine = disk.engine().clone();
    let faults = [0, FAULTS_MANY, 20][random.next_u32() as usize % 3];
    let bucket = SimBucket {
        random: RefCell::new(ChaCha8Rng::seed_from_u64(opening.seed)),
        faults,
        // Not of `random`: earlier seeds keep their meaning.
        lies: LIES[opening.seed as usize % LIES.len()],
        delay: [DELAY, DELAY, 10 * DELAY][random.next_u32() as usize % 3],
        keys: SimKeys {
            encrypts: random.next_u32().is_multiple_of(3),
            decrypts: false,
        },
        ..SimBucket::sound(&rt, &objects)
    };
    let options = ArchiverOptions {
        interval: Nanos::from_millis(10),
        object_bytes: [1, 200 << 10, 16 << 20][random.next_u32() as usize % 3],
        base_bytes_per_second: 0,
        // An hour passes between two openings.
        keep_ms: [0, 2 * 3_600_000][random.next_u32() as usize % 2],
        ..ArchiverOptions::default()
    };
    let (source, archiver) = archive(&disk, &rt, opened_ms(opening), bucket, options);
    for _ in 0..opening.operations {
        let now = digest(&content);
        let before = engine.marks().appended;
        // What an ended unit had spilled is freed by commits of its own.
        model.note(model.last(), before, now.clone(), now.clone());
        let step = Step::choose(&mut random);
        step.apply(&mut content);
        let after = digest(&content);
        state.borrow_mut().under_way = vec![now.clone(), after.clone()];
        step.make(&disk).await.map_err(|error| error.to_string())?;
        model.note(before, engine.marks().appended, now, after);
        state.borrow_mut().under_way.clear();
        state.borrow_mut().archived = engine.archived();
        model.1.set(engine.marks().durable);
        rt.sleep(Nanos(random.next_u64() % 3_000_000)).await;
    }
    if opening.in_order {
        disk.flush().await.map_err(|error| error.to_string())?;
        source.end();
        let ended = archiver.await;
        if matches!(ended, Err(ArchiveError::Unfinished { .. })) && faults == FAULTS_MANY {
            // Finding the end of the chain takes three requests, and can fail ten times in a row. The next opening archives
            // the rest.
            return disk.close().await.map_err(|error| error.to_string());
        }
        ended.map_err(|error| error.to_string())?;
        let (archived, last) = (engine.archived(), engine.marks().appended);
        // Without a base nothing is called archived.
        let has_base = engine.archive().is_some_and(|info| info.restorable);
        if has_base && archived != last {
            return Err(format!(
                "{archived} of {last} commits are archived at the end"
            ));
        }
        disk.close().await.map_err(|error| error.to_string())?;
    }
    source.end();
    Ok(())
}

/// Recovers the store that a cut has left, restores what is archived, and continues the archive.
fn check(
    left: &StoreImage,
    mut state: State,
    opening: Opening,
    cut: u64,
    outcome: &mut Outcome,
) -> Result<(), String> {
    let home = [Layout::Overwrite, Layout::Hylog][cut as usize % 2].home(BLOCK as u32, 10);
    let archived = restorable(&state.objects);
    let last = archived.last().map_or(Lsn(0), |part| part.last);
    state.model.extend(last, &state.under_way);
    if last > Lsn(0) {
        same(&state, Target::Latest, home, &mut outcome.met)?;
        let range = archived[cut as usize % archived.len()];
        let one = range.first.0 + cut / 7 % (range.last.0 - range.first.0 + 1);
        same(&state, Target::Lsn(Lsn(one)), home, &mut outcome.met)?;
    }
    if state.archived > Lsn(0) {
        let archived = restore(&state.objects, Target::Lsn(state.archived), home);
        let (lsn, found) = archived.map_err(|error| {
            format!(
                "commit {} was reported as archived: {error}",
                state.archived
            )
        })?;
        state.model.expects(lsn, &found);
    }
    let known = state.model.last();
    let objects = state.objects.clone();
    let (found, _) = left.within_time(cut, |_, own, image| async move {
        let (disk, content, recovered) = open(&own, &image, open_options(), &mut state).await?;
        if recovered < last {
            return Err(format!(
                "commit {last} is archived, and the power cut has left the commits up to {recovered}"
            ));
        }
        if cut.is_multiple_of(CONTINUE_EVERY) {
            let source = EngineSource::new(disk.engine(), &own, clock(&own, opened_ms(opening) + 1000));
            source.end();
            let bucket = SimBucket::sound(&own, &state.objects);
            let ended = Archiver::new(&bucket, &source, ArchiverOptions::default());
            let ended = { ended }.run().await;
            ended.map_err(|error| format!("the archive is not continued: {error}"))?;
        }
        Ok((recovered, digest(&content)))
    });
    let (recovered, content) = found?;
    outcome.recovered(recovered.0, known.0);
    if cut.is_multiple_of(CONTINUE_EVERY) {
        let restored = restore(&objects, Target::Latest, home);
        let (lsn, restored) = restored.map_err(|error| format!("after the cut: {error}"))?;
        if restored != content {
            return Err(format!(
                "commit {lsn} is not what the store has after the cut"
            ));
        }
        outcome.met.met(Met::Continued, 1);
    }
    Ok(())
}

/// Restores `target` and compares it with the state that the store had.
fn same(state: &State, target: Target, home: HomeParams, met: &mut Counts) -> Result<(), String> {
    match restore(&state.objects, target.clone(), home) {
        Ok((lsn, found)) => {
            state.model.expects(lsn, &found);
            met.met(Met::Restored, 1);
            Ok(())
        }
        Err(ArchiveError::NotRestorable { .. }) => {
            met.met(Met::NotRestorable, 1);
            Ok(())
        }
        Err(error) => Err(format!("{target:?} is not restored: {error}")),
    }
}
