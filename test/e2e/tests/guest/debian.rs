//! A new user's Debian: made by one script, booted from a volume by the command that it prints.

use std::time::Duration;
use tonearm_tests::debian::{Debian, Way};
use tonearm_tests::kill_rounds;

/// The server is killed while the system boots, and again while a user works.
fn boots(way: Way) {
    let mut debian = Debian::new(way);
    for round in 0..kill_rounds(1) {
        let mut machine = debian.boot();
        // Its kernel has the root file system; services start from now on.
        machine.wait_for("Welcome to");
        std::thread::sleep(Duration::from_millis(500 + round * 2300 % 12_000));
        debian.kill_server();
        std::thread::sleep(Duration::from_millis(round * 301 % 2000));
        debian.start_server();
        machine.log_in();
        machine.run(&format!(
            "dd if=/dev/urandom of=/srv/{round} bs=64k count=64 conv=fsync"
        ));
        machine.run(&format!("sha256sum /srv/{round} >>/srv/sums"));
        debian.kill_server();
        debian.start_server();
        machine.run("echo 3 >/proc/sys/vm/drop_caches; sha256sum --quiet -c /srv/sums");
        let failed = machine.run("systemctl --failed --plain --no-legend");
        assert_eq!(failed, "", "services");
        machine.enter("poweroff");
        machine.ended();
        println!("{way:?}: booted and ended, round {round}");
    }
    debian.check();
}

#[test]
fn debian_by_vhost_user_survives() {
    boots(Way::VhostUser);
}

#[test]
fn debian_by_nbd_survives_in_full() {
    boots(Way::Nbd);
}
