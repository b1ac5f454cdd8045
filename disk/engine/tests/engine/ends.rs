//! What lies at both ends of each member: a store opens without the first MiB or the last one of any member, and a member that has
//! become longer or shorter is never opened from what an earlier use has left at its end.

#![allow(clippy::unwrap_used)]

use crate::arrays::array;
use crate::common::{
    SEGMENTS, bytes, commit, in_world, open_store, params, space, store, store_of, with_drives,
    writes,
};
use std::cell::RefCell;
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_engine::{
    CreateParams, Engine, EngineError, HeadParams, HomeParams, LogDrive, MemberDevice, OpenOptions,
    load_descriptor, load_superblock,
};
use tonearm_format::{HeadKind, SECTOR, SUPERBLOCK_SLOTS, trailer_offset};
use tonearm_rt::Rt;
use tonearm_world::{Crash, DiskImage, SimOptions, SimWorld};

const MIB: u64 = 1 << 20;
/// Content of the first blocks of [`Store::filled`].
const CONTENT: [u8; 12] = [1, 1, 1, 2, 2, 1, 1, 1, 1, 1, 1, 1];

#[derive(Clone, Copy, Debug)]
enum End {
    First,
    Last,
}

impl End {
    const BOTH: [Self; 2] = [Self::First, Self::Last];

    fn other(self) -> Self {
        match self {
            Self::First => Self::Last,
            Self::Last => Self::First,
        }
    }

    /// Overwrites a MiB at this end of `disk`.
    fn lose(self, disk: &mut DiskImage) {
        match self {
            Self::First => disk.zero(0, MIB),
            Self::Last => disk.write(disk.size - MIB, &[0xa5; MIB as usize]),
        }
    }
}

#[derive(Clone)]
struct Store {
    name: &'static str,
    disks: Vec<DiskImage>,
    is_array: bool,
}

impl Store {
    fn new(name: &'static str, disks: Vec<DiskImage>) -> Self {
        Self {
            name,
            disks,
            is_array: false,
        }
    }

    /// Log and blocks on one member.
    fn single() -> Self {
        let disks = store_of(&params(HomeParams::Overwrite), &[space(0, true, true)]);
        Self::new("single", disks)
    }

    fn all() -> [Self; 4] {
        let head = HeadParams {
            kind: HeadKind::Online,
            sector_bytes: SECTOR as u16,
            drives: vec![LogDrive::default(); 2],
        };
        let followed = CreateParams {
            head: Some(head),
            ..params(HomeParams::Overwrite)
        };
        let members = [
            space(0, false, true),
            space(1, true, false),
            space(2, true, false),
        ];
        let of_array = Self {
            is_array: true,
            ..Self::new("array", array(HomeParams::Overwrite))
        };
        [
            Self::single(),
            Self::new("log and segments", store(SEGMENTS)),
            Self::new("two log drives with heads", store_of(&followed, &members)),
            of_array,
        ]
    }

    /// The store with [`CONTENT`]: closed, or cut off with a part of it in the log alone.
    fn filled(self, closes: bool) -> Self {
        let (filled, world) = self.opened(OpenOptions::default(), async move |engine| {
            commit(&engine, vec![writes(0, 12, 1)]).await.unwrap();
            engine.drain().await.unwrap();
            let last = commit(&engine, vec![writes(3, 2, 2)]).await.unwrap();
            engine.wait_durable(last).await.unwrap();
            if closes {
                engine.close().await.unwrap();
            }
        });
        filled.unwrap();
        let disks = if closes {
            world.images()
        } else {
            world.crash().images(1)
        };
        Self { disks, ..self }
    }

    /// Does `work` on the open store. Returns its result, and the world.
    fn opened<T: 'static>(
        &self,
        options: OpenOptions,
        work: impl AsyncFnOnce(Engine) -> T + 'static,
    ) -> (Result<T, EngineError>, SimWorld) {
        let is_array = self.is_array;
        in_world(&self.disks, async move |_, rt, drives| {
            let engine = open(is_array, &rt, drives, options).await?;
            Ok(work(engine).await)
        })
    }

    /// Checks that the store opens with `content`, and closes it. Returns it as it is then, and its number of blocks.
    fn check(&self, content: [u8; 12], case: &str) -> (Self, u64) {
        let (name, of_case) = (self.name, case.to_string());
        let (found, world) = self.opened(OpenOptions::default(), async move |engine| {
            let found = bytes(&engine, 0, 12).await;
            assert_eq!(found.unwrap(), content, "{name}: {of_case}");
            engine.close().await.unwrap();
            engine.superblock().size_blocks
        });
        let size_blocks = found.unwrap_or_else(|error| panic!("{name}: {case}: {error}"));
        let disks = world.images();
        (Self { disks, ..*self }, size_blocks)
    }

    /// The crash states of an opening and its end.
    fn cuts(&self, options: OpenOptions) -> (Vec<Crash>, Vec<DiskImage>) {
        let world = SimWorld::new(SimOptions::default(), self.disks.clone());
        let found: Rc<RefCell<Vec<Crash>>> = Rc::default();
        let (seen, is_array) = (found.clone(), self.is_array);
        world.on_io(move |_, crash| seen.borrow_mut().push(crash.clone()));
        let (done, world) = with_drives(world, async move |_, rt: Rt, drives| {
            open(is_array, &rt, drives, options).await?.close().await?;
            rt.sleep(Nanos::from_millis(5)).await;
            Ok::<_, EngineError>(())
        });
        done.unwrap();
        world.clear_hook();
        found.borrow_mut().push(world.crash());
        (found.take(), world.images())
    }
}

async fn open(
    is_array: bool,
    rt: &Rt,
    drives: Vec<MemberDevice>,
    options: OpenOptions,
) -> Result<Engine, EngineError> {
    if is_array {
        let opened = open_store(rt, drives, options).await?;
        return Ok(opened.0);
    }
    Engine::open(rt, &BufPool::new(1 << 20), drives, options, |_| {}).await
}

/// Each member alone, and all of them.
fn groups(members: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    (0..members)
        .map(|index| index..index + 1)
        .chain(std::iter::once(0..members))
}

#[test]
fn store_opens_without_the_first_or_last_mib_of_any_member() {
    for store in Store::all() {
        for closes in [true, false] {
            let whole = store.clone().filled(closes);
            for (of, end) in
                groups(whole.disks.len()).flat_map(|of| End::BOTH.map(|end| (of.clone(), end)))
            {
                let case = format!("{end:?} MiB of {of:?}, closed: {closes}");
                let mut left = whole.clone();
                left.disks[of.clone()]
                    .iter_mut()
                    .for_each(|disk| end.lose(disk));
                let (mut again, _) = left.check(CONTENT, &case);
                // The opening has written that end again, so the other one may be lost now.
                again.disks[of]
                    .iter_mut()
                    .for_each(|disk| end.other().lose(disk));
                again.check(CONTENT, &format!("{case}, then the other end"));
            }
        }
    }
}

#[test]
fn opening_writes_all_copies_of_a_lost_end_again() {
    for store in Store::all() {
        let mut left = store.filled(false);
        left.disks.iter_mut().for_each(|disk| End::First.lose(disk));
        let (again, _) = left.check(CONTENT, "all first MiB");
        let is_array = again.is_array;
        in_world(&again.disks, async move |_, _, drives| {
            let pool = BufPool::new(0);
            for (index, drive) in drives.iter().enumerate() {
                if is_array {
                    assert!(load_descriptor(&pool, drive).await.unwrap().is_some());
                }
                if !is_array || index == 0 {
                    let found = load_superblock(&pool, drive).await.unwrap();
                    assert_eq!(found.valid_slots, SUPERBLOCK_SLOTS);
                }
            }
        });
    }
}

#[test]
fn power_cuts_while_a_lost_end_is_written_again_lose_nothing() {
    for store in Store::all() {
        let whole = store.filled(false);
        for end in End::BOTH {
            let mut left = whole.clone();
            left.disks.iter_mut().for_each(|disk| end.lose(disk));
            let (crashes, _) = left.cuts(OpenOptions::default());
            assert!(crashes.len() > 20, "{} cuts", crashes.len());
            let stride = if left.is_array { 5 } else { 1 };
            for (cut, crash) in crashes.iter().enumerate().step_by(stride) {
                for seed in 0..2 {
                    left.disks = crash.images(seed + 10 * cut as u64);
                    left.check(CONTENT, &format!("{end:?}, cut {cut}, image {seed}"));
                }
            }
        }
    }
}

#[test]
fn a_member_without_its_trailer_area_is_truncated() {
    for store in Store::all().into_iter().filter(|store| !store.is_array) {
        let whole = store.filled(true);
        for index in 0..whole.disks.len() {
            let mut short = whole.clone();
            let size = short.disks[index].size;
            short.disks[index].size = size - SECTOR as u64;
            let (refused, _) = short.opened(OpenOptions::default(), async |_| ());
            let error = refused.unwrap_err();
            assert!(
                matches!(error, EngineError::Truncated { needed, .. } if needed == size),
                "{}: {error}",
                whole.name
            );
            // What was cut off has a copy at the front.
            short.disks[index].zero(size - MIB, MIB);
            short.disks[index].size = size;
            short.check(CONTENT, "the size is given back");
        }
    }
}

#[test]
fn a_longer_member_gets_its_copies_at_the_new_end() {
    for store in Store::all() {
        let whole = store.filled(false);
        for more in [SECTOR as u64, 3 * MIB + SECTOR as u64] {
            let mut long = whole.clone();
            long.disks.iter_mut().for_each(|disk| disk.size += more);
            let (long, _) = long.check(CONTENT, &format!("{more} bytes longer"));
            for end in End::BOTH {
                let mut left = long.clone();
                left.disks.iter_mut().for_each(|disk| match end {
                    End::First => end.lose(disk),
                    End::Last => disk.zero(trailer_offset(disk.size), MIB),
                });
                left.check(CONTENT, &format!("{more} bytes longer, without {end:?}"));
            }
        }
    }
}

#[test]
fn power_cuts_in_the_first_opening_of_a_longer_member_lose_nothing() {
    let mut long = Store::single().filled(false);
    long.disks[0].size += 3 * MIB;
    let (crashes, _) = long.cuts(OpenOptions::default());
    for (cut, crash) in crashes.iter().enumerate() {
        for seed in 0..4 {
            long.disks = crash.images(seed + 10 * cut as u64);
            long.check(CONTENT, &format!("cut {cut}, image {seed}"));
        }
    }
}

/// The store moves to a longer device, is in use there, and goes on. What it has left at an end that is no end any more, or that was
/// none when the copy was made, does not count.
#[test]
fn copies_at_an_end_of_another_size_do_not_count() {
    const LATER: [u8; 12] = [9; 12];
    let backup = Store::single().filled(false);
    let mut long = backup.clone();
    long.disks[0].size += 3 * MIB;
    for _ in 0..3 {
        let (used, world) = long.opened(OpenOptions::default(), async |engine| {
            commit(&engine, vec![writes(0, 12, 9)]).await.unwrap();
            engine.close().await.unwrap();
        });
        used.unwrap();
        long.disks = world.images();
    }
    let mut short = long.clone();
    short.disks[0].size = backup.disks[0].size;
    short.check(LATER, "short again");
    // The backup, which is older, is copied back over the front of the longer device.
    let mut content = vec![0; backup.disks[0].size as usize];
    backup.disks[0].read(0, &mut content);
    long.disks[0].write(0, &content);
    long.check(CONTENT, "the backup");
}
