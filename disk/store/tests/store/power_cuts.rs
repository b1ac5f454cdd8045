//! Changes that were reported as durable are there after a power cut, in a simulated world.

use crate::files::CREATE;
use crate::overtaken::{opened, with_file};
use tonearm_base::Lsn;
use tonearm_disk::{Ack, OpenOptions};
use tonearm_rt::Rt;
use tonearm_store::Store;
use tonearm_store::files::{AruId, FileId, Files, NewAttr, Open};
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

/// Does `change`, which makes [`NEW`] the content of the file `f` and ends when that is durable, and cuts the power.
fn survives(ack: Ack, change: impl Fn(&Store, &dyn Files, FileId)) {
    survives_as(ack, change, |files| {
        assert_eq!(content(files, "f"), NEW);
    });
}

fn content(files: &dyn Files, name: &str) -> Vec<u8> {
    let file = files.open(name, Open::default()).unwrap();
    let mut found = [0; 2 * NEW.len()];
    let bytes = files.read(file, None, 0, &mut found).unwrap();
    found[..bytes].to_vec()
}

/// Does `change`, which ends when it is durable, cuts the power, and looks at what is there after that.
fn survives_as(ack: Ack, change: impl Fn(&Store, &dyn Files, FileId), look: impl Fn(&dyn Files)) {
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
        look(&files);
        store.close().unwrap();
        drop((files, store));
        rt.shut_down();
    }
}

#[test]
fn acknowledged_durability_survives_a_power_cut() {
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
fn writes_survive_a_power_cut_with_ack_write() {
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

/// Each operation that changes something is the last one before the cut: no later one makes it durable.
#[test]
fn each_operation_is_durable_with_ack_write() {
    let with_ack = |change: &dyn Fn(&dyn Files, FileId), look: &dyn Fn(&dyn Files)| {
        survives_as(Ack::Write, |_, files, file| change(files, file), look);
    };
    let has = |files: &dyn Files, path: &str| files.look(path).is_ok();
    let all = |mode: u32| NewAttr {
        mode: Some(mode),
        ..NewAttr::default()
    };
    // A shorter file, and a longer one.
    for size in [100u64, 9000] {
        with_ack(
            &|files, file| files.truncate(file, None, size).unwrap(),
            &|files| assert_eq!(files.look("f").unwrap().size_bytes, size),
        );
    }
    with_ack(
        &|files, file| files.zero(file, 0, 4096).unwrap(),
        &|files| assert_eq!(content(files, "f"), [0; 4096]),
    );
    with_ack(&|files, file| files.zero(file, 5, 10).unwrap(), &|files| {
        assert_eq!(
            content(files, "f")[4..16],
            [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
        )
    });
    with_ack(
        &|files, _| {
            files.open("g", CREATE).unwrap();
        },
        &|files| assert!(has(files, "g")),
    );
    with_ack(&|files, _| files.make_dir("d").unwrap(), &|files| {
        assert!(has(files, "d"));
    });
    with_ack(&|files, _| files.make_link("l", "f").unwrap(), &|files| {
        assert_eq!(files.read_link("l").unwrap(), "f");
    });
    with_ack(
        &|files, _| files.set_attr("f", None, all(0o600)).unwrap(),
        &|files| assert_eq!(files.look("f").unwrap().mode & 0o7777, 0o600),
    );
    with_ack(&|files, _| files.rename("f", "g").unwrap(), &|files| {
        assert!(has(files, "g") && !has(files, "f"));
    });
    with_ack(&|files, _| files.delete("f").unwrap(), &|files| {
        assert!(!has(files, "f"));
    });
}

#[test]
fn a_unit_of_each_change_is_durable_when_its_end_is_answered() {
    type Change = fn(&dyn Files, FileId, AruId);
    let size: Change = |files, file, unit| files.truncate(file, Some(unit), 100).unwrap();
    let made: Change = |files, _, unit| {
        files.create(unit, "g").unwrap();
    };
    let mode: Change = |files, _, unit| {
        let set = NewAttr {
            mode: Some(0o600),
            ..NewAttr::default()
        };
        files.set_attr("f", Some(unit), set).unwrap();
    };
    for (ack, durable) in [(Ack::Write, false), (Ack::Flush, true)] {
        let ends = |change: Change, look: &dyn Fn(&dyn Files)| {
            let unit = |_: &Store, files: &dyn Files, file| {
                let unit = files.begin().unwrap();
                change(files, file, unit);
                files.end(unit, durable).unwrap();
            };
            survives_as(ack, unit, look);
        };
        ends(size, &|files| {
            assert_eq!(files.look("f").unwrap().size_bytes, 100)
        });
        ends(made, &|files| assert!(files.look("g").is_ok()));
        ends(mode, &|files| {
            assert_eq!(files.look("f").unwrap().mode & 0o7777, 0o600);
        });
    }
}
