//! The case for which the fourth paper orders archives by durable commits (Dhamankar, Kodavalla and Kathuria, 5.6): commits
//! that the drive has accepted are archived, a crash takes them back, and the log is filled again with other commits of
//! the same numbers.

use super::*;
use tonearm_format::ArchiveKind;

/// The first byte of the entry that ends a commit (docs/format/archive.md).
const COMMIT: u8 = 5;

/// The entries of all commits of the chain after commit `after`, and the last commit.
fn entries_after(objects: &Objects, after: Lsn) -> (Vec<u8>, Lsn) {
    with_bucket(objects, async move |bucket| {
        let catalog = Catalog::load(&bucket).await.unwrap();
        let (mut entries, mut last) = (Vec::new(), after);
        for object in catalog.objects(&bucket).await.unwrap().0 {
            let number = object.name.strip_prefix("chain/");
            let number = number.and_then(|number| u64::from_str_radix(number, 16).ok());
            let Some(header) = number.map(|number| catalog.links[&number]) else {
                continue;
            };
            if header.kind != ArchiveKind::Range || header.last <= after.0 {
                continue;
            }
            let payload = object.fetch(&bucket).await.unwrap();
            let end = [&[COMMIT][..], &after.0.to_le_bytes()].concat();
            let known = payload.windows(end.len()).position(|part| part == end);
            entries.extend(&payload[known.map_or(0, |at| at + end.len())..]);
            last = Lsn(header.last);
        }
        (entries, last)
    })
}

/// An archive of commits that were only flushed to the drive's cache restores to states that never were. Ours has none of
/// these commits, and all its states are right.
#[test]
fn archive_of_durable_commits_is_right_after_a_crash() {
    let home = Layout::Overwrite.home(BLOCK as u32, 10);
    let (mut counts, mut crashes, mut wrong) = (Counts::default(), 0, 0);
    for seed in 0..30 {
        let mut image = shape(Layout::Overwrite, 64).create_with_spare(1 << 20);
        let (ours, model) = (Objects::default(), Model::default());
        let one = |number, steps, in_order| Run {
            in_order,
            ..Run::of(5000 + 10 * seed + number, steps)
        };
        let first = one(0, 30 + seed, false);
        let (cut, accepted) = run_with_accepted(&image, &ours, &model, first, &mut counts);
        let durable = model.1.get();
        let archived = restorable(&ours).last().map_or(Lsn(0), |part| part.last);
        assert!(archived <= durable, "{archived} is not durable");

        // The flushed rule sees what the drive has accepted. It makes a backup of that.
        let (theirs, all) = (Objects::default(), Model(model.0.clone(), Rc::default()));
        let all = Model(Rc::new(RefCell::new(all.0.borrow().clone())), all.1);
        let whole = StoreImage {
            disks: accepted,
            ..image.clone()
        };
        run_with_accepted(&whole, &theirs, &all, one(1, 0, true), &mut counts);
        let flushed = restorable(&theirs).last().map_or(Lsn(0), |part| part.last);

        // The crash takes commits back, and the log is filled again.
        image.disks = cut;
        run(&image, &ours, &model, one(2, 30, true), &mut counts);
        check(&ours, &model, &mut counts, home);
        let (entries, last) = entries_after(&ours, flushed);
        if flushed <= durable || last <= flushed {
            continue;
        }
        crashes += 1;
        let restored = restore_with(
            &theirs,
            Target::Latest,
            home,
            During {
                more: Some((entries, last)),
                ..During::default()
            },
        );
        let (_, found) = restored.unwrap();
        wrong += usize::from(!model.0.borrow()[&last.0].contains(&found));
    }
    println!("{counts:?}, {wrong} of {crashes} wrong");
    assert!(crashes >= 20 && wrong >= 10, "{wrong} of {crashes}");
}
