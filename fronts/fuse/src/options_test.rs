use crate::MountOptions;
use rustix::mount::MountFlags;

fn parsed(list: &str) -> MountOptions {
    let mut options = MountOptions::default();
    options.parse(list).expect("known options");
    options
}

#[test]
fn the_later_of_two_options_counts() {
    assert!(parsed("ro").read_only);
    assert!(!parsed("ro,rw").read_only);
    assert!(parsed("nosuid,suid").suid);
    assert!(parsed("direct_io").direct_io);
    assert!(parsed("allow_other,fsname=a b").allow_other);
    assert_eq!(parsed("fsname=a,fsname=b").name.as_deref(), Some("b"));
}

#[test]
fn mounts_are_nosuid_and_nodev_by_default() {
    let nothing = MountFlags::NOSUID | MountFlags::NODEV;
    assert_eq!(parsed("").flags(), nothing);
    assert_eq!(parsed("suid,dev,noatime").flags(), MountFlags::NOATIME);
    assert_eq!(
        parsed("ro,noexec").flags(),
        nothing | MountFlags::RDONLY | MountFlags::NOEXEC
    );
}

#[test]
fn options_of_fstab_are_taken_and_unknown_ones_are_named() {
    parsed("defaults,noauto,nofail,_netdev,x-systemd.automount,comment=hello,,user");
    let mut options = MountOptions::default();
    let error = options.parse("noatime,fast").expect_err("no such option");
    assert!(error.to_string().contains("'fast'"), "{error}");
}

#[test]
fn fusermount_gets_words() {
    assert_eq!(
        parsed("ro,noatime,allow_other,suid").words(),
        ["ro", "noatime", "default_permissions", "allow_other"]
    );
}

#[test]
fn a_remount_has_the_flags_of_its_list_alone() {
    // What mount(8) passes for `mount -o remount,ro`.
    let list = "ro,relatime,remount,user_id=0,group_id=0,default_permissions,allow_other";
    let options = MountOptions::of_remount(list).expect("known");
    assert_eq!(options.flags(), MountFlags::RDONLY | MountFlags::RELATIME);
    let options = MountOptions::of_remount("remount,rw,nosuid,nodev").expect("known");
    assert_eq!(options.flags(), MountFlags::NOSUID | MountFlags::NODEV);
    assert!(MountOptions::of_remount("remount,quota").is_err());
}
