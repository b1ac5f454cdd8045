use super::{family, mounted, refuse_in_use, swapped};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const MOUNTS: &str = "\
22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw
40 22 8:1 / /mnt/old\\040disk rw - xfs /dev/sda1 rw
";

#[test]
fn a_mount_is_found_by_the_number_of_its_device() {
    let numbers = ["8:0".to_owned(), "8:1".to_owned()];
    assert_eq!(mounted(MOUNTS, &numbers), Some("/mnt/old\\040disk"));
    assert_eq!(mounted(MOUNTS, &["8:16".to_owned()]), None);
}

#[test]
fn swap_space_is_listed_without_the_headline() {
    let swaps =
        "Filename Type Size Used Priority\n/dev/sda2 partition 10 0 -2\n/swap file 5 0 -3\n";
    let found: Vec<PathBuf> = swapped(swaps).collect();
    assert_eq!(found, [PathBuf::from("/dev/sda2"), "/swap".into()]);
}

#[test]
fn disk_and_its_partitions_are_one_family() {
    let sys = tempfile::tempdir().unwrap();
    let disk = sys.path().join("devices/sda");
    let part = disk.join("sda1");
    fs::create_dir_all(part.join("holders/dm-0")).unwrap();
    fs::create_dir_all(disk.join("holders")).unwrap();
    fs::create_dir_all(disk.join("queue")).unwrap();
    fs::write(disk.join("dev"), "8:0\n").unwrap();
    fs::write(part.join("dev"), "8:1\n").unwrap();
    fs::write(part.join("partition"), "1\n").unwrap();
    let numbers = sys.path().join("dev/block");
    fs::create_dir_all(&numbers).unwrap();
    symlink(&disk, numbers.join("8:0")).unwrap();
    symlink(&part, numbers.join("8:1")).unwrap();
    for device in [rustix::fs::makedev(8, 0), rustix::fs::makedev(8, 1)] {
        let found = family(sys.path(), device).unwrap();
        let mut all = found.numbers;
        all.sort();
        assert_eq!(all, ["8:0", "8:1"]);
        assert_eq!(found.holders, ["dm-0"]);
    }
}

#[test]
fn a_file_is_not_mounted() {
    let file = tempfile::NamedTempFile::new().unwrap();
    refuse_in_use(file.path()).unwrap();
    assert!(refuse_in_use(Path::new("/nowhere/at/all")).is_err());
}
