//! Stores of hostile origin, and stores on drives with unreadable parts: each opens, or is refused with a reason.

#![allow(clippy::unwrap_used)]

use crate::common::{BLOCK, bytes, segments, store, with};
use crate::images::{Bases, in_world, members};
use tonearm_base::BufPool;
use tonearm_disk::{Disk, OpenOptions};
use tonearm_engine::{CommitChange, Inspection};
use tonearm_format::{
    COUNTER_MAX, Extent, SECTOR, Superblock, VolumeEntry, VolumeKind, superblock_offset,
};
use tonearm_world::DiskImage;

/// The superblock of `image`.
fn superblock(image: &DiskImage) -> Superblock {
    let mut sector = [0; SECTOR];
    image.read(0, &mut sector);
    Superblock::decode(&sector).unwrap()
}

/// `image` with a superblock that has the right checksum in all slots.
fn crafted(image: &DiskImage, change: impl FnOnce(&mut Superblock)) -> DiskImage {
    let (mut superblock, mut image) = (superblock(image), image.clone());
    change(&mut superblock);
    for slot in 0..4 {
        let offset = superblock_offset(slot, image.size);
        image.write(offset, &superblock.encode());
    }
    image
}

/// The lines that a command says, or its error.
type Said = Result<Vec<String>, String>;

/// The results for `image` with unreadable pages at `bad`: of an inspection, and of an opening that reads, writes and
/// closes.
fn looked_at_and_opened(
    image: &DiskImage,
    bad: &[u64],
    options: OpenOptions,
) -> (Said, Said, DiskImage) {
    let size = image.size;
    let ((look, opened), image) = in_world(image, bad, async move |rt, pool| {
        let members = members(&rt, size);
        let look = async {
            let look = Inspection::start(&rt, &pool, members.clone(), |_, _| {}).await?;
            Ok::<_, tonearm_engine::EngineError>(look.volumes().await.1)
        };
        let look = look.await.map_err(|error| error.to_string());
        let opened = async {
            let disk = Disk::open(&rt, &pool, members, options, |_| {}).await?;
            let volume = disk.volume("main")?;
            volume.read(0, volume.size_bytes()).await?;
            if !volume.read_only() {
                let data = pool.copy_of(&[7; BLOCK]).share();
                volume.write(0, data, true).await?;
            }
            let unreadable = disk.recovery().unreadable;
            disk.close().await?;
            Ok::<_, tonearm_disk::DiskError>(unreadable.iter().map(ToString::to_string).collect())
        };
        let opened = opened.await.map_err(|error| error.to_string());
        (look, opened)
    });
    (look, opened, image)
}

#[test]
fn unreadable_superblock_slot_is_reported_and_rewritten() {
    for slot in 0..4 {
        for image in [store(8 << 20), segments(8 << 20)] {
            let bad = [superblock_offset(slot, image.size)];
            let (look, opened, after) = looked_at_and_opened(&image, &bad, OpenOptions::default());
            assert_eq!(look, Ok(Vec::new()));
            let named = format!(
                "member: copy {slot} of the superblock, at byte {}, cannot be read: Input/output error",
                bad[0]
            );
            let opened = opened.unwrap();
            assert!(
                matches!(&opened[..], [one] if one.starts_with(&named)),
                "{opened:?} for {named}"
            );
            let (_, again, _) = looked_at_and_opened(&after, &[], OpenOptions::default());
            assert_eq!(again, Ok(Vec::new()), "it can be read again");
        }
    }
}

#[test]
fn one_readable_superblock_slot_is_enough() {
    let image = store(8 << 20);
    let bad = [0, 1, 3].map(|slot| superblock_offset(slot, image.size));
    let (look, opened, _) = looked_at_and_opened(&image, &bad, OpenOptions::default());
    assert_eq!(
        (look, opened.map(|named| named.len())),
        (Ok(Vec::new()), Ok(3))
    );
}

#[test]
fn opening_names_all_unreadable_superblock_slots() {
    let image = store(8 << 20);
    let bad = [0, 1, 2, 3].map(|slot| superblock_offset(slot, image.size));
    let (look, opened, _) = looked_at_and_opened(&image, &bad, OpenOptions::default());
    for error in [look.unwrap_err(), opened.unwrap_err()] {
        for (slot, offset) in bad.iter().enumerate() {
            let named = format!("copy {slot} of the superblock, at byte {offset}");
            assert!(error.contains(&named), "{error}");
        }
    }
}

type Craft = fn(&mut Superblock, u64);

#[test]
fn exhausted_superblock_counters_are_refused() {
    let fields: [(&str, Craft); 4] = [
        ("generation", |s, to| s.generation = to),
        ("epoch", |s, to| s.epoch = to),
        ("log_end_seq", |s, to| {
            (s.log.log_end_seq, s.log.log_start_seq) = (to, 1)
        }),
        ("log_end_lsn", |s, to| s.log.log_end_lsn = to),
    ];
    for (field, craft) in fields {
        for value in [u64::MAX, u64::MAX - 1, COUNTER_MAX + 1] {
            for image in [store(8 << 20), segments(8 << 20)] {
                let image = crafted(&image, |superblock| craft(superblock, value));
                let (look, opened, _) = looked_at_and_opened(&image, &[], OpenOptions::default());
                for error in [look.unwrap_err(), opened.unwrap_err()] {
                    let text = format!("its {field} is {value}");
                    assert!(error.contains(&text) && error.contains("member"), "{error}");
                }
            }
        }
    }
}

#[test]
fn store_with_exhausted_counters_opens_read_only() {
    let crafts: [(&str, Craft); 2] = [
        ("generation", |s, to| s.generation = to),
        ("epoch", |s, to| s.epoch = to),
    ];
    for (field, craft) in crafts {
        let image = crafted(&store(8 << 20), |superblock| craft(superblock, COUNTER_MAX));
        let (look, opened, after) = looked_at_and_opened(&image, &[], OpenOptions::default());
        assert_eq!(look, Ok(Vec::new()));
        let error = opened.unwrap_err();
        assert!(
            error.contains("cannot be opened for writing") && error.contains(field),
            "{error}"
        );
        let read_only = OpenOptions {
            read_only: true,
            ..OpenOptions::default()
        };
        let (_, opened, _) = looked_at_and_opened(&after, &[], read_only);
        assert_eq!(opened, Ok(Vec::new()));
    }
}

#[test]
fn stores_that_cannot_be_are_refused_by_the_rule() {
    type Spoil = fn(&mut Superblock);
    let spoils: [(&str, Spoil); 6] = [
        ("smaller than its volume table", |s| s.size_blocks = 1),
        ("smaller than its volume table", |s| s.size_blocks = 255),
        ("the size is not covered", |s| s.size_blocks = 1 << 40),
        ("a data member's place", |s| {
            s.members[0].data_offset = 1 << 20
        }),
        ("a data member's place", |s| s.members[0].data_offset += 512),
        ("the track size", |s| s.track_bytes = 1 << 31),
    ];
    for (text, spoil) in spoils {
        for image in [store(8 << 20), segments(8 << 20)] {
            let image = crafted(&image, spoil);
            let (look, opened, _) = looked_at_and_opened(&image, &[], OpenOptions::default());
            for error in [look.unwrap_err(), opened.unwrap_err()] {
                assert!(error.contains(text), "{error}");
            }
        }
    }
}

fn volume(name: &str, size_bytes: u64, extents: &[(u64, u64)]) -> VolumeEntry {
    let extents = extents
        .iter()
        .map(|&(start, count)| Extent { start, count });
    VolumeEntry {
        uuid: [9; 16],
        name: name.into(),
        size_bytes,
        kind: VolumeKind::Plain,
        read_only: false,
        created_unix_s: 0,
        extents: extents.collect(),
    }
}

#[test]
fn contradictory_volumes_are_refused_by_name() {
    let block = BLOCK as u64;
    let cases = [
        (volume("crafted", 9 * block, &[(300, 8)]), "do not cover"),
        (
            volume("crafted", block, &[(8, 1)]),
            "those of the volume table",
        ),
        (
            volume("crafted", 9 * block, &[(1 << 40, 9)]),
            "beyond the store",
        ),
        (
            volume("crafted", block, &[(256, 1)]),
            "overlap those of volume \"main\"",
        ),
        (
            volume("crafted", 9 * block, &[(300, 5), (304, 4)]),
            "overlap",
        ),
        (
            volume("main", block, &[(300, 1)]),
            "another volume of this name",
        ),
    ];
    for (entry, why) in cases {
        for image in [store(8 << 20), segments(8 << 20)] {
            let (slot, sector) = (3, entry.encode());
            let (_, image) = with(&image, OpenOptions::default(), async move |disk| {
                let data = BufPool::new(1 << 20).copy_of(&sector).share();
                let admission = disk.engine().admit(1, 0).await.unwrap();
                let change = CommitChange::Write { first: slot, data };
                disk.engine().commit(admission, vec![change]).unwrap();
            });
            let (look, opened, _) = looked_at_and_opened(&image, &[], OpenOptions::default());
            let (problems, error) = (look.unwrap(), opened.unwrap_err());
            let named = format!("volume {:?} (entry 3 of the volume table)", entry.name);
            for text in [&problems.join("; "), &error] {
                assert!(
                    text.contains(why) && text.contains(&named),
                    "{text} for {why}"
                );
            }
        }
    }
}

#[test]
fn a_sound_store_is_opened_and_read() {
    // These are the stores from which the other tests craft theirs.
    for image in [store(8 << 20), segments(8 << 20)] {
        let (look, opened, after) = looked_at_and_opened(&image, &[], OpenOptions::default());
        assert_eq!((look, opened), (Ok(Vec::new()), Ok(Vec::new())));
        let (first, _) = with(&after, OpenOptions::default(), async move |disk| {
            bytes(
                disk.volume("main")
                    .unwrap()
                    .read(0, BLOCK as u64)
                    .await
                    .unwrap(),
            )
        });
        assert_eq!(first, [7; BLOCK]);
    }
}

#[test]
fn any_changed_field_is_accepted_or_refused() {
    let bases = Bases::new();
    // Without an edit everything works, or the others show nothing.
    for base in 0..6 {
        bases.run(&[base, 0]);
    }
    let mut random = 1u64;
    for number in 0..600u64 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(number);
        let [index, at, op, value] = [8, 20, 40, 50].map(|bits| (random >> bits) as u16);
        let mut input = vec![number as u8 % 6, (random >> 33) as u8];
        input.extend(index.to_le_bytes());
        // Fields near the start of a structure matter most.
        input.extend((at % [64, 256, 4096][number as usize % 3]).to_le_bytes());
        input.extend([op as u8, 0]);
        input.extend(u64::from(value).to_le_bytes());
        bases.run(&input);
    }
}
