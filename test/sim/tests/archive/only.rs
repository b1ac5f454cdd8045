//! One volume or file is taken out of an archive, at every commit, and compared with what it was then. So are the files of the
//! file system, whose places are in the tree of that commit.

use super::{BLOCK, DELAY, Objects, START_MS, SimBucket, archive, shape, with_bucket};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tonearm_archive::{ArchiverOptions, Catalog, Extract, Plan, TABLE, Target, VolumeTable};
use tonearm_base::{Lsn, Nanos, crc32c};
use tonearm_disk::{Aru, Disk, Volume};
use tonearm_fs::{Fs, OfflineError, OfflineTree, ROOT_INO, path_text};
use tonearm_sim::archives::Step;
use tonearm_sim::trees::{self, Node, Tree};
use tonearm_sim::{Layout, contents};

const VOLUMES_MAX: usize = 6;
const VOLUME_BYTES_MAX: u64 = 20 * BLOCK;

/// The step before which the file system is made.
const FIRST_FILE: u64 = 10;
/// The address of the archive in errors.
const URL: &str = "sim://archive";

/// Size and CRC-32C.
type Content = (usize, u32);

/// What a store has.
#[derive(Clone)]
struct State {
    /// Volumes, by name.
    volumes: BTreeMap<String, Content>,
    /// Files of the file system, by path.
    files: BTreeMap<Vec<u8>, Content>,
    /// A path of the file system that is no regular file.
    others: Vec<Vec<u8>>,
}

fn content(bytes: &[u8]) -> Content {
    (bytes.len(), crc32c(bytes))
}

async fn state(disk: &Disk, tree: &Tree) -> State {
    let mut state = State {
        volumes: BTreeMap::new(),
        files: BTreeMap::new(),
        others: Vec::new(),
    };
    for info in disk.volumes() {
        let bytes = contents(&disk.volume(&info.name).unwrap()).await.unwrap();
        state.volumes.insert(info.name, content(&bytes));
    }
    enter(&mut state, tree, ROOT_INO, b"");
    state
}

/// Adds the files of a directory.
fn enter(state: &mut State, tree: &Tree, dir: u64, above: &[u8]) {
    let Node::Directory(names, _) = &tree.files[&dir].node else {
        panic!("{dir} is no directory");
    };
    for (name, ino) in names {
        let path = [above, name].concat();
        match &tree.files[ino].node {
            Node::File(bytes) => {
                state.files.insert(path, content(bytes));
            }
            Node::Directory(..) => {
                state.others.push(path.clone());
                enter(state, tree, *ino, &[&path[..], b"/"].concat());
            }
            _ => state.others.push(path),
        }
    }
}

/// Changes the file system.
async fn change_tree(fs: &Fs, tree: &mut Tree, random: &mut ChaCha8Rng) {
    let step = trees::Step::choose(random, tree);
    let expected = step.apply(tree);
    assert_eq!(step.make(fs, tree).await, expected, "{step:?}");
}

/// Makes, changes, cuts off, renames or deletes volumes. Blocks go from one volume to another.
async fn change(disk: &Disk, random: &mut ChaCha8Rng, serial: u64) {
    let names = disk.volumes().into_iter().map(|volume| volume.name);
    let names: Vec<String> = names.filter(|name| name != "main").collect();
    let mut pick = |count: usize| random.next_u32() as usize % count;
    let kind = match names.len() {
        0 => 0,
        count if count >= VOLUMES_MAX => 1 + pick(7),
        _ => pick(8),
    };
    let one = names.get(pick(names.len().max(1))).cloned();
    let other = names.get(pick(names.len().max(1))).cloned();
    let mut unit = disk.begin();
    let name = match kind {
        0 => {
            let name = format!("volume{serial}");
            let uuid = u128::from(serial).to_le_bytes();
            let made = unit.create_volume(&name, BLOCK, uuid, serial).await;
            made.unwrap();
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
            let at = random.next_u64() % VOLUME_BYTES_MAX / 2;
            let content = bytes(random, VOLUME_BYTES_MAX as u32 / 2);
            write(&mut unit, &volume, at, &content).await;
        }
        4 => {
            let size = 1 + random.next_u64() % VOLUME_BYTES_MAX;
            unit.resize(&volume, size).await.unwrap();
        }
        5 => unit.delete_volume(&name).await.unwrap(),
        6 => {
            let to = format!("{name}.{serial}");
            unit.rename_volume(&name, &to).await.unwrap();
        }
        _ => {
            // A few bytes in two volumes at once.
            let second = unit.volume(&other.unwrap()).unwrap();
            for volume in [volume, second] {
                let at = random.next_u64() % BLOCK;
                let content = bytes(random, 30);
                write(&mut unit, &volume, at, &content).await;
            }
        }
    }
    unit.end().await.unwrap();
}

/// Writes to a volume, which is made longer where it is too short.
async fn write(unit: &mut Aru, volume: &Volume, at: u64, content: &[u8]) {
    let end = at + content.len() as u64;
    if end > unit.size_bytes(volume) {
        unit.resize(volume, end).await.unwrap();
    }
    unit.write(volume, at, content).await.unwrap();
}

/// The states of a store by commit, and its archive.
fn archived(seed: u64) -> (Objects, BTreeMap<u64, State>) {
    let layout = [Layout::Overwrite, Layout::Hylog][seed as usize % 2];
    let image = shape(layout, 64).create_with_spare((2 << 20) + trees::SPACE);
    let objects = Objects::default();
    let shared = objects.clone();
    let states = image.with_disk(seed, async move |_, rt, disk| {
        let engine = disk.engine().clone();
        let options = ArchiverOptions {
            interval: Nanos::from_millis(20),
            object_bytes: [1, 100 << 10][seed as usize / 2 % 2],
            ..ArchiverOptions::default()
        };
        let bucket = SimBucket::sound(&rt, &shared);
        let (source, archiver) = archive(&disk, &rt, START_MS, bucket, options);
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (mut states, mut tree, mut files) = (BTreeMap::new(), Tree::default(), None);
        for serial in 0..160 {
            if serial == FIRST_FILE {
                let before = engine.marks().appended.0;
                files = Some(Fs::open(&disk, &rt, trees::time(&rt)).await.unwrap());
                // The space of the tree is there before the tree.
                let state = state(&disk, &tree).await;
                let made = before + 1..engine.marks().appended.0;
                states.extend(made.map(|lsn| (lsn, state.clone())));
            }
            match (random.next_u32() % 6, &files) {
                (0 | 1, _) => Step::choose(&mut random).make(&disk).await.unwrap(),
                (2..5, Some(fs)) => change_tree(fs, &mut tree, &mut random).await,
                _ => change(&disk, &mut random, serial).await,
            }
            states.insert(engine.marks().appended.0, state(&disk, &tree).await);
            rt.sleep(Nanos(random.next_u64() % (4 * DELAY))).await;
        }
        disk.flush().await.unwrap();
        source.end();
        archiver.await.unwrap();
        states
    });
    (objects, states)
}

/// An archive that is read.
struct Reader<'a> {
    bucket: &'a SimBucket,
    payloads: RefCell<BTreeMap<String, Rc<Vec<u8>>>>,
}

impl Reader<'_> {
    /// Makes blocks, and counts the objects that it does not need.
    async fn make(&self, plan: &Plan, extract: &Extract) -> (Vec<u8>, usize) {
        let mut made = vec![0; extract.size_bytes() as usize];
        let objects = plan.objects_of(extract);
        for object in &objects {
            let known = self.payloads.borrow().get(&object.name).cloned();
            let payload = match known {
                Some(payload) => payload,
                None => Rc::new(object.fetch(self.bucket).await.unwrap()),
            };
            let applied = extract.apply(&payload, URL, &object.name, &mut made);
            applied.unwrap();
            let mut payloads = self.payloads.borrow_mut();
            payloads.insert(object.name.clone(), payload);
        }
        (made, plan.objects.len() - objects.len())
    }
}

/// What was made and compared.
#[derive(Default, Debug)]
struct Counts {
    commits: usize,
    volumes: usize,
    files: usize,
    holes: usize,
    /// Trees whose space is there, and nothing in it yet.
    blank: usize,
    /// Objects that were not needed.
    left_out: usize,
}

/// Takes each volume and file of a commit out, and compares.
async fn compare(reader: &Reader<'_>, plan: &Plan, state: &State, counts: &mut Counts) {
    let at = plan.lsn;
    let block = plan.shape.block_size as usize;
    let (table, left_out) = reader.make(plan, &Extract::new(plan, &[TABLE])).await;
    counts.left_out += left_out;
    let table = VolumeTable::decode(plan, URL, &table).unwrap();
    let names: Vec<&String> = table.volumes.iter().map(|entry| &entry.name).collect();
    assert_eq!(
        names,
        state.volumes.keys().collect::<Vec<_>>(),
        "commit {at}"
    );
    for entry in &table.volumes {
        let extract = Extract::new(plan, &entry.extents);
        let (mut bytes, left_out) = reader.make(plan, &extract).await;
        bytes.truncate(entry.size_bytes as usize);
        assert_eq!(
            content(&bytes),
            state.volumes[&entry.name],
            "{} at {at}",
            entry.name
        );
        counts.volumes += 1;
        counts.left_out += left_out;
    }
    let Some(entry) = &table.tree else {
        assert!(state.files.is_empty(), "commit {at} has no tree");
        return;
    };
    let (pages, left_out) = reader.make(plan, &Extract::new(plan, &entry.extents)).await;
    counts.left_out += left_out;
    let read = |page: u64, bytes: &mut [u8]| {
        bytes.copy_from_slice(&pages[page as usize * block..][..block]);
        Ok(())
    };
    let tree = OfflineTree::open(block, entry.size_bytes / block as u64, read).unwrap();
    let Some(mut tree) = tree else {
        assert!(state.files.is_empty(), "commit {at} has a blank tree");
        counts.blank += 1;
        return;
    };
    let mut sizes = Vec::new();
    let listed = tree.files(|path, inode| {
        sizes.push((path.to_vec(), inode.size as usize));
        Ok::<_, OfflineError>(())
    });
    listed.unwrap();
    let files = state.files.iter();
    let expected: Vec<(Vec<u8>, usize)> = files
        .map(|(path, (size, _))| (path.clone(), *size))
        .collect();
    assert_eq!(sizes, expected, "commit {at}");
    for (path, expected) in &state.files {
        let file = tree.find(&[b"/", &path[..]].concat()).unwrap();
        let mut places = Vec::new();
        let end = file.inode.size.div_ceil(block as u64);
        let mut next = 0;
        let found = tree.extents(file.ino, end, |first, extent| {
            counts.holes += usize::from(first > next);
            next = first + u64::from(extent.count);
            places.extend(table.places(plan, URL, first, extent).unwrap());
        });
        found.unwrap();
        let extract = Extract::at_places(plan, URL, places).unwrap();
        let (mut bytes, left_out) = reader.make(plan, &extract).await;
        bytes.resize(file.inode.size as usize, 0);
        assert_eq!(content(&bytes), *expected, "{} at {at}", path_text(path));
        counts.files += 1;
        counts.left_out += left_out;
    }
    for path in &state.others {
        assert!(tree.find(path).is_err(), "{} at {at}", path_text(path));
    }
}

#[test]
fn a_volume_or_file_is_taken_out_as_it_was_at_any_commit() {
    let mut counts = Counts::default();
    for seed in 0..16 {
        let (objects, states) = archived(seed);
        let mut so_far = std::mem::take(&mut counts);
        counts = with_bucket(&objects, async move |bucket| {
            let catalog = Catalog::load(&bucket).await.unwrap();
            let reader = Reader {
                bucket: &bucket,
                payloads: RefCell::default(),
            };
            for (lsn, state) in states {
                let target = Target::Lsn(Lsn(lsn));
                let Ok(plan) = Plan::make(&bucket, &catalog, &target).await else {
                    // Before the first base, or a commit whose blocks had changed when it was archived.
                    continue;
                };
                so_far.commits += 1;
                compare(&reader, &plan, &state, &mut so_far).await;
            }
            so_far
        });
    }
    println!("{counts:?}");
    assert!(counts.commits > 1000 && counts.volumes > 4000 && counts.left_out > 4000);
    assert!(counts.files > 4000 && counts.holes > 100 && counts.blank > 0);
}
