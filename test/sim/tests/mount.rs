//! Operations of a mount, as the kernel would send them: what is durable when they are answered.

#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_disk::{Ack, OpenOptions};
use tonearm_fs::{ACL_ACCESS, Allocate, Fs, ROOT_INO, Rename, SetXattr};
use tonearm_fuse::testing::{By, Changes, Create, Make, Mount, Operation, When, Write, WriteKind};
use tonearm_rt::Rt;
use tonearm_sim::archives::open_options;
use tonearm_sim::trees::{dump, sound, store, time};
use tonearm_sim::{Layout, StoreImage};
use tonearm_world::SimWorld;

/// What cuts leave on the drive, for each operation.
const IMAGES: u64 = 6;
/// Bytes of each file.
const SIZE: u64 = 12_288;
/// Handles of `f`, of `d`, of the root, and of `g`.
const FILE: u64 = 1;
const DIRECTORY: u64 = 2;
const ROOT: u64 = 3;
const OTHER: u64 = 4;

/// A mount with the files `f` and `g`, and the directory `d` with the directory `e`.
struct Scene {
    mount: Mount,
    f: u64,
    g: u64,
    d: u64,
}

fn on(handle: u64) -> By {
    By {
        handle,
        ..By::default()
    }
}

fn make(dir: u64, name: &[u8], mode: u32) -> Operation {
    Operation::Make(Make {
        dir,
        name: name.to_vec(),
        mode,
        umask: 0,
        rdev: 0,
    })
}

fn create(dir: u64, exclusive: bool) -> Operation {
    Operation::Create(Create {
        dir,
        name: b"new".to_vec(),
        mode: 0o100_600,
        umask: 0,
        exclusive,
        direct: false,
    })
}

fn write(ino: u64, offset: u64, data: Vec<u8>, durable: bool) -> Operation {
    Operation::Write(Write {
        ino,
        offset,
        data,
        kill_suid: false,
        durable,
        append: false,
        kind: WriteKind::Direct,
    })
}

fn set(ino: u64, changes: Changes) -> Operation {
    Operation::SetAttr { ino, changes }
}

fn cut_off(ino: u64, size: u64) -> Operation {
    let size = Some(size);
    set(
        ino,
        Changes {
            size,
            ..Changes::default()
        },
    )
}

fn allocate(ino: u64, offset: u64, how: Allocate) -> Operation {
    Operation::Allocate {
        ino,
        offset,
        len: 5000,
        how,
    }
}

fn set_xattr(ino: u64, name: &[u8], value: &[u8]) -> Operation {
    Operation::SetXattr {
        ino,
        name: name.to_vec(),
        value: value.to_vec(),
        how: SetXattr::Any,
    }
}

fn rename(from: (u64, &[u8]), to: (u64, &[u8]), how: Rename) -> Operation {
    let owned = |(dir, name): (u64, &[u8])| (dir, name.to_vec());
    Operation::Rename {
        from: owned(from),
        to: owned(to),
        how,
    }
}

impl Scene {
    async fn new(fs: &Fs, rt: &Rt) -> Self {
        let mount = Mount::start(fs, rt);
        let made = async |dir, name: &[u8], mode| {
            let made = mount.ask(By::default(), make(dir, name, mode)).await;
            made.unwrap().ino()
        };
        let f = made(ROOT_INO, b"f", 0o100_644).await;
        let g = made(ROOT_INO, b"g", 0o100_644).await;
        let d = made(ROOT_INO, b"d", 0o040_755).await;
        made(d, b"e", 0o040_755).await;
        for (handle, ino) in [(FILE, f), (DIRECTORY, d), (ROOT, ROOT_INO), (OTHER, g)] {
            let open = Operation::Open { ino, direct: true };
            mount.ask(on(handle), open).await.unwrap();
        }
        let scene = Self { mount, f, g, d };
        for (handle, ino) in [(FILE, f), (OTHER, g)] {
            scene
                .ask(handle, write(ino, 0, vec![ino as u8; SIZE as usize], false))
                .await;
        }
        scene.ask(FILE, set_xattr(f, b"user.old", b"1")).await;
        scene.ask(0, Operation::Sync { ino: f }).await;
        scene
    }

    async fn ask(&self, handle: u64, operation: Operation) -> u64 {
        self.mount.ask(on(handle), operation).await.unwrap().number
    }
}

/// Carries `last` out on a store with this answer to writes, and cuts the power when it is answered. Its effect is there.
fn survives(name: &str, ack: Ack, last: impl AsyncFnOnce(&Scene) + 'static) {
    let image = store(Layout::Overwrite, 4 << 20);
    let expected = Rc::new(RefCell::new(String::new()));
    let own = expected.clone();
    let (crash, _) = image.run(
        1,
        move |world: SimWorld, rt: Rt, image: StoreImage| async move {
            let options = OpenOptions {
                ack,
                // As on a mount.
                commit_delay: Nanos::from_millis(1),
                ..open_options()
            };
            let disk = image.open_disk(&rt, options).await.unwrap();
            let fs = Fs::open(&disk, &rt, time(&rt)).await.unwrap();
            let scene = Scene::new(&fs, &rt).await;
            let before = dump(&fs).await.unwrap();
            last(&scene).await;
            let crash = world.crash();
            *own.borrow_mut() = dump(&fs).await.unwrap();
            assert_ne!(*own.borrow(), before, "it changes something");
            crash
        },
    );
    for seed in 0..IMAGES {
        let (name, expected) = (name.to_string(), expected.borrow().clone());
        let left = image.with(crash.images(seed));
        left.with_fs(seed, async move |_, _, fs| {
            sound(fs.disk()).await.unwrap();
            assert_eq!(dump(&fs).await.unwrap(), expected, "{name} {ack:?}");
        });
    }
}

type Last = fn(&Scene) -> Operation;

/// Operations that change something, each with the handle that it comes on and the one that a program syncs.
const CHANGES: [(&str, u64, u64, Last); 24] = [
    ("write", FILE, FILE, |s| {
        write(s.f, 100, vec![9; 9000], false)
    }),
    ("write beyond the end", FILE, FILE, |s| {
        write(s.f, SIZE + 50, vec![9; 9], false)
    }),
    ("truncate", FILE, FILE, |s| cut_off(s.f, 100)),
    ("truncate to more", FILE, FILE, |s| cut_off(s.f, 90_000)),
    ("fallocate", FILE, FILE, |s| {
        allocate(s.f, SIZE, Allocate::Grow)
    }),
    ("punched hole", FILE, FILE, |s| {
        allocate(s.f, 100, Allocate::Punch)
    }),
    ("zeroed range", FILE, FILE, |s| {
        allocate(s.f, 100, Allocate::Zero)
    }),
    ("copy_file_range", FILE, FILE, |s| Operation::Copy {
        from: (s.g, 0),
        from_handle: OTHER,
        to: (s.f, SIZE + 10),
        len: 5000,
    }),
    ("chmod", FILE, FILE, |s| {
        let mode = Some(0o100_600);
        set(
            s.f,
            Changes {
                mode,
                mtime: Some(When::Now),
                ..Changes::default()
            },
        )
    }),
    ("chown", FILE, FILE, |s| {
        let (uid, gid) = (Some(5), Some(6));
        set(
            s.f,
            Changes {
                uid,
                gid,
                ..Changes::default()
            },
        )
    }),
    ("setxattr", 0, FILE, |s| set_xattr(s.f, b"user.new", b"2")),
    ("removexattr", 0, FILE, |s| Operation::RemoveXattr {
        ino: s.f,
        name: b"user.old".to_vec(),
    }),
    ("setfacl", 0, FILE, |s| set_xattr(s.f, ACL_ACCESS, &ACL)),
    ("create", 9, DIRECTORY, |s| create(s.d, true)),
    ("create, its file synced", 9, 9, |s| create(s.d, false)),
    ("mkdir", 0, DIRECTORY, |s| make(s.d, b"new", 0o040_700)),
    ("mknod", 0, DIRECTORY, |s| make(s.d, b"new", 0o010_700)),
    ("symlink", 0, DIRECTORY, |s| Operation::MakeLink {
        dir: s.d,
        name: b"new".to_vec(),
        target: b"../f".to_vec(),
    }),
    ("link", 0, DIRECTORY, |s| Operation::Link {
        ino: s.f,
        dir: s.d,
        name: b"new".to_vec(),
    }),
    ("unlink", 0, ROOT, |_| Operation::Unlink {
        dir: ROOT_INO,
        name: b"g".to_vec(),
    }),
    ("rmdir", 0, DIRECTORY, |s| Operation::RemoveDir {
        dir: s.d,
        name: b"e".to_vec(),
    }),
    ("rename", 0, DIRECTORY, |s| {
        rename((ROOT_INO, b"f"), (s.d, b"g"), Rename::Replace)
    }),
    ("rename over a file", 0, ROOT, |_| {
        rename((ROOT_INO, b"f"), (ROOT_INO, b"g"), Rename::Replace)
    }),
    ("exchange", 0, ROOT, |_| {
        rename((ROOT_INO, b"f"), (ROOT_INO, b"g"), Rename::Exchange)
    }),
];
/// Owner, user 7 and group may read and write, others read.
const ACL: [u8; 44] = [
    2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 6, 0, 7, 0, 0, 0, 4, 0, 4, 0, 255, 255, 255,
    255, 16, 0, 6, 0, 255, 255, 255, 255, 32, 0, 4, 0, 255, 255, 255, 255,
];

#[test]
fn each_change_is_durable_when_its_sync_is_answered() {
    for (name, handle, synced, last) in CHANGES {
        survives(name, Ack::Flush, async move |scene| {
            let operation = last(scene);
            let made = scene.mount.ask(on(handle), operation).await.unwrap();
            let ino = match synced {
                FILE => scene.f,
                DIRECTORY => scene.d,
                ROOT => ROOT_INO,
                _ => made.ino(),
            };
            scene.ask(synced, Operation::Sync { ino }).await;
        });
    }
}

#[test]
fn each_change_is_durable_when_it_is_answered_with_ack_write() {
    for (name, handle, _, last) in CHANGES {
        survives(name, Ack::Write, async move |scene| {
            scene.ask(handle, last(scene)).await;
        });
    }
}

#[test]
fn a_write_with_o_dsync_is_durable_when_it_is_answered() {
    survives("write", Ack::Flush, async |scene| {
        scene
            .ask(FILE, write(scene.f, 100, vec![9; 9000], true))
            .await;
    });
}

#[test]
fn a_unit_is_durable_when_its_commit_is_answered() {
    for ack in [Ack::Flush, Ack::Write] {
        survives("unit of an enlisted file", ack, async |scene| {
            let unit = scene.ask(DIRECTORY, BEGIN).await;
            scene.ask(FILE, Operation::Enlist { unit }).await;
            scene
                .ask(FILE, write(scene.f, 100, vec![9; 9000], false))
                .await;
            scene.ask(DIRECTORY, COMMIT).await;
        });
        for (name, handle, _, last) in CHANGES {
            survives(name, ack, async move |scene| {
                let member = Some(scene.ask(ROOT, BEGIN).await);
                let handle = match handle {
                    FILE => 20,
                    other => other,
                };
                let by = By {
                    member,
                    ..on(handle)
                };
                let open = |ino| Operation::Open { ino, direct: true };
                scene.mount.ask(by, open(scene.f)).await.unwrap();
                scene.mount.ask(by, last(scene)).await.unwrap();
                scene.ask(ROOT, COMMIT).await;
            });
        }
    }
}

const COMMIT: Operation = Operation::Commit { is_notified: false };

const BEGIN: Operation = Operation::BeginUnit { processes: None };
