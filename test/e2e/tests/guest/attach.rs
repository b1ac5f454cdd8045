//! `tonearm attach` in a guest: a store on the guest's disk, its volume as a block device of the guest's kernel by each of its drivers,
//! and a file system on that.

use std::path::Path;
use std::time::{Duration, Instant};
use tonearm_tests::guest::Image;
use tonearm_tests::{Bench, kill_rounds};

const SCRIPT: &str = "
must modprobe virtio_blk
fs=$(option fs)
[ $fs = ext4 ] || must modprobe $fs
mkdir /disk
[ \"$(option done)\" != 0 ] || must /bin/mke2fs -q -t ext4 /dev/vda
must mount -t ext4 /dev/vda /disk
[ \"$(option done)\" != 0 ] || must tonearm create /disk/s.tn --size 384MiB --log-size 8MiB
driver=$(option driver)

# Starts the server, and waits until it has the device.
serve() {
    attach /disk/s.tn --driver $driver
    [ $device = $(option device) ] || failed \"the device is $device\"
}
# A server that cannot make all its devices leaves none.
tonearm serve /disk/s.tn --driver $driver --attach main --attach none >/run/out 2>&1 && failed \"a volume that does not exist was attached\"
grep -q 'no volume none; there are: main' /run/out || failed \"serve said: $(cat /run/out)\"
[ -z \"$(tonearm devices 2>/dev/null)\" ] || failed \"devices: $(tonearm devices)\"
serve
if [ \"$(option done)\" = 0 ]; then
    make_fs $fs $device
    must mount -t $fs $device /mnt
    must mkdir /mnt/load
    must sync
else
    must mount -t $fs $device /mnt
    must guest-load /mnt/load $(option done) 0
    must umount /mnt
    check_fs $fs $device
    must mount -t $fs $device /mnt
fi
(guest-load /mnt/load $(option done) $(option steps) >/dev/ttyS1 2>/run/load; echo $? >/run/code) &
load=$!
for kill in $(seq $(option kills)); do
    sleep 2
    kill -9 $server
    wait $server
    tonearm detach /disk/s.tn 2>/run/busy && failed \"a mounted device was detached\"
    grep -q 'in use' /run/busy || failed \"detach said $(cat /run/busy)\"
    usleep $(option away)
    say starts again
    serve
    say served again
done
wait $load
[ \"$(cat /run/code)\" = 0 ] || failed \"load: $(cat /run/load)\"
tonearm devices --json >/run/devices
grep -q '\"in_use\": true' /run/devices || failed \"devices: $(cat /run/devices)\"
must umount /mnt
tonearm devices | grep -q free || failed \"devices: $(tonearm devices)\"
must tonearm detach $device
wait $server || failed \"the server gave $?: $(cat /run/notes)\"
[ -z \"$(tonearm devices 2>/dev/null)\" ] || failed \"devices: $(tonearm devices)\"
must tonearm check /disk/s.tn
must umount /disk
";

/// Kills the server and cuts the guest's power under a load, with the file system `fs` on a device of `driver`. After the start of another server the load must go
/// on within `stall_max`.
fn survives(fs: &str, driver: &str, device: &str, stall_max: Duration) {
    let bench = Bench::new();
    let load = Path::new(env!("CARGO_BIN_EXE_guest-load"));
    let image = Image::new(&bench, SCRIPT, load);
    let boot = |done: u64, steps: u64, kills: u64, away: u64| {
        let words = format!(
            "fs={fs} driver={driver} device={device} done={done} steps={steps} kills={kills} away={away}"
        );
        image.boot_with_drive(&bench, 1 << 30, &words)
    };
    let mut done = 0;
    for round in 0..kill_rounds(1) {
        let guest = boot(done, 1_000_000, 1, round * 170_000 % 2_000_000);
        guest.wait_for("starts again");
        let started = Instant::now();
        guest.wait_for("served again");
        let served = started.elapsed();
        for step in 0..5 + round % 7 {
            done = guest.wait_for("done ").parse().expect("a number");
            if step == 0 {
                let stall = started.elapsed();
                println!(
                    "round {round}: {driver}: served after {served:?}, a step after {stall:?}"
                );
                assert!(stall < served + stall_max, "the load stood for {stall:?}");
            }
        }
        std::thread::sleep(Duration::from_millis(round * 37 % 250));
        let lines = guest.cut_power();
        let last = lines
            .iter()
            .rev()
            .find_map(|line| line.strip_prefix("done "));
        done = last.map_or(done, |number| number.parse().expect("a number"));
        println!("round {round}: power cut after step {done}");
    }
    boot(done, 16, 0, 0).ended();
}

const NBD: &str = "/dev/nbd0";
const UBLK: &str = "/dev/ublkb0";

/// The kernel's NBD client sends requests again 30 seconds after it sent them first.
const BY_NBD: Duration = Duration::from_secs(90);
const BY_UBLK: Duration = Duration::from_secs(15);

#[test]
fn ext4_by_nbd_survives() {
    survives("ext4", "nbd", NBD, BY_NBD);
}

#[test]
fn ext4_by_ublk_survives() {
    survives("ext4", "ublk", UBLK, BY_UBLK);
}

#[test]
fn xfs_by_ublk_survives() {
    survives("xfs", "ublk", UBLK, BY_UBLK);
}

#[test]
fn btrfs_by_ublk_survives() {
    survives("btrfs", "ublk", UBLK, BY_UBLK);
}
