use crate::fd::{inherited_listeners, listener_count};
use std::os::fd::AsRawFd;
use std::process::Command;

#[test]
fn only_sockets_for_this_process_count() {
    assert_eq!(listener_count(Some("7"), Some("2"), 7), 2);
    assert_eq!(listener_count(Some("8"), Some("2"), 7), 0);
    assert_eq!(listener_count(None, Some("2"), 7), 0);
    for count in ["", "0", "-1", "x", "100000"] {
        assert_eq!(listener_count(Some("7"), Some(count), 7), 0, "{count}");
    }
    assert_eq!(listener_count(Some("7"), None, 7), 0);
}

/// The process that the next test starts.
#[test]
#[ignore = "runs as a child of sockets_are_taken_over_once"]
fn child_that_takes_over() {
    let taken = inherited_listeners();
    let numbers: Vec<_> = taken.iter().map(|fd| fd.as_raw_fd()).collect();
    assert_eq!(numbers, [3], "the number 4 is not open");
    let flags = rustix::io::fcntl_getfd(&taken[0]).unwrap();
    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    assert!(inherited_listeners().is_empty());
}

#[test]
fn sockets_are_taken_over_once() {
    let script = "exec 3</dev/null 4<&-; LISTEN_PID=$$ LISTEN_FDS=2 exec \"$0\" \
                  --exact fd_test::child_that_takes_over --ignored";
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}
