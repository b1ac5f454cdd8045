//! Changes that were reported as durable are there after a power cut, in a simulated world.

use crate::files::CREATE;
use crate::overtaken::{opened, with_file};
use tonearm_base::Lsn;
use tonearm_disk::{Ack, OpenOptions};
use tonearm_rt::Rt;
use tonearm_store::Store;
use tonearm_store::files::{AruId, FileId, Files, Open};
use tonearm_world::{SimOptions, SimWorld};

/// Longer than a block, and no multiple of one.
const NEW: [u8; 5000] = [2; 5000];

fn unit(files: &dyn Files, file: FileId) -> AruId {
    let unit = files.begin().unwrap();
    files.write(file, Some(unit), 0, &NEW).unwrap();
    unit
}

fn unit_of(store: &Store) -> Lsn {
    let mut unit = store.begin().unwrap();
    unit.write("f", 0, &NEW).unwrap();
    unit.end().unwrap()
}

/// Does `change`, which makes [`NEW`] the start of the file `f` and ends when that is durable, and cuts the power.
fn survives(ack: Ack, change: impl Fn(&Store, &dyn Files, FileId)) {
    let image = with_file();
    let options = || OpenOptions {
        ack,
        ..OpenOptions::default()
    };
    let size = image.size;
    let world = SimWorld::new(SimOptions::default(), vec![image]);
    let rt = Rt::new(world.driver());
    let store = opened(&rt, size, options());
    let files = store.files().unwrap();
    let file = files.open("f", CREATE).unwrap();
    change(&store, &files, file);
    let crash = world.crash();
    store.close().unwrap();
    drop((files, store));
    rt.shut_down();
    for seed in 0..8 {
        let world = SimWorld::new(SimOptions::default(), crash.images(seed));
        let rt = Rt::new(world.driver());
        let store = opened(&rt, size, options());
        let files = store.files().unwrap();
        let file = files.open("f", Open::default()).unwrap();
        let mut found = [0; NEW.len() + 1];
        assert_eq!(files.read(file, None, 0, &mut found).unwrap(), NEW.len());
        assert_eq!(found[..NEW.len()], NEW, "seed {seed}");
        store.close().unwrap();
        drop((files, store));
        rt.shut_down();
    }
}

#[test]
fn what_was_told_to_be_durable_survives_a_power_cut() {
    survives(Ack::Flush, |_, files, file| {
        files.end(unit(files, file), true).unwrap();
    });
    survives(Ack::Flush, |_, files, file| {
        files.end(unit(files, file), false).unwrap();
        files.flush().unwrap();
    });
    survives(Ack::Flush, |_, files, file| {
        files.write(file, None, 0, &NEW).unwrap();
        // A unit without changes is durable with all before it.
        files.end(files.begin().unwrap(), true).unwrap();
    });
    survives(Ack::Flush, |store, _, _| {
        store.wait_durable(unit_of(store)).unwrap();
    });
    survives(Ack::Flush, |store, _, _| {
        unit_of(store);
        store.flush().unwrap();
    });
}

#[test]
fn where_writes_are_durable_when_they_are_answered_they_survive_a_power_cut() {
    survives(Ack::Write, |_, files, file| {
        files.write(file, None, 0, &NEW).unwrap();
    });
    survives(Ack::Write, |_, files, file| {
        files.end(unit(files, file), false).unwrap();
    });
    survives(Ack::Write, |_, files, file| {
        files.truncate(file, None, 0).unwrap();
        files.write(file, None, 0, &NEW).unwrap();
        files.write(file, None, 0, &NEW[..1]).unwrap();
    });
}
