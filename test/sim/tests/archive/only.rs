//! One volume or file is taken out of an archive, at every commit, and compared with what it was then.

use super::{BLOCK, DELAY, Objects, START_MS, SimBucket, clock, open_options, shape};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;
use tonearm_archive::{
    Archiver, ArchiverOptions, Catalog, EngineSource, Extract, Plan, TABLE, Target, find, volumes,
};
use tonearm_base::{Lsn, Nanos, crc32c};
use tonearm_disk::Disk;
use tonearm_format::Extent;
use tonearm_rt::Rt;
use tonearm_sim::archives::Step;
use tonearm_sim::{Layout, StoreImage, contents};
use tonearm_world::{SimOptions, SimWorld};

const FILES_MAX: usize = 6;
const FILE_BYTES_MAX: u64 = 20 * BLOCK;

/// Size and CRC-32C of each volume and file, by name.
type State = BTreeMap<String, (usize, u32)>;

async fn state(disk: &Disk) -> State {
    let mut state = State::new();
    for info in disk.volumes().into_iter().chain(disk.files()) {
        let bytes = contents(&disk.volume(&info.name).unwrap()).await.unwrap();
        state.insert(info.name, (bytes.len(), crc32c(&bytes)));
    }
    state
}

/// Makes, changes, cuts off, renames or deletes files. Blocks go from one file to another.
async fn change(disk: &Disk, random: &mut ChaCha8Rng, serial: u64) {
    let names: Vec<String> = disk.files().into_iter().map(|file| file.name).collect();
    let mut pick = |count: usize| random.next_u32() as usize % count;
    let kind = match names.len() {
        0 => 0,
        count if count >= FILES_MAX => 1 + pick(7),
        _ => pick(8),
    };
    let one = names.get(pick(names.len().max(1))).cloned();
    let other = names.get(pick(names.len().max(1))).cloned();
    let mut unit = disk.begin();
    let name = match kind {
        0 => {
            let name = format!("file{serial}");
            let uuid = u128::from(serial).to_le_bytes();
            unit.create_file(&name, uuid, serial).await.unwrap();
            name
        }
        _ => one.unwrap(),
    };
    let volume = unit.volume(&name).unwrap();
    let bytes = |random: &mut ChaCha8Rng, most: u32| {
        let mut bytes = vec![0; 1 + (random.next_u32() % most) as usize];
        random.fill_bytes(&mut bytes);
        bytes
    };
    match kind {
        0..4 => {
            let at = random.next_u64() % FILE_BYTES_MAX / 2;
            let content = bytes(random, FILE_BYTES_MAX as u32 / 2);
            unit.write(&volume, at, &content).await.unwrap();
        }
        4 => {
            let size = random.next_u64() % FILE_BYTES_MAX;
            unit.resize(&volume, size).await.unwrap();
        }
        5 => unit.delete_volume(&name).await.unwrap(),
        6 => {
            let to = format!("{name}.{serial}");
            unit.rename_volume(&name, &to).await.unwrap();
        }
        _ => {
            // A few bytes in two files at once.
            let second = unit.volume(&other.unwrap()).unwrap();
            for volume in [volume, second] {
                let at = random.next_u64() % BLOCK;
                let content = bytes(random, 30);
                unit.write(&volume, at, &content).await.unwrap();
            }
        }
    }
    unit.end().await.unwrap();
}

/// The states of a store by commit, and its archive.
fn archived(seed: u64) -> (Objects, BTreeMap<u64, State>) {
    let layout = [Layout::Overwrite, Layout::Hylog][seed as usize % 2];
    let image = shape(layout, 64).create_with_spare(2 << 20);
    let objects = Objects::default();
    let shared = objects.clone();
    let (states, _) = image.run(seed, move |_, rt: Rt, image: StoreImage| async move {
        let disk = image.open_disk(&rt, open_options()).await.unwrap();
        let engine = disk.engine().clone();
        let source = EngineSource::new(&engine, &rt, clock(&rt, START_MS));
        let (own, clock) = (source.clone(), rt.clone());
        let archiver = rt.spawn(async move {
            let bucket = SimBucket::sound(&clock, &shared);
            let options = ArchiverOptions {
                interval: Nanos::from_millis(20),
                object_bytes: [1, 100 << 10][seed as usize / 2 % 2],
                ..ArchiverOptions::default()
            };
            Archiver::new(&bucket, &own, options).run().await
        });
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut states = BTreeMap::new();
        for serial in 0..120 {
            match random.next_u32().is_multiple_of(3) {
                true => Step::choose(&mut random).make(&disk).await.unwrap(),
                false => change(&disk, &mut random, serial).await,
            }
            states.insert(engine.marks().appended.0, state(&disk).await);
            rt.sleep(Nanos(random.next_u64() % (4 * DELAY))).await;
        }
        disk.flush().await.unwrap();
        source.end();
        archiver.await.unwrap();
        states
    });
    (objects, states)
}

/// Makes the blocks of `extents`, and counts the objects that it needs.
async fn extract(bucket: &SimBucket, plan: &Plan, extents: &[Extent]) -> (Vec<u8>, usize) {
    let extract = Extract::new(plan, extents);
    let mut content = vec![0; extract.size_bytes() as usize];
    let objects = plan.objects_of(extents);
    for object in &objects {
        let payload = object.fetch(bucket).await.unwrap();
        let applied = extract.apply(&payload, "sim://archive", &object.name, &mut content);
        applied.unwrap();
    }
    (content, objects.len())
}

#[test]
fn a_volume_or_file_is_taken_out_as_it_was_at_any_commit() {
    let (mut commits, mut made, mut left_out) = (0, 0, 0);
    for seed in 0..8 {
        let (objects, states) = archived(seed);
        let world = SimWorld::new(SimOptions::default(), Vec::new());
        let rt = Rt::new(world.driver());
        let own = rt.clone();
        let counts = rt.block_on(async move {
            let bucket = SimBucket::sound(&own, &objects);
            let catalog = Catalog::load(&bucket).await.unwrap();
            let (mut commits, mut made, mut left_out) = (0, 0, 0);
            for (lsn, state) in states {
                let target = Target::Lsn(Lsn(lsn));
                let Ok(plan) = Plan::make(&bucket, &catalog, &target).await else {
                    // Before the first base, or a commit whose blocks had changed when it was archived.
                    continue;
                };
                commits += 1;
                let (table, needed) = extract(&bucket, &plan, &[TABLE]).await;
                left_out += plan.objects.len() - needed;
                let entries = volumes(&plan, "sim://archive", &table).unwrap();
                let names: Vec<&String> = entries.iter().map(|entry| &entry.name).collect();
                assert_eq!(names, state.keys().collect::<Vec<_>>(), "commit {lsn}");
                for entry in &entries {
                    let (mut bytes, needed) = extract(&bucket, &plan, &entry.extents).await;
                    bytes.truncate(entry.size_bytes as usize);
                    let found = (bytes.len(), crc32c(&bytes));
                    assert_eq!(found, state[&entry.name], "{} at {lsn}", entry.name);
                    made += 1;
                    left_out += plan.objects.len() - needed;
                }
                let none = find(&plan, "sim://archive", &entries, "nothing");
                let text = none.unwrap_err().to_string();
                assert!(text.contains("no volume or file nothing; there "), "{text}");
                assert!(text.contains("main"), "{text}");
            }
            (commits, made, left_out)
        });
        commits += counts.0;
        made += counts.1;
        left_out += counts.2;
    }
    println!("{commits} commits, {made} volumes and files; {left_out} objects were not needed");
    assert!(commits > 500 && made > 2000 && left_out > 2000);
}
