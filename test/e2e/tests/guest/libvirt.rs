//! The domains of docs/virtual-machines.md boot Debian with libvirt, and go on when the server of their disk was killed.

use std::fs::{self, File};
use std::process::Command;
use std::time::Duration;
use tonearm_tests::debian::{Debian, Way};
use tonearm_tests::{Background, recipe, require, wait_until};

const DOCUMENT: &str = "docs/virtual-machines.md";

/// libvirt's programs refuse root without a user of their daemon, which the tests do not install. So the user has another number
/// in a name space of its own. Processes have one, too, because QEMU runs on when `virt-qemu-run` is killed: the kernel kills all of
/// them with their first one.
const AS_USER: &[&str] = &[
    "--user",
    "--map-user=1000",
    "--map-group=1000",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "virt-qemu-run",
];

fn boots(way: Way, disk: &str) {
    require("virt-qemu-run");
    let mut debian = Debian::new(way);
    let domains = recipe::blocks(DOCUMENT, "libvirt");
    let domains: Vec<&String> = domains
        .iter()
        .filter(|domain| domain.contains(disk))
        .collect();
    assert_eq!(domains.len(), 1, "domains with {disk}");
    let folder = debian
        .bench()
        .folder()
        .to_str()
        .expect("a path in UTF-8")
        .to_owned();
    let console = debian.bench().path("console");
    let serial = "<serial type='pty'/>";
    assert!(domains[0].contains(serial), "a console");
    let file = format!(
        "<serial type='file'><source path='{}'/></serial>",
        console.display()
    );
    let domain = domains[0]
        .replace("/srv/tonearm", &folder)
        .replace(serial, &file);
    debian.bench().write("domain.xml", domain.as_bytes());
    File::create(&console).expect("a file");
    // The machine's output goes to files, not to libvirt's log daemon, which the tests do not install.
    let settings = debian.bench().path("libvirt/etc");
    fs::create_dir_all(&settings).expect("a folder");
    fs::write(settings.join("qemu.conf"), "stdio_handler = \"file\"\n").expect("written");
    let err = debian.bench().path("libvirt.err");
    require("unshare");
    // An emulated machine needs more time to boot than other programs have.
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=5", "600", "unshare"])
        .args(AS_USER)
        .current_dir(debian.bench().folder())
        .args(["--root", &format!("{folder}/libvirt"), "domain.xml"])
        .env("HOME", &folder)
        .env("XDG_RUNTIME_DIR", &folder)
        .stderr(File::create(&err).expect("a file"));
    let mut machine = Background::start(&mut command);
    let mut wait_for = |text: &str| {
        wait_until(text, Duration::from_secs(240), || {
            assert!(
                machine.runs(),
                "{}",
                fs::read_to_string(&err).unwrap_or_default()
                    + &String::from_utf8_lossy(&fs::read(&console).unwrap_or_default())
            );
            let said = fs::read(&console).unwrap_or_default();
            String::from_utf8_lossy(&said).contains(text)
        });
    };
    wait_for("Welcome to");
    debian.kill_server();
    debian.start_server();
    wait_for(" login: ");
    drop(machine);
    // The machine has lost its power, so the file system has a journal to replay.
    debian.check_after_cut();
}

#[test]
fn libvirt_by_vhost_user_boots() {
    boots(Way::VhostUser, "type='vhostuser'");
}

#[test]
fn libvirt_by_nbd_boots_in_full() {
    boots(Way::Nbd, "driver=nbd");
}
