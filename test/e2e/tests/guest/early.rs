//! Servers that are killed at every moment while they take over a ublk device: the next one goes on.

use std::path::Path;
use tonearm_tests::guest::Image;
use tonearm_tests::{Bench, MIB, kill_rounds};

const SCRIPT: &str = "
must modprobe virtio_blk
must tonearm create /dev/vda --size 64MiB --log-size 8MiB --force
# Starts a server and kills it after so many milliseconds.
killed_after() {
    tonearm attach /dev/vda --driver ublk >/run/attached 2>/run/notes &
    server=$!
    usleep $(($1 * 1000))
    kill -9 $server 2>/dev/null
    wait $server
}
attach /dev/vda --driver ublk
must /bin/mke2fs -q -t ext4 $device
must mount $device /mnt
must mkdir /mnt/load
sync
guest-load /mnt/load 0 1000000 >/run/steps 2>/run/load &
load=$!
for round in $(seq $(option rounds)); do
    kill -9 $server 2>/dev/null
    wait $server
    killed_after $((round * 37 % 600))
    say killed $round: $(cat /run/attached)
done
attach /dev/vda --driver ublk
steps=$(grep -c ^done /run/steps)
until [ $(grep -c ^done /run/steps) -ge $((steps + 5)) ]; do
    kill -0 $load || failed \"load: $(cat /run/load)\"
    usleep 50000
done
kill $load
wait $load
done=$(sed -n 's/^done //p' /run/steps | tail -n 1)
must umount /mnt
must e2fsck -fn $device
must mount $device /mnt
must guest-load /mnt/load $done 0
must umount /mnt
must tonearm detach $device
wait $server || failed \"the server gave $?: $(cat /run/notes)\"
must tonearm check /dev/vda
";

#[test]
fn a_server_may_die_while_it_takes_a_device_over() {
    let bench = Bench::new();
    let load = Path::new(env!("CARGO_BIN_EXE_guest-load"));
    let image = Image::new(&bench, SCRIPT, load);
    // The start of a server takes less than so many milliseconds here; 37 meets each of them in time.
    let rounds = 6 * kill_rounds(1);
    let guest = image.boot_with_drive(&bench, 192 * MIB, &format!("rounds={rounds}"));
    for _ in 0..rounds {
        println!("killed {}", guest.wait_for("killed"));
    }
    guest.ended();
}
