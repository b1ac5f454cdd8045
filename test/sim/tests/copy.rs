//! A store becomes one of another layout: it is copied into a new one, with power cuts at any moment, or gets another
//! placement where it is.

#![allow(clippy::unwrap_used)]

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::cell::RefCell;
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_disk::{Copied, Disk, DiskError, OpenOptions, Placement, UNFINISHED, Volume};
use tonearm_rt::Rt;
use tonearm_sim::{Layout, Shape, StoreImage, contents};
use tonearm_world::{DiskImage, SimOptions, SimWorld};

/// Bytes of the volume of each store.
const MAIN: u64 = 2 << 20;
/// Longest time between two power cuts.
const WAIT_NS: u64 = 150_000;
/// Bytes of a block.
const BLOCK: u64 = 4096;

fn shape(layout: Layout) -> Shape {
    Shape::small(layout, 16, MAIN / BLOCK)
}

fn options() -> OpenOptions {
    OpenOptions {
        memory_bytes: 1 << 20,
        ..OpenOptions::default()
    }
}

/// Runs `work` on the stores of both images, opened in one world.
fn run<T: 'static, F: Future<Output = T> + 'static>(
    images: &[DiskImage],
    seed: u64,
    work: impl FnOnce(SimWorld, Rt, Disk, Disk) -> F + 'static,
) -> (T, Vec<DiskImage>) {
    let options_of_world = SimOptions {
        seed,
        ..SimOptions::default()
    };
    let world = SimWorld::new(options_of_world, images.to_vec());
    let rt = Rt::new(world.driver());
    let sizes: Vec<u64> = images.iter().map(|image| image.size).collect();
    let (own, runtime) = (world.clone(), rt.clone());
    let result = rt.block_on(async move {
        let rt = runtime;
        let mut members = tonearm_sim::members(&rt, sizes.into_iter(), 4096);
        let second = vec![members.remove(1)];
        let mut disks = Vec::new();
        for members in [members, second] {
            let pool = BufPool::new(1 << 20);
            let disk = Disk::open(&rt, &pool, members, options(), |_| {}).await;
            disks.push(disk.unwrap());
        }
        let target = disks.remove(1);
        work(own, rt, disks.remove(0), target).await
    });
    rt.shut_down();
    (result, world.images())
}

/// Volumes with their contents.
async fn all(disk: &Disk) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for info in disk.volumes() {
        let volume = disk.volume(&info.name).unwrap();
        found.push((info.name, contents(&volume).await.unwrap()));
    }
    found
}

async fn write(volume: &Volume, random: &mut ChaCha8Rng, writes: u64) {
    for _ in 0..writes {
        let at = random.next_u64() % (MAIN / BLOCK - 8) * BLOCK;
        if random.next_u32().is_multiple_of(5) {
            volume.trim(at, 3 * BLOCK, false).await.unwrap();
            continue;
        }
        let mut bytes = vec![0; (random.next_u64() % 8 + 1) as usize * BLOCK as usize];
        random.fill_bytes(&mut bytes);
        let data = BufPool::new(0).copy_of(&bytes).share();
        volume.write(at, data, false).await.unwrap();
    }
}

/// A store with two volumes and a list.
async fn fill(disk: &Disk, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    write(&disk.volume("main").unwrap(), &mut random, 120).await;
    let mut unit = disk.begin();
    let file = unit.create_volume("accounts", 9000, [3; 16], 0);
    let file = file.await.unwrap();
    unit.write(&file, 0, &[7; 9000]).await.unwrap();
    let list = unit.new_list().await.unwrap();
    let block = unit.new_block(list, None).await.unwrap();
    unit.write_block(block, &[9; BLOCK as usize]).await.unwrap();
    unit.end().await.unwrap();
    disk.volume("main")
        .unwrap()
        .trim(MAIN / 2, MAIN / 8, true)
        .await
        .unwrap();
}

/// The images of a filled store of layout `from` and of an empty one of layout `to`.
fn stores(from: Layout, to: Layout, seed: u64) -> Vec<DiskImage> {
    let of = |layout| shape(layout).create_with_spare(4 << 20).disks.remove(0);
    let work = move |_, _, source: Disk, target: Disk| async move {
        fill(&source, seed).await;
        target.delete_volume("main").await.unwrap();
        source.close().await.unwrap();
        target.close().await.unwrap();
    };
    run(&[of(from), of(to)], seed, work).1
}

async fn copy(source: &Disk, target: &Disk) -> Result<Copied, DiskError> {
    source.copy_to(target, [8; 16], 0, |_, _| {}).await
}

#[test]
fn interrupted_copy_resumes_after_power_cuts() {
    let pairs = [
        (Layout::Overwrite, Layout::Hylog),
        (Layout::Hylog, Layout::Overwrite),
        (Layout::Segments, Layout::Wolf),
    ];
    let (mut unfinished, mut went_on) = (0, 0);
    for (number, (from, to)) in pairs.into_iter().enumerate() {
        let seed = number as u64;
        let stores = stores(from, to, seed);
        let work = move |world: SimWorld, rt: Rt, source: Disk, target: Disk| async move {
            let crashes = Rc::new(RefCell::new(Vec::new()));
            let (noted, runtime) = (crashes.clone(), rt.clone());
            let watch = rt.spawn(async move {
                let mut random = ChaCha8Rng::seed_from_u64(seed);
                loop {
                    runtime.sleep(Nanos(random.next_u64() % WAIT_NS)).await;
                    noted.borrow_mut().push(world.crash());
                }
            });
            let copied = copy(&source, &target).await.unwrap();
            drop(watch);
            let wanted = all(&source).await;
            source.close().await.unwrap();
            target.close().await.unwrap();
            (copied, wanted, crashes.take())
        };
        let ((copied, wanted, crashes), whole) = run(&stores, seed, work);
        assert!(copied.blocks > 100 && copied.same == 0, "{copied:?}");
        check(&whole, &wanted);
        for (cut, crash) in (1..).zip(crashes) {
            let work = move |_, _, source: Disk, target: Disk| async move {
                let names: Vec<String> = target.volumes().into_iter().map(|v| v.name).collect();
                let is_unfinished = names.is_empty() || names == [UNFINISHED];
                let mut same = 0;
                if is_unfinished {
                    // The source may change in between.
                    let mut random = ChaCha8Rng::seed_from_u64(cut);
                    write(&source.volume("main").unwrap(), &mut random, 3).await;
                    same = copy(&source, &target).await.unwrap().same;
                } else {
                    assert_eq!(names, ["accounts", "main"]);
                }
                let wanted = all(&source).await;
                source.close().await.unwrap();
                target.close().await.unwrap();
                (is_unfinished, same, wanted)
            };
            let ((is_unfinished, same, wanted), whole) = run(&crash.images(cut), cut, work);
            check(&whole, &wanted);
            unfinished += u64::from(is_unfinished);
            went_on += u64::from(same > 0);
        }
    }
    println!("{unfinished} copies were unfinished, {went_on} had blocks already");
    assert!(unfinished > 60 && went_on > 30, "{unfinished}, {went_on}");
}

/// The second store has `wanted`, and its free space is zeroes.
fn check(images: &[DiskImage], wanted: &[(String, Vec<u8>)]) {
    let wanted = wanted.to_vec();
    let work = move |_, _, _, target: Disk| async move {
        assert!(all(&target).await == wanted, "other contents");
        let lists = target.check_lists().await.unwrap();
        assert_eq!((lists.lists, lists.blocks), (1, 1), "{lists:?}");
        let free = target.free_bytes();
        target
            .create_volume("rest", free, [5; 16], 0)
            .await
            .unwrap();
        let rest = contents(&target.volume("rest").unwrap()).await.unwrap();
        assert!(rest.iter().all(|byte| *byte == 0), "free space has content");
    };
    run(images, 0, work);
}

#[test]
fn a_store_in_use_or_of_another_shape_takes_no_copy() {
    let of = |shape: Shape| shape.create_with_spare(1 << 20).disks.remove(0);
    let own = shape(Layout::Overwrite);
    let refused = |target: Shape| {
        let work = |_, _, source: Disk, target: Disk| async move {
            let refused = copy(&source, &target).await.unwrap_err().to_string();
            assert_eq!(target.volumes().len(), 1, "nothing has changed");
            refused
        };
        run(&[of(own), of(target)], 0, work).0
    };
    let cases = [
        (own, "it has \"main\", and a copy would overwrite it"),
        (Shape { blocks: 400, ..own }, "blocks, the source"),
        (
            Shape {
                block_size: 8192,
                ..own
            },
            "its blocks have 8192 bytes, those of the source 4096",
        ),
    ];
    for (target, why) in cases {
        let text = refused(target);
        assert!(text.contains(why), "{why}: {text}");
    }
}

/// All placements have one format: each takes over what the others have left, also after a power cut.
#[test]
fn a_store_with_segments_gets_another_placement_where_it_is() {
    let placements = [Placement::Hylog, Placement::Append, Placement::Wolf];
    for seed in 0..12 {
        let mut image = shape(Layout::Hylog).create();
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut wanted = vec![0; MAIN as usize];
        for step in 0..6 {
            let placement = placements[(random.next_u32() % 3) as usize];
            let own = random.next_u64();
            let (known, cut) = (wanted.clone(), random.next_u64());
            let ((bytes, crash), _) =
                image.run(own, move |world, rt, image: StoreImage| async move {
                    let options = OpenOptions {
                        placement: Some(placement),
                        ..options()
                    };
                    let disk = image.open_disk(&rt, options).await.unwrap();
                    let main = disk.volume("main").unwrap();
                    assert!(contents(&main).await.unwrap() == known, "step {step}");
                    write(&main, &mut ChaCha8Rng::seed_from_u64(own), 100).await;
                    disk.engine().flush().await.unwrap();
                    let bytes = contents(&main).await.unwrap();
                    (bytes, world.crash())
                });
            (wanted, image.disks) = (bytes, crash.images(cut));
        }
    }
    let image = shape(Layout::Overwrite).create();
    image.run(0, |_, rt, image| async move {
        let options = OpenOptions {
            placement: Some(Placement::Wolf),
            ..options()
        };
        let refused = image
            .open_disk(&rt, options)
            .await
            .err()
            .unwrap()
            .to_string();
        assert!(
            refused.contains("the layout overwrite has no segments"),
            "{refused}"
        );
    });
}
