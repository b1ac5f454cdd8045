//! The unit of systemd, the line of fstab and the rule of udev from docs/operations/block-devices.md, in a Debian system: a file system on a device of
//! `tonearm attach` is mounted at each boot, goes on when the server of the device was killed, and is unmounted at the end.

use tonearm_tests::console::Console;
use tonearm_tests::debian::{Debian, Way};
use tonearm_tests::{binary, guest, kill_rounds, recipe};

/// Writes a file of the system.
#[track_caller]
fn write(machine: &mut Console, path: &str, text: &str) {
    machine.run(&format!("cat >>{path} <<'END'\n{text}END"));
}

#[track_caller]
fn wait_for_mount(machine: &mut Console, device: &str) {
    machine.run("for i in $(seq 90); do mountpoint -q /mnt && break; sleep 1; done; mountpoint -q /mnt || (tonearm devices; systemctl --no-pager status tonearm-attach@disk mnt.mount; ls /dev/disk/*; false)");
    assert!(machine.run("findmnt -no SOURCE /mnt").starts_with(device));
}

#[track_caller]
fn end(mut machine: Console) {
    machine.enter("poweroff");
    machine.ended();
}

fn is_mounted_at_boot(debian: Debian, device: &str) {
    let heading = "As a service";
    let blocks = recipe::blocks("docs/operations/block-devices.md", heading);
    let block = |part: &str| {
        let found: Vec<&String> = blocks.iter().filter(|block| block.contains(part)).collect();
        assert_eq!(found.len(), 1, "one block with {part}");
        found[0].as_str()
    };
    let bench = debian.bench();
    let program = binary();
    let program = program.to_str().expect("a path in UTF-8");
    bench.tool("strip", &["-o", "tonearm", program]);
    bench.tool("tar", &["-cf", "tonearm.tar", "tonearm"]);

    let mut machine = debian.boot_with("tonearm.tar");
    machine.log_in();
    machine.run("tar -xf /dev/vdb -C /usr/local/bin && mkdir -p /srv/tonearm");
    machine.run("tonearm create /srv/tonearm/disk.tn --size 128MiB --log-size 64MiB");
    write(
        &mut machine,
        "/etc/systemd/system/tonearm-attach@.service",
        block("ExecStart="),
    );
    write(
        &mut machine,
        "/etc/udev/rules.d/61-tonearm.rules",
        block("SUBSYSTEM"),
    );
    // The system has no tools of XFS.
    write(
        &mut machine,
        "/etc/fstab",
        &block("LABEL=data").replace(" xfs ", " ext4 "),
    );
    machine.run("systemctl enable --now tonearm-attach@disk 2>/dev/null");
    machine.run(&format!(
        "for i in $(seq 60); do [ $(blockdev --getsize64 {device} 2>/dev/null || echo 0) -gt 0 ] && break; sleep 1; done; mkfs.ext4 -q -L data {device}"
    ));
    end(machine);

    for round in 0..kill_rounds(1) {
        let mut machine = debian.boot();
        machine.log_in();
        wait_for_mount(&mut machine, device);
        machine.run("[ ! -e /mnt/sums ] || sha256sum --quiet -c /mnt/sums");
        // The mount stays, whether a program uses it or not.
        let mounted = "systemctl show -P InvocationID mnt.mount";
        let before = machine.run(mounted);
        machine.run("systemctl kill --signal=KILL tonearm-attach@disk");
        let write = format!("dd if=/dev/urandom of=/mnt/{round} bs=64k count=64 conv=fsync");
        machine.run(&format!(
            "{write} 2>/dev/null && sha256sum /mnt/{round} >>/mnt/sums"
        ));
        machine.run("systemctl is-active --quiet tonearm-attach@disk && systemctl is-active --quiet mnt.mount && mountpoint -q /mnt");
        assert_eq!(machine.run(mounted), before);
        let failed = machine.run("systemctl --failed --plain --no-legend");
        assert_eq!(failed, "", "services");
        end(machine);
        println!("{device}: mounted, killed and ended, round {round}");
    }
    let mut machine = debian.boot();
    machine.log_in();
    wait_for_mount(&mut machine, device);
    machine
        .run("sha256sum --quiet -c /mnt/sums && umount /mnt && e2fsck -fn /dev/disk/by-label/data");
    machine.run("systemctl stop tonearm-attach@disk && tonearm check /srv/tonearm/disk.tn");
    end(machine);
    debian.check();
}

/// With the kernel of Debian 12, which has no ublk.
#[test]
fn systemd_mounts_a_device_by_nbd_in_full() {
    is_mounted_at_boot(Debian::new(Way::VhostUser), "/dev/nbd0");
}

/// With a kernel that has ublk, and a udev that does not know it.
#[test]
fn systemd_mounts_a_device_by_ublk_in_full() {
    let kernel = guest::kernel_package();
    is_mounted_at_boot(Debian::with(Way::VhostUser, &kernel), "/dev/ublkb0");
}
