use super::{OwnMounts, device_of_mount, unescaped};
use std::path::Path;

#[test]
fn a_path_on_an_own_mount_is_found_by_all_its_names() {
    let dir = std::env::temp_dir().join(format!("tonearm-own-mounts-{}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let dir = dir.canonicalize().unwrap();
    let at = |name: &str| dir.join(name);
    std::fs::create_dir(at("mount")).unwrap();
    std::fs::write(at("mount/there"), b"").unwrap();
    std::os::unix::fs::symlink(at("mount"), at("folder")).unwrap();
    std::os::unix::fs::symlink(at("mount/there"), at("file")).unwrap();
    let mounts = OwnMounts::new(vec![at("mount")]);
    let mount = at("mount");
    for name in [
        "mount/there",
        "mount/new",
        "folder/there",
        "folder/new",
        "file",
        "mount",
    ] {
        assert_eq!(mounts.with(&at(name)), Some(mount.as_path()), "{name}");
    }
    for name in ["mounted", "other/new", "new"] {
        assert_eq!(mounts.with(&at(name)), None, "{name}");
    }
    assert_eq!(OwnMounts::default().with(&at("mount/new")), None);
    // The same mount under another name has its device.
    let proc = OwnMounts::new(vec!["/proc".into()]);
    assert_eq!(
        proc.with(Path::new("/proc/self/new")),
        Some(Path::new("/proc"))
    );
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn paths_of_mounts_are_read_as_the_kernel_writes_them() {
    assert_eq!(unescaped(br"/a\040b\134c\\9"), br"/a b\c\\9".to_vec());
    let device = rustix::fs::stat("/proc").unwrap().st_dev;
    assert_eq!(device_of_mount(Path::new("/proc")), Some(device));
    assert_eq!(device_of_mount(Path::new("/no/such/mount")), None);
}
