//! Writers that are stalled or lied to. One writer continues a chain, whatever numbers of it have become free.

use super::merging::{Gate, is_link};
use super::*;
use std::collections::BTreeSet;
use tonearm_archive::MarkRequest;
use tonearm_disk::Disk;
use tonearm_format::{ArchiveHeader, ArchiveKind};
use tonearm_rt::JoinHandle;

/// An archiver that runs.
struct Running {
    source: EngineSource,
    run: JoinHandle<Result<(), ArchiveError>>,
}

fn start(disk: &Disk, rt: &Rt, bucket: Gate, keep_ms: u64) -> Running {
    let options = ArchiverOptions {
        interval: Nanos::from_millis(2),
        base_bytes_per_second: 0,
        keep_ms,
        ..ArchiverOptions::default()
    };
    let (source, run) = archive(disk, rt, START_MS, bucket, options);
    Running { source, run }
}

fn gate(rt: &Rt, objects: &Objects) -> Gate {
    Gate::new(SimBucket {
        delay: 200_000,
        ..SimBucket::sound(rt, objects)
    })
}

/// Writes until `is_done`, each commit durable.
async fn write_until(disk: &Disk, rt: &Rt, random: &mut ChaCha8Rng, is_done: impl Fn() -> bool) {
    for _ in 0..2000 {
        if is_done() {
            return;
        }
        Step::choose(random).make(disk).await.unwrap();
        disk.flush().await.unwrap();
        rt.sleep(Nanos::from_millis(3)).await;
    }
    panic!("it takes too long");
}

fn numbers(objects: &Objects) -> BTreeSet<u64> {
    let objects = objects.borrow();
    let names = objects.keys().filter(|name| is_link(name));
    names
        .map(|name| u64::from_str_radix(&name[6..], 16).unwrap())
        .collect()
}

/// A writer is stalled before a put. Another one takes over, and what it puts at that number is too old to be kept. The put
/// succeeds, and the first writer ends all the same.
#[test]
fn stalled_writer_ends_at_a_number_that_is_free_again() {
    let image = shape(Layout::Overwrite, 64).create_with_spare(1 << 20);
    image.with_disk(21, async |_, rt, disk| {
        let (objects, mut random) = (Objects::default(), ChaCha8Rng::seed_from_u64(21));
        let mut old = gate(&rt, &objects);
        old.holds = Box::new(|kind, name, _| {
            kind == "put" && is_link(name) && name > "chain/0000000000000008"
        });
        let (is_open, is_held) = (old.is_open.clone(), old.is_held.clone());
        let old = start(&disk, &rt, old, 0);
        write_until(&disk, &rt, &mut random, || is_held.get()).await;
        let next = numbers(&objects).last().unwrap() + 1;
        let new = start(&disk, &rt, gate(&rt, &objects), 60);
        let is_freed = || {
            let numbers = numbers(&objects);
            numbers.last() > Some(&next) && !numbers.contains(&next)
        };
        write_until(&disk, &rt, &mut random, is_freed).await;
        is_open.set(true);
        let ended = old.run.await;
        assert!(
            matches!(ended, Err(ArchiveError::Fenced { .. })),
            "{ended:?}"
        );
        assert!(numbers(&objects).contains(&next), "its put has succeeded");
        disk.flush().await.unwrap();
        new.source.end();
        new.run.await.unwrap();
        old.source.end();
    });
}

/// A writer has found the end of the chain, and is stalled before it puts its opening there. The number is free again when it
/// goes on. It finds the end again, and continues the chain there.
#[test]
fn stalled_opening_is_put_again_at_the_end() {
    let image = shape(Layout::Overwrite, 64).create_with_spare(1 << 20);
    image.with_disk(22, async |_, rt, disk| {
        let (objects, mut random) = (Objects::default(), ChaCha8Rng::seed_from_u64(22));
        let first = start(&disk, &rt, gate(&rt, &objects), 60);
        write_until(&disk, &rt, &mut random, || numbers(&objects).len() > 3).await;
        let mut second = gate(&rt, &objects);
        second.holds = Box::new(|kind, name, _| kind == "put" && is_link(name));
        let (is_open, is_held) = (second.is_open.clone(), second.is_held.clone());
        let second = start(&disk, &rt, second, 0);
        while !is_held.get() {
            rt.sleep(Nanos::from_millis(1)).await;
        }
        let end = *numbers(&objects).last().unwrap();
        let is_freed = || {
            let numbers = numbers(&objects);
            (end..end + 4).all(|number| !numbers.contains(&number))
                && numbers.last() > Some(&(end + 8))
        };
        write_until(&disk, &rt, &mut random, is_freed).await;
        is_open.set(true);
        rt.sleep(Nanos::from_millis(200)).await;
        let ended = RefCell::new(None);
        let is_over = || {
            let mut ended = ended.borrow_mut();
            *ended = ended.take().or_else(|| first.run.take());
            ended.is_some()
        };
        write_until(&disk, &rt, &mut random, is_over).await;
        let ended = ended.take().expect("it is over");
        assert!(
            matches!(ended, Err(ArchiveError::Fenced { .. })),
            "{ended:?}"
        );
        disk.flush().await.unwrap();
        second.source.end();
        second.run.await.unwrap();
        assert_eq!(disk.engine().archived(), disk.engine().marks().appended);
        first.source.end();
    });
}

/// Two copies of a store go their own ways, and their last commits are the same.
#[test]
fn copy_with_the_same_last_commit_is_refused() {
    let objects = Objects::default();
    let run = |image: &StoreImage, seed, writes: &'static [(u64, u8)]| {
        let shared = objects.clone();
        image.with_disk(seed, async move |world, rt, disk| {
            let main = disk.volume("main").unwrap();
            for (block, byte) in writes {
                let mut unit = disk.begin();
                unit.write(&main, block * BLOCK, &[*byte; BLOCK as usize])
                    .await
                    .unwrap();
                unit.end().await.unwrap();
            }
            disk.flush().await.unwrap();
            let last = disk.engine().marks().appended;
            let running = start(&disk, &rt, gate(&rt, &shared), 0);
            rt.sleep(Nanos::from_millis(500)).await;
            running.source.end();
            (running.run.await, last, world.crash().images(seed))
        })
    };
    let mut image = shape(Layout::Overwrite, 64).create_with_spare(1 << 20);
    let (ended, _, disks) = run(&image, 1, &[(1, 1), (2, 2)]);
    ended.unwrap();
    image.disks = disks;
    let (ended, own, _) = run(&image, 2, &[(3, 3), (4, 4), (5, 5)]);
    ended.unwrap();
    let (ended, other, _) = run(&image, 3, &[(3, 9), (4, 4), (5, 5)]);
    assert_eq!(own, other);
    assert!(
        matches!(ended, Err(ArchiveError::Diverged { .. })),
        "{ended:?}"
    );
    // The same history goes on.
    let (ended, ..) = run(&image, 4, &[(3, 3), (4, 4), (5, 5)]);
    ended.unwrap();
}

/// A place answers each first put of a name with "exists", and stores nothing.
#[test]
fn put_that_is_falsely_refused_is_repeated() {
    let image = shape(Layout::Overwrite, 64).create_with_spare(1 << 20);
    let objects = Objects::default();
    let shared = objects.clone();
    let content = image.with_disk(23, async move |_, rt, disk| {
        let mut random = ChaCha8Rng::seed_from_u64(23);
        let mut bucket = gate(&rt, &shared);
        bucket.inner.lies = 6;
        let running = start(&disk, &rt, bucket, 0);
        write_until(&disk, &rt, &mut random, || {
            disk.engine().archived() > Lsn(0)
        })
        .await;
        let (sender, result) = std::sync::mpsc::channel();
        running.source.mark(MarkRequest {
            name: "here".into(),
            lsn: disk.engine().marks().durable,
            done: Box::new(move |marked| drop(sender.send(marked))),
        });
        let marked = Cell::new(false);
        let is_marked = || {
            if let Ok(answer) = result.try_recv() {
                answer.unwrap();
                marked.set(true);
            }
            marked.get()
        };
        write_until(&disk, &rt, &mut random, is_marked).await;
        running.source.end();
        running.run.await.unwrap();
        assert_eq!(disk.engine().archived(), disk.engine().marks().appended);
        digest(&contents(&disk.volume("main").unwrap()).await.unwrap())
    });
    let home = Layout::Overwrite.home(BLOCK as u32, 10);
    let (_, found) = restore(&objects, Target::Latest, home).unwrap();
    assert_eq!(found, content);
    restore(&objects, Target::Mark("here".into()), home).unwrap();
}

/// A bucket answers that there is no first base, although it is listed. Neither it nor one of its parts is deleted for that.
#[test]
fn answer_that_an_object_is_absent_deletes_nothing() {
    let image = shape(Layout::Overwrite, 64).create_with_spare(1 << 20);
    image.with_disk(24, async |_, rt, disk| {
        let (objects, mut random) = (Objects::default(), ChaCha8Rng::seed_from_u64(24));
        let bases = || {
            let objects = objects.borrow();
            let links = objects.iter().filter(|(name, _)| is_link(name));
            let links = links.map(|(_, object)| ArchiveHeader::decode(object).unwrap());
            let bases = links.filter(|link| link.kind == ArchiveKind::Base);
            bases.map(|base| base.number).collect::<Vec<u64>>()
        };
        let mut bucket = gate(&rt, &objects);
        let hidden = Rc::new(RefCell::new(None::<String>));
        let own = hidden.clone();
        bucket.hides = Box::new(move |name| own.borrow().as_deref() == Some(name));
        // Old enough for another base, and not for deletion.
        let running = start(&disk, &rt, bucket, 400);
        let is_past = || {
            let bases = bases();
            bases.len() == 1 && numbers(&objects).last() > bases.first()
        };
        write_until(&disk, &rt, &mut random, is_past).await;
        let before: BTreeSet<String> = objects.borrow().keys().cloned().collect();
        *hidden.borrow_mut() = Some(format!("chain/{:016x}", bases()[0]));
        write_until(&disk, &rt, &mut random, || bases().len() == 2).await;
        rt.sleep(Nanos::from_millis(20)).await;
        let after: BTreeSet<String> = objects.borrow().keys().cloned().collect();
        assert_eq!(before.difference(&after).next(), None);
        running.source.end();
        running.run.await.unwrap();
    });
}
