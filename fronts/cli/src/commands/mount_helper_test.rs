use super::Asked;
use std::ffi::OsString;

fn asked(words: &str) -> Option<Asked> {
    Asked::of(words.split(' ').map(OsString::from))
}

#[test]
fn options_of_the_server_may_be_mount_options() {
    let asked =
        asked("/srv/a.tn /mnt -o rw,allow_other,max_delay=50ms,memory=1GiB -t fuse.tonearm");
    let arguments = asked.expect("good usage").arguments();
    let arguments: Vec<_> = arguments.iter().filter_map(|word| word.to_str()).collect();
    assert_eq!(
        arguments,
        [
            "mount",
            "--max-delay=50ms",
            "--memory=1GiB",
            "-o",
            "rw,allow_other",
            "--",
            "/srv/a.tn",
            "/mnt"
        ]
    );
}

#[test]
fn flags_of_mount_are_taken() {
    assert!(!asked("a b -sn -v").expect("good usage").fake);
    assert!(asked("a b -f").expect("good usage").fake);
    assert_eq!(asked("a"), None);
    assert_eq!(asked("a b -o"), None);
}

#[test]
fn remount_is_distinguished_from_a_mount() {
    assert!(
        asked("a b -o ro,relatime,remount")
            .expect("good usage")
            .is_remount()
    );
    assert!(
        !asked("a b -o ro,fsname=remount")
            .expect("good usage")
            .is_remount()
    );
}
