use super::*;
use std::os::unix::fs::PermissionsExt;

/// A folder that is deleted at the end.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("tonearm-folder-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn folder(&self, name: &str, making: Making) -> Folder {
        let path = self.at(name);
        Folder::new(
            &format!("file://{}", path.display()),
            path,
            User::Writer(making),
        )
    }

    /// Notes that are kept.
    fn noted(&self) -> Making {
        Making::Noted(self.at("s.tn.archives"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn put(folder: &Folder, name: &str, object: &[u8]) -> Result<bool> {
    folder.put_new(name, object, &|| {})
}

fn get(folder: &Folder, name: &str) -> Option<Vec<u8>> {
    folder.get(name, 1 << 30, &|| {}).unwrap()
}

fn waits<T: std::fmt::Debug>(result: Result<T>, part: &str) {
    match result {
        Err(BucketError::Transient(why)) => assert!(why.contains(part), "{why}"),
        other => panic!("{other:?} instead of a wait for {part:?}"),
    }
}

fn is_refused<T: std::fmt::Debug>(result: Result<T>, part: &str) {
    match result {
        Err(BucketError::Refused(why)) => assert!(why.contains(part), "{why}"),
        other => panic!("{other:?} instead of a refusal with {part:?}"),
    }
}

#[test]
fn an_object_is_put_once_and_read_by_the_owner_alone() {
    let place = Place::new();
    let folder = place.folder("a", place.noted());
    let large = vec![7; 3 * STEP + 5];
    assert_eq!(put(&folder, "chain/1", &large), Ok(true));
    assert_eq!(put(&folder, "chain/1", b"other"), Ok(false));
    assert_eq!(get(&folder, "chain/1"), Some(large));
    assert_eq!(put(&folder, "base/2/3", b"part"), Ok(true));
    let names = ["chain/1", "chain/9", "base/2/3"].map(str::to_string);
    let heads = folder.heads(&names, 4, &|| {}).unwrap();
    assert_eq!(heads, [Some(vec![7; 4]), None, Some(b"part".to_vec())]);
    assert_eq!(folder.heads(&names[2..], 5, &|| {}), Ok(vec![None]));
    // An object that is cut off has no head, and the others have theirs.
    assert_eq!(put(&folder, "chain/2", b""), Ok(true));
    let cut = ["chain/2", "chain/1"].map(str::to_string);
    assert_eq!(
        folder.heads(&cut, 4, &|| {}),
        Ok(vec![None, Some(vec![7; 4])])
    );
    let many: Vec<String> = (0..200).map(|at| names[at % 3].clone()).collect();
    let heads = folder.heads(&many, 4, &|| {}).unwrap();
    assert_eq!(heads.len(), 200);
    assert_eq!((&heads[198], &heads[199]), (&Some(vec![7; 4]), &None));
    assert_eq!(
        folder.list("base", &|| {}),
        Ok(vec!["base/2/3".to_string()])
    );
    assert_eq!(folder.list("mark", &|| {}), Ok(vec![]));
    for name in ["a/chain/1", "a/base/2/3"] {
        let mode = place.at(name).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert_eq!(folder.delete("chain/1"), Ok(()));
    assert_eq!(folder.delete("chain/1"), Ok(()));
    assert_eq!(get(&folder, "chain/1"), None);
}

#[test]
fn an_object_that_is_too_long_is_not_read_to_its_end() {
    let place = Place::new();
    let folder = place.folder("a", place.noted());
    put(&folder, "chain/1", b"object").unwrap();
    // Sparse: it takes no space, and a machine has not so much memory.
    let file = File::options().write(true).open(place.at("a/chain/1"));
    file.unwrap().set_len(8 << 40).unwrap();
    let found = folder.get("chain/1", 9, &|| {}).unwrap();
    assert_eq!(found.as_deref(), Some(&b"object\0\0\0\0"[..]));
}

#[test]
fn list_goes_forward_with_each_entry() {
    let place = Place::new();
    let folder = place.folder("a", place.noted());
    put(&folder, "chain/1", b"one").unwrap();
    for number in 0..50 {
        std::fs::write(place.at(&format!("a/chain/.{number}")), b"").unwrap();
    }
    let beats = std::cell::Cell::new(0);
    folder
        .list("chain", &|| beats.set(beats.get() + 1))
        .unwrap();
    assert!(beats.get() > 50, "{}", beats.get());
}

#[test]
fn listing_ignores_non_objects() {
    let place = Place::new();
    let folder = place.folder("a", place.noted());
    put(&folder, "chain/1", b"one").unwrap();
    std::fs::write(place.at("a/chain/2#77-1"), b"half").unwrap();
    std::fs::create_dir(place.at("a/chain/3")).unwrap();
    std::os::unix::fs::symlink("1", place.at("a/chain/4")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, place.at("a/chain/5"), Mode::RUSR).unwrap();
    assert_eq!(
        folder.list("chain", &|| {}),
        Ok(vec!["chain/1".to_string()])
    );
    assert_eq!(
        (get(&folder, "chain/3"), get(&folder, "chain/5")),
        (None, None)
    );
}

#[test]
fn unsupported_publish_method_falls_back_to_another() {
    let no_rename: Publish = |_, _, _| Err(Errno::INVAL);
    let link = WAYS[1];
    let place = Place::new();
    let mut folder = place.folder("a", place.noted());
    folder.ways = vec![no_rename, link];
    assert_eq!(put(&folder, "probe", b"1"), Ok(true));
    assert_eq!(put(&folder, "probe", b"1"), Ok(false));
    for no_link in [
        (|_: &OwnedFd, _: &str, _: &str| Err(Errno::PERM)) as Publish,
        |_, _, _| Err(Errno::OPNOTSUPP),
        |_, _, _| Err(Errno::MLINK),
        |_, _, _| Err(Errno::NOSYS),
    ] {
        folder.ways = vec![no_link, WAYS[0]];
        assert_eq!(put(&folder, "other", b"1"), Ok(true));
        folder.delete("other").unwrap();
        folder.ways = vec![no_rename, no_link];
        is_refused(put(&folder, "other", b"1"), "nor makes hard links");
    }
    // Nothing is left of what could not be put.
    let left = std::fs::read_dir(place.at("a")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["probe"]);
}

#[test]
fn publish_methods_never_overwrite() {
    for way in WAYS {
        let place = Place::new();
        let mut folder = place.folder("a", place.noted());
        put(&folder, "one", b"1").unwrap();
        folder.ways = vec![way];
        let root = folder.root().unwrap();
        folder.write(&root, "new#1", b"2", &|| {}).unwrap();
        assert_eq!(folder.publish(&root, "new#1", "one"), Ok(false));
        assert_eq!(folder.publish(&root, "new#1", "two"), Ok(true));
        assert_eq!(
            (get(&folder, "one"), get(&folder, "two")),
            (Some(b"1".into()), Some(b"2".into()))
        );
        assert!(!place.at("a/new#1").exists());
    }
}

#[test]
fn folder_is_created_once_and_without_parents() {
    let place = Place::new();
    is_refused(
        put(&place.folder("x/a", place.noted()), "probe", b"1"),
        "/x is not there",
    );
    assert!(!place.at("x").exists());
    // It was never there, so the next start makes it.
    std::fs::create_dir(place.at("x")).unwrap();
    assert_eq!(
        put(&place.folder("x/a", place.noted()), "probe", b"1"),
        Ok(true)
    );
    // The disk is not mounted.
    std::fs::rename(place.at("x"), place.at("away")).unwrap();
    waits(
        put(&place.folder("x/a", place.noted()), "probe", b"1"),
        "is its disk mounted?",
    );
    std::fs::create_dir(place.at("x")).unwrap();
    let again = place.folder("x/a", place.noted());
    for _ in 0..2 {
        waits(put(&again, "probe", b"1"), "s.tn.archives");
        waits(again.list("chain", &|| {}), "is its disk mounted?");
        waits(again.get("probe", 9, &|| {}), "is its disk mounted?");
    }
    // The mount point itself is the folder.
    std::fs::create_dir(place.at("x/a")).unwrap();
    waits(put(&again, "probe", b"1"), "is its disk mounted?");
    assert!(!place.at("x/a/probe").exists());
    std::fs::remove_dir_all(place.at("x")).unwrap();
    std::fs::rename(place.at("away"), place.at("x")).unwrap();
    assert_eq!(put(&again, "probe", b"1"), Ok(false));
    // Another folder is another archive.
    assert_eq!(
        put(&place.folder("x/b", place.noted()), "probe", b"1"),
        Ok(true)
    );
    let notes = std::fs::read_to_string(place.at("s.tn.archives")).unwrap();
    let url = |name| format!("file://{}", place.at(name).display());
    assert_eq!(notes, format!("{}\n{}\n", url("x/a"), url("x/b")));
}

#[test]
fn a_folder_that_people_make_is_waited_for() {
    let place = Place::new();
    let folder = place.folder("a", Making::Never);
    waits(
        put(&folder, "probe", b"1"),
        "If there never was one, make it",
    );
    assert!(!place.at("a").exists());
    std::fs::create_dir(place.at("a")).unwrap();
    assert_eq!(put(&folder, "probe", b"1"), Ok(true));
}

#[test]
fn a_folder_without_the_last_object_is_another_one() {
    let place = Place::new();
    let folder = place.folder("a", place.noted());
    put(&folder, "probe", b"1").unwrap();
    put(&folder, "chain/1", b"1").unwrap();
    // A folder comes in its place, also one that has another archive.
    std::fs::rename(place.at("a"), place.at("away")).unwrap();
    waits(put(&folder, "chain/2", b"2"), "is not there");
    std::fs::create_dir(place.at("a")).unwrap();
    std::fs::write(place.at("a/probe"), b"1").unwrap();
    waits(
        put(&folder, "chain/2", b"2"),
        "because object chain/1 is not there",
    );
    waits(
        folder.delete("probe"),
        "because object chain/1 is not there",
    );
    assert_eq!(std::fs::read_dir(place.at("a")).unwrap().count(), 1);
    std::fs::remove_dir_all(place.at("a")).unwrap();
    // The same archive has another inode on the disk that comes back.
    std::fs::create_dir_all(place.at("a/chain")).unwrap();
    std::fs::write(place.at("a/chain/1"), b"1").unwrap();
    assert_eq!(put(&folder, "chain/2", b"2"), Ok(true));
    // What was put last may be deleted.
    std::fs::write(place.at("a/probe"), b"1").unwrap();
    folder.delete("chain/2").unwrap();
    std::fs::rename(place.at("a"), place.at("b")).unwrap();
    std::fs::create_dir(place.at("a")).unwrap();
    waits(
        put(&folder, "chain/3", b"3"),
        "because object probe is not there",
    );
}

#[test]
fn a_folder_below_an_own_mount_is_refused() {
    let place = Place::new();
    std::fs::create_dir(place.at("mount")).unwrap();
    std::os::unix::fs::symlink(place.at("mount"), place.at("link")).unwrap();
    for name in ["mount/a", "link/a", "mount", "link"] {
        let folder = place
            .folder(name, place.noted())
            .outside(OwnMounts::new(vec![place.at("mount")]));
        is_refused(put(&folder, "probe", b"1"), "the store's own mount");
    }
    assert_eq!(std::fs::read_dir(place.at("mount")).unwrap().count(), 0);
    let second = place
        .folder("mounted", place.noted())
        .outside(OwnMounts::new(vec![place.at("mount")]));
    assert_eq!(put(&second, "probe", b"1"), Ok(true));
    // The same mount under another name has its device.
    let proc = Folder::new(
        "file:///x",
        "/proc/self/".into(),
        User::Writer(place.noted()),
    );
    let proc = proc.outside(OwnMounts::new(vec!["/proc".into()]));
    let device = rustix::fs::stat("/proc").unwrap().st_dev;
    is_refused(
        proc.check_own_mounts(Path::new("/"), Some(device)),
        "own mount at /proc",
    );
}

#[test]
fn permissions_may_change() {
    assert!(matches!(failed("x", Errno::ACCESS), BucketError::Denied(_)));
    assert!(matches!(failed("x", Errno::ROFS), BucketError::Denied(_)));
    assert!(matches!(
        failed("x", Errno::NOSPC),
        BucketError::Transient(_)
    ));
    let place = Place::new();
    std::fs::write(place.at("file"), b"").unwrap();
    is_refused(
        put(&place.folder("file", place.noted()), "probe", b"1"),
        "is no folder",
    );
}

thread_local! {
    /// What was made durable on this thread.
    static SYNCED: std::cell::RefCell<Vec<String>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// A power cut of the machine with the folder takes back nothing that is called archived. No test can cut that power, so this one
/// looks at what is synced.
#[test]
fn an_object_its_name_and_its_folders_are_synced() {
    let place = Place::new();
    let mut folder = place.folder("a", place.noted());
    folder.sync = |file| {
        use std::os::fd::AsRawFd;
        let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        SYNCED.with_borrow_mut(|synced| synced.push(name));
        Ok(())
    };
    let synced = || SYNCED.with_borrow_mut(std::mem::take);
    let top = place.0.file_name().unwrap().to_str().unwrap().to_string();
    let partial = |name: &str, number: u32| format!("{name}#{}-{number}", std::process::id());
    put(&folder, "base/1/2", b"part").unwrap();
    // The folder, the folders in it, the content, and the name of the object.
    assert_eq!(synced(), [&top, "a", "base", &partial("2", 0), "1"]);
    put(&folder, "base/1/3", b"part").unwrap();
    assert_eq!(synced(), [&partial("3", 1), "1"]);
    assert_eq!(put(&folder, "base/1/3", b"part"), Ok(false));
    assert_eq!(synced(), ["1"]);
    // What cannot be synced is not called put.
    folder.sync = |_| Err(Errno::IO);
    assert!(put(&folder, "base/1/4", b"part").is_err());
    assert_eq!(get(&folder, "base/1/4"), None);
}
