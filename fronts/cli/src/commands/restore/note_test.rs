use super::*;
use crate::cli::{Cli, Command};
use clap::Parser;
use std::os::unix::fs::symlink;
use tonearm_archive::StoreShape;
use tonearm_base::Lsn;

fn arguments(path: &Path) -> Restore {
    let path = path.to_str().expect("text");
    match Cli::parse_from(["tonearm", "restore", "file:///a", path]).command {
        Command::Restore(arguments) => arguments,
        _ => panic!("another command"),
    }
}

fn plan() -> Plan {
    Plan {
        lsn: Lsn(7),
        shape: StoreShape {
            store: [0; 16],
            block_size: 4096,
            size_blocks: 1000,
        },
        objects: Vec::new(),
        left_out: Vec::new(),
        base: 3,
        folder: 1,
    }
}

#[test]
fn note_comes_back_for_the_same_command_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s.tn");
    let (partial, own) = (Partial::of(&path), arguments(&path));
    assert_eq!(partial.read(&own).expect("nothing"), None);
    let note = Note::new(&own, &plan(), 0);
    partial.write(&note).expect("written");
    // Nothing is left of what it is about.
    assert_eq!(partial.read(&own).expect("no file"), None);
    std::fs::write(&partial.made, b"half").expect("written");
    assert_eq!(partial.read(&own).expect("a note"), Some(note));
    let mut other = arguments(&path);
    other.url = "file:///b".into();
    assert!(partial.read(&other).is_err());
    partial.finish(&path).expect("renamed");
    assert_eq!(std::fs::read(&path).expect("a file"), b"half");
    assert_eq!(std::fs::read_dir(folder.path()).expect("read").count(), 1);
}

#[test]
fn links_of_others_are_not_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, victim) = (folder.path().join("s.tn"), folder.path().join("victim"));
    std::fs::write(&victim, b"secret").expect("written");
    let (partial, own) = (Partial::of(&path), arguments(&path));
    for name in [
        "s.tn.new",
        "s.tn.partial.json",
        "s.tn.partial",
        "s.tn.partial.json.new",
    ] {
        let link = folder.path().join(name);
        symlink(&victim, &link).expect("a link");
        let note = Note::new(&own, &plan(), 0);
        partial.write(&note).expect("written");
        partial.clear().expect("cleared");
        assert_eq!(std::fs::read(&victim).expect("there"), b"secret", "{name}");
        let _ = std::fs::remove_file(&link);
        let _ = std::fs::remove_file(&partial.note);
    }
    // A note or a file that somebody else has put there is not gone on with.
    for (made, note) in [(true, false), (false, true), (true, true)] {
        let put = |is_link, path: &Path| {
            if is_link {
                symlink(&victim, path).expect("a link")
            } else {
                std::fs::write(path, b"{}").expect("written")
            }
        };
        put(made, &partial.made);
        put(note, &partial.note);
        let error = partial.read(&own).expect_err("a link").to_string();
        assert!(
            error.contains("is nothing that a restore of this user has made"),
            "{error}"
        );
        std::fs::remove_file(&partial.made).expect("removed");
        std::fs::remove_file(&partial.note).expect("removed");
    }
    std::fs::hard_link(&victim, &partial.made).expect("a link");
    assert!(partial.read(&own).is_err());
}

#[test]
fn note_is_of_one_store_and_of_the_same_objects() {
    let folder = tempfile::tempdir().expect("a folder");
    let own = arguments(&folder.path().join("s.tn"));
    let (before, mut other) = (plan(), plan());
    let mut note = Note::new(&own, &before, 0);
    assert!(note.is_of_store(&before));
    // Another store has objects of the same names.
    other.shape.store = [1; 16];
    assert!(!note.is_of_store(&other));
    assert_eq!(note.done(&before), 0);
    // Objects that the plan does not have were not applied for it.
    note.objects_done = 3;
    assert_eq!(note.done(&before), 0);
}
