//! A session's cache returns the committed state, also after changes by another session, a unit, or the disk itself.

use crate::Jobs;
use crate::Place;
use crate::files::{CREATE, content};
use proptest::prelude::*;
use std::collections::BTreeMap;
use tonearm_fs::SetAttr;
use tonearm_store::Store;
use tonearm_store::files::{AruId, FileId, Files, Level, LocalFiles, Open};

const NAMES: [&str; 3] = ["a", "b", "c"];
/// Offset and length of SQLite's change counter.
const COUNTER: (u64, usize) = (24, 16);

#[derive(Clone, Debug)]
enum Step {
    /// A write of so many bytes, without a unit.
    Write(usize, u64, usize),
    /// Writes in one unit, which ends or not.
    Unit(Vec<(usize, u64, usize)>, bool),
    /// A write of a unit of the first session, during which the second session looks.
    Truncate(usize, u64),
    /// A truncation in the middle of a unit, between its writes.
    TruncateInUnit(usize, u64, u64),
    Delete(usize),
    Rename(usize, usize),
    /// A write by the file system, without a session.
    Beside(usize, u64, usize),
    Resize(usize, u64),
    /// Enough for the unit not to be kept back as a whole.
    Large(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let file = 0..NAMES.len();
    let offset = prop_oneof![Just(0u64), Just(24), 0..60u64, 0..9000u64];
    let len = prop_oneof![Just(1usize), Just(16), Just(4096), 1..100usize];
    let write = (file.clone(), offset.clone(), len);
    let size = prop_oneof![0..60u64, 0..9000u64];
    prop_oneof![
        4 => write.clone().prop_map(|(f, o, l)| Step::Write(f, o, l)),
        8 => (prop::collection::vec(write.clone(), 1..5), any::<bool>()).prop_map(|(w, e)| Step::Unit(w, e)),
        2 => (file.clone(), size.clone()).prop_map(|(f, s)| Step::Truncate(f, s)),
        2 => (file.clone(), size.clone(), offset).prop_map(|(f, s, o)| Step::TruncateInUnit(f, s, o)),
        1 => file.clone().prop_map(Step::Delete),
        1 => (file.clone(), file.clone()).prop_map(|(f, t)| Step::Rename(f, t)),
        3 => write.prop_map(|(f, o, l)| Step::Beside(f, o, l)),
        1 => (file.clone(), 1..9000u64).prop_map(|(f, s)| Step::Resize(f, s)),
        1 => file.prop_map(Step::Large),
    ]
}

/// The committed content, by name.
type Model = BTreeMap<&'static str, Vec<u8>>;

fn put(content: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let end = offset as usize + bytes.len();
    content.resize(content.len().max(end), 0);
    content[offset as usize..end].copy_from_slice(bytes);
}

struct World {
    store: Store,
    sessions: [LocalFiles; 2],
    /// Open in each session.
    open: [BTreeMap<&'static str, FileId>; 2],
    model: Model,
    next: u8,
}

impl World {
    fn new(place: &Place) -> Self {
        let store = place.open();
        let sessions = [store.files().unwrap(), store.files().unwrap()];
        Self {
            store,
            sessions,
            open: Default::default(),
            model: Model::new(),
            next: 1,
        }
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        self.next = self.next % 250 + 1;
        vec![self.next; len]
    }

    /// The file in a session, made if there is none.
    fn file(&mut self, session: usize, name: &'static str) -> FileId {
        let files = &self.sessions[session];
        self.model.entry(name).or_default();
        *self.open[session]
            .entry(name)
            .or_insert_with(|| files.open(name, CREATE).unwrap())
    }

    fn write(
        &mut self,
        session: usize,
        aru: Option<AruId>,
        (file, offset, len): (usize, u64, usize),
    ) {
        let (id, bytes) = (self.file(session, NAMES[file]), self.bytes(len));
        self.sessions[session]
            .write(id, aru, offset, &bytes)
            .unwrap();
        put(self.model.get_mut(NAMES[file]).unwrap(), offset, &bytes);
    }

    fn forget(&mut self, name: &'static str) {
        for (session, open) in self.open.iter_mut().enumerate() {
            if let Some(id) = open.remove(name) {
                self.sessions[session].close(id);
            }
        }
        self.model.remove(name);
    }

    fn run(&mut self, step: Step, session: usize) {
        match step {
            Step::Write(file, offset, len) => self.write(session, None, (file, offset, len)),
            Step::Unit(writes, ends) => {
                for (file, ..) in &writes {
                    self.file(session, NAMES[*file]);
                }
                let before = self.model.clone();
                let aru = self.sessions[session].begin().unwrap();
                for write in writes {
                    self.write(session, Some(aru), write);
                }
                // Only this unit sees it.
                self.check_session(session, Some(aru));
                let after = std::mem::replace(&mut self.model, before);
                self.check();
                // Again, with all that is known now.
                let before = std::mem::replace(&mut self.model, after);
                self.check_session(session, Some(aru));
                let after = std::mem::replace(&mut self.model, before);
                if ends {
                    self.sessions[session].end(aru, false).unwrap();
                    self.model = after;
                } else {
                    self.sessions[session].abort(aru)
                }
            }
            Step::Truncate(file, size) => {
                let id = self.file(session, NAMES[file]);
                self.sessions[session].truncate(id, None, size).unwrap();
                self.model
                    .get_mut(NAMES[file])
                    .unwrap()
                    .resize(size as usize, 0);
            }
            Step::TruncateInUnit(file, size, offset) => {
                let id = self.file(session, NAMES[file]);
                let files = &self.sessions[session];
                let aru = files.begin().unwrap();
                files.write(id, Some(aru), 0, &[255; 64]).unwrap();
                files.truncate(id, Some(aru), size).unwrap();
                files.write(id, Some(aru), offset, &[254; 20]).unwrap();
                files.end(aru, false).unwrap();
                let model = self.model.get_mut(NAMES[file]).unwrap();
                put(model, 0, &[255; 64]);
                model.resize(size as usize, 0);
                put(model, offset, &[254; 20]);
            }
            Step::Delete(file) => {
                if self.model.contains_key(NAMES[file]) {
                    self.sessions[session].delete(NAMES[file]).unwrap();
                    self.forget(NAMES[file]);
                }
            }
            Step::Rename(from, to) => {
                let (from, to) = (NAMES[from], NAMES[to]);
                if self.model.contains_key(from) && !self.model.contains_key(to) {
                    self.sessions[session].rename(from, to).unwrap();
                    let content = self.model.remove(from).unwrap();
                    self.model.insert(to, content);
                    for open in &mut self.open {
                        if let Some(id) = open.remove(from) {
                            open.insert(to, id);
                        }
                    }
                }
            }
            Step::Beside(file, offset, len) => {
                self.file(session, NAMES[file]);
                let (name, bytes) = (NAMES[file], self.bytes(len));
                let model = self.model.get_mut(name).unwrap();
                if offset as usize + len > model.len() {
                    return;
                }
                put(model, offset, &bytes);
                let written = self.store.run(move |context| async move {
                    let fs = context.files.get().await?;
                    let ino = fs.at(name.as_bytes()).await?.ino;
                    fs.write(ino, offset, &bytes).await
                });
                written.unwrap().unwrap();
            }
            Step::Resize(file, size) => {
                self.file(session, NAMES[file]);
                let name = NAMES[file];
                self.model.get_mut(name).unwrap().resize(size as usize, 0);
                let resized = self.store.run(move |context| async move {
                    let fs = context.files.get().await?;
                    let ino = fs.at(name.as_bytes()).await?.ino;
                    let set = SetAttr {
                        size: Some(size),
                        ..SetAttr::default()
                    };
                    fs.set_attr(ino, set).await
                });
                resized.unwrap().unwrap();
            }
            Step::Large(file) => {
                let id = self.file(session, NAMES[file]);
                let bytes = self.bytes(300 << 10);
                let aru = self.sessions[session].begin().unwrap();
                for (at, value) in [(0, &bytes[..]), (24, &[253; 8][..])] {
                    self.sessions[session]
                        .write(id, Some(aru), at, value)
                        .unwrap();
                    put(self.model.get_mut(NAMES[file]).unwrap(), at, value);
                }
                self.sessions[session].end(aru, false).unwrap();
            }
        }
    }

    /// All sessions see the model, whether they have looked before or not.
    fn check(&self) {
        for (session, files) in self.sessions.iter().enumerate() {
            for name in NAMES {
                let there = self.model.contains_key(name);
                assert_eq!(files.exists(name).unwrap(), there, "{name}");
            }
            self.check_session(session, None);
        }
    }

    /// Files that are open in a session are as the model has them, in the unit or outside.
    fn check_session(&self, session: usize, aru: Option<AruId>) {
        let files = &self.sessions[session];
        for (name, id) in &self.open[session] {
            let model = &self.model[name];
            let mut counter = [0; COUNTER.1];
            let read = files.read(*id, aru, COUNTER.0, &mut counter).unwrap();
            let from = (COUNTER.0 as usize).min(model.len());
            let expected = &model[from..model.len().min(from + COUNTER.1)];
            assert_eq!(&counter[..read], expected, "{name}");
            assert_eq!(files.size(*id, aru).unwrap(), model.len() as u64, "{name}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn session_caches_are_never_stale(steps in prop::collection::vec((step(), 0..2usize), 1..40)) {
        let place = Place::new();
        let mut world = World::new(&place);
        for (step, session) in steps {
            world.run(step, session);
            world.check();
            world.check();
        }
        for (name, id) in &world.open[0] {
            prop_assert_eq!(&content(&world.sessions[0], *id, None), &world.model[name]);
        }
        world.store.close().unwrap();
        // A store that is closed says so, whatever is known.
        for (name, id) in &world.open[0] {
            prop_assert!(world.sessions[0].size(*id, None).is_err(), "{}", name);
            prop_assert!(world.sessions[0].exists(name).is_err());
        }
    }
}

#[test]
fn under_a_lock_nothing_changes_between_two_looks() {
    let place = Place::new();
    let store = place.open();
    let threads: Vec<_> = (0..4u8)
        .map(|number| {
            let store = store.clone();
            std::thread::spawn(move || count_up(&store.files().unwrap(), number))
        })
        .collect();
    let counted: u32 = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .sum();
    let files = store.files().unwrap();
    let id = files.open("counter", Open::default()).unwrap();
    let end = content(&files, id, None);
    assert_eq!(end[..4], counted.to_be_bytes());
    store.close().unwrap();
}

/// Counts up under an exclusive lock, as SQLite does its change counter; how often.
fn count_up(files: &LocalFiles, number: u8) -> u32 {
    let id = files.open("counter", CREATE).unwrap();
    let mut counted = 0;
    while counted < 300 {
        let locked = files.lock(id, Level::Shared).unwrap()
            && files.lock(id, Level::Reserved).unwrap()
            && files.lock(id, Level::Exclusive).unwrap();
        if locked {
            let mut count = [0; 4];
            files.read(id, None, 0, &mut count).unwrap();
            assert_eq!(files.size(id, None).unwrap() % 8, 0);
            let next = u32::from_be_bytes(count) + 1;
            let aru = files.begin().unwrap();
            let bytes = [&next.to_be_bytes()[..], &[number; 4]].concat();
            files.write(id, Some(aru), 0, &bytes).unwrap();
            files.end(aru, next % 16 == 0).unwrap();
            counted += 1;
        }
        files.unlock(id, Level::None).unwrap();
        std::thread::yield_now();
    }
    counted
}
