//! Which devices are looked at, and which is taken.

use super::block_devices;
use crate::error::StoreError;
use crate::executor::Executor;
use crate::members::{Access, Opener};
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn small_and_nested_devices() {
    let class = tempfile::tempdir().unwrap();
    for (name, sectors) in [
        ("sdb", "4096\n"),
        ("loop0", "0\n"),
        ("sr0", "2048\n"),
        ("cciss!c0d0", "99999\n"),
    ] {
        fs::create_dir(class.path().join(name)).unwrap();
        fs::write(class.path().join(name).join("size"), sectors).unwrap();
    }
    fs::create_dir(class.path().join("odd")).unwrap();
    let found = block_devices(class.path());
    assert_eq!(found, [Path::new("/dev/cciss/c0d0"), Path::new("/dev/sdb")]);
    assert!(block_devices(&class.path().join("none")).is_empty());
}

/// Files stand for devices; what they hold says which member they are.
fn found(contents: &[&str]) -> Result<Option<String>, StoreError> {
    let dir = tempfile::tempdir().unwrap();
    let path = |index: usize| dir.path().join(index.to_string());
    for (index, content) in contents.iter().enumerate() {
        let mut bytes = content.as_bytes().to_vec();
        bytes.resize(4096, 0);
        fs::write(path(index), bytes).unwrap();
    }
    let executor = Executor::new().unwrap();
    let opener = Opener {
        executor: &executor,
        access: Access::Write,
        direct: false,
    };
    let mut paths: Vec<PathBuf> = (0..contents.len()).map(path).collect();
    paths.push(dir.path().join("gone"));
    let found = opener.find_among(paths, |_, device| {
        let bytes = fs::read(&device.path).unwrap();
        bytes.starts_with(b"member").then_some(())
    })?;
    Ok(found.map(|(device, ())| {
        let name = Path::new(&device.path).file_name().unwrap();
        name.to_string_lossy().into_owned()
    }))
}

#[test]
fn the_only_device_with_the_identity_is_taken() {
    assert_eq!(
        found(&["other", "member", ""]).unwrap().as_deref(),
        Some("1")
    );
    assert_eq!(found(&["other", ""]).unwrap(), None);
}

#[test]
fn two_devices_with_one_identity_are_an_error() {
    let error = found(&["member", "other", "member"]).unwrap_err();
    assert!(matches!(error, StoreError::FoundTwice { .. }), "{error}");
}
