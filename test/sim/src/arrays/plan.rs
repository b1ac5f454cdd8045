//! What a generation does to the drives of an array, from its seed.

use super::image::{ArrayImage, ArrayShape, drive_of};
use super::pulls::Pull;
use crate::campaign::{options_of, shape_of};
use crate::generate::Size;
use crate::store::{Heads, Layout};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use tonearm_base::Nanos;
use tonearm_device::raid::MemberState;
use tonearm_engine::{HomeParams, OpenOptions};
use tonearm_format::ArrayLevel;

/// Requests to all drives that an operation of the workload makes, about.
const REQUESTS: u64 = 12;
/// Spare shares of stores with segments, in percent: the least one, that of other kinds of runs, and a large one.
const SPARES: [u64; 3] = [2, 10, 30];

/// A generation.
pub struct Plan {
    /// How the store is opened.
    pub options: OpenOptions,
    /// Seed of the world and the workload.
    pub seed: u64,
    /// The drives that are not there.
    pub away: Vec<usize>,
    /// The drive that is put in the place of the missing member, and its new identity.
    pub replacement: Option<(usize, [u8; 16])>,
    /// A rebuild, if a member is missing that has been replaced.
    pub rebuild: Option<Rebuild>,
    /// The members that fail.
    pub pulls: Vec<Pull>,
    /// The generation ends with a close.
    pub orderly: bool,
    /// The drive of each member, as the store knew it before.
    pub members: Vec<usize>,
    /// The member that does not have the array's data when the generation begins.
    pub lacking: Option<usize>,
    /// The array was closed in order.
    pub clean: bool,
}

/// How a rebuild runs.
#[derive(Clone, Copy)]
pub struct Rebuild {
    /// Bytes a second.
    pub rate: u64,
    /// It is stopped after this time.
    pub stop_after: Option<Nanos>,
}

fn below(rng: &mut ChaCha8Rng, bound: u64) -> u64 {
    rng.next_u64() % bound.max(1)
}

fn pick<T: Copy>(rng: &mut ChaCha8Rng, of: &[T]) -> T {
    of[below(rng, of.len() as u64) as usize]
}

/// The layout of the store of `seed`. Each layout and each spare share is as likely as the others.
pub fn draw_shape(rng: &mut ChaCha8Rng, seed: u64, size: Size) -> ArrayShape {
    let mut store = shape_of(rng);
    store.split = true;
    let level = pick(
        rng,
        &[
            ArrayLevel::Raid0,
            ArrayLevel::Raid5,
            ArrayLevel::Raid5,
            ArrayLevel::Raid5,
        ],
    );
    let members = level.members_min() + below(rng, 3) as usize;
    let stripe_bytes = pick(rng, &[4 << 10, 16 << 10, 32 << 10, 64 << 10]);
    let columns = (members - level.spare_members()) as u64;
    let whole_stripes = below(rng, 2) == 0;
    // Not from the random sequence: a seed makes the same operations on each layout.
    let choice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let all = [
        Layout::Overwrite,
        Layout::Segments,
        Layout::Wolf,
        Layout::Hylog,
    ];
    let layout = size.layout.unwrap_or(all[choice as usize % 4]);
    let spare_percent = SPARES[choice as usize / 4 % 3];
    store.home = layout.home(store.block_size, spare_percent);
    if let (HomeParams::Segments { segment_bytes, .. }, true) = (&mut store.home, whole_stripes) {
        let row_bytes = columns * stripe_bytes;
        let mut bytes = row_bytes;
        while bytes < u64::from(*segment_bytes) || !bytes.is_multiple_of(store.block_size.into()) {
            bytes += row_bytes;
        }
        *segment_bytes = bytes as u32;
    }
    if choice >> 29 & 3 == 1 {
        store.follow(Heads::chosen((choice >> 26) as u32, 1));
    }
    ArrayShape {
        store,
        level,
        members,
        stripe_bytes,
    }
}

/// The members of an array before a generation.
struct Members {
    /// The drive of each, as the store knows it.
    drives: Vec<usize>,
    /// The one that does not have the array's data.
    lacking: Option<usize>,
    /// It is not a replacement.
    is_missing: bool,
    /// The array was closed in order.
    clean: bool,
}

impl Members {
    fn of(image: &ArrayImage) -> Result<Self, String> {
        let (status, clean) = image.look().map_err(|error| error.to_string())?;
        let drive =
            |name: &str| drive_of(name).ok_or_else(|| format!("no drive has the name {name}"));
        let drives = status.members.iter().map(|member| drive(&member.name));
        let drives = drives.collect::<Result<Vec<usize>, String>>()?;
        let states: Vec<MemberState> = status.members.iter().map(|member| member.state).collect();
        let lacking = states.iter().position(|state| *state != MemberState::InUse);
        Ok(Self {
            drives,
            lacking,
            is_missing: lacking.is_some_and(|at| states[at] == MemberState::Missing),
            clean,
        })
    }
}

/// The next generation of the store in `image`. A drive may get its content of `earlier`.
///
/// # Errors
/// When the array cannot be looked at.
pub fn draw_plan(
    rng: &mut ChaCha8Rng,
    image: &mut ArrayImage,
    earlier: Option<&ArrayImage>,
    size: Size,
    ordered: bool,
) -> Result<Plan, String> {
    let mut known = Members::of(image)?;
    let options = options_of(rng, ordered);
    let seed = rng.next_u64();
    let options = OpenOptions {
        commit_delay: size.commit_delay(seed),
        ..options
    };
    let orderly = below(rng, 3) == 0;
    let redundant = image.shape.level == ArrayLevel::Raid5;
    let mut away = Vec::new();
    // A member that is away after a crash is tried after each cut, see `check.rs`.
    if redundant && known.lacking.is_none() && known.clean {
        let at = below(rng, known.drives.len() as u64) as usize;
        let drive = known.drives[at];
        match (below(rng, 8), earlier) {
            (0 | 1, _) => {
                away = vec![drive];
                (known.lacking, known.is_missing) = (Some(at), true);
            }
            (2, Some(earlier)) => {
                image.disks[drive] = earlier.disks[drive].clone();
                known = Members::of(image)?;
            }
            _ => {}
        }
    }
    let (mut replacement, mut rebuild) = (None, None);
    if let Some(at) = known.lacking.filter(|_| redundant) {
        // A replacement that is being rebuilt is itself replaced now and then.
        if known.is_missing && below(rng, 4) > 0 || below(rng, 12) == 0 {
            let unused = image.drives().filter(|drive| !known.drives.contains(drive));
            let mut choices: Vec<usize> = unused.collect();
            if known.is_missing && away.is_empty() {
                // A member that was away takes its own place, as a new one.
                choices.push(known.drives[at]);
            }
            let mut uuid = [0; 16];
            rng.fill_bytes(&mut uuid);
            replacement = Some((pick(rng, &choices), uuid));
        }
        if (replacement.is_some() || !known.is_missing) && below(rng, 6) > 0 {
            let stops = below(rng, 3) == 0;
            let micros = below(rng, 40_000);
            rebuild = Some(Rebuild {
                rate: pick(rng, &[0, 1 << 30, 200 << 20, 60 << 20]),
                stop_after: stops.then(|| Nanos::from_micros(micros)),
            });
        }
    }
    let mut targets = known.drives.clone();
    if let (Some((drive, _)), Some(at)) = (replacement, known.lacking) {
        targets[at] = drive;
    }
    let whole = known.lacking.is_none();
    Ok(Plan {
        options,
        seed,
        away,
        replacement,
        rebuild,
        pulls: draw_pulls(rng, targets, size.operations, redundant, whole),
        orderly,
        members: known.drives,
        lacking: known.lacking,
        clean: known.clean,
    })
}

/// The `targets` that fail: often one, less often a second one, in any order. Some of an array that is `whole` fail for a
/// moment only.
fn draw_pulls(
    rng: &mut ChaCha8Rng,
    mut targets: Vec<usize>,
    operations: u64,
    redundant: bool,
    whole: bool,
) -> Vec<Pull> {
    let count = match (redundant, below(rng, 8)) {
        (true, 0..4) => 1,
        (true, 4) => 2,
        (false, 0..2) => 1,
        _ => 0,
    };
    // Where a member is lacking, a request that fails once is one of an unreadable sector, and its block may be lost.
    let passes = whole && count == 1 && below(rng, 4) == 0;
    let reads = below(rng, 3) == 0;
    let mut pulls = Vec::new();
    for _ in 0..count {
        let drive = pick(rng, &targets);
        targets.retain(|other| *other != drive);
        let most = REQUESTS * operations;
        // Also early ones, in the opening.
        let from = match below(rng, 4) {
            0 => below(rng, most / 16),
            _ => below(rng, most),
        };
        let to = match passes {
            true => from + 1 + below(rng, 30),
            false => u64::MAX,
        };
        pulls.push(Pull {
            drive,
            from,
            to,
            reads,
        });
    }
    pulls
}
