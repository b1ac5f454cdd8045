//! A server that ends, or is killed, with as many requests as its ublk device can have at a time. The kernel then has no command of the dead server
//! that it could end, and notices the death by a timer.

use std::path::Path;
use std::time::{Duration, Instant};
use tonearm_tests::guest::Image;
use tonearm_tests::{Bench, MIB, kill_rounds};

const SCRIPT: &str = "
must modprobe virtio_blk
must tonearm create /dev/vda --size 64MiB --log-size 8MiB --force
attach /dev/vda --driver ublk
# Small requests, as many as there are.
queue=/sys/block/ublkb0/queue
echo 4 >$queue/max_sectors_kb
echo none >$queue/scheduler
[ ! -e $queue/wbt_lat_usec ] || echo 0 >$queue/wbt_lat_usec
must /bin/mke2fs -q -t ext4 $device
must mount $device /mnt
most=0
for round in $(seq $(option rounds)); do
    dd if=/dev/urandom of=/run/data bs=1M count=16 2>/dev/null
    rm -f /run/dd
    (dd if=/run/data of=/mnt/file bs=1M conv=fsync 2>/dev/null; echo $? >/run/dd) &
    dd=$!
    full=0
    until [ $full -ge 64 ]; do
        [ ! -e /run/dd ] || failed \"the queue was never full: $most\"
        read reads full </sys/block/ublkb0/inflight
        [ $full -le $most ] || most=$full
    done
    # A server that ends in order leaves the requests that it has not begun.
    if [ $((round % 2)) = 0 ]; then
        kill $server
        wait $server || failed \"the server gave $?: $(cat /run/notes)\"
        say ended with $full
    else
        kill -9 $server
        wait $server
        say killed with $full
    fi
    attach /dev/vda --driver ublk
    say served
    wait $dd
    [ \"$(cat /run/dd)\" = 0 ] || failed 'a write has failed'
    echo 3 >/proc/sys/vm/drop_caches
    must cmp /run/data /mnt/file
    say compared
done
must umount /mnt
must e2fsck -fn $device
must tonearm detach $device
wait $server || failed \"the server gave $?: $(cat /run/notes)\"
must tonearm check /dev/vda
";

/// Several times what the kernel needs to notice.
const SERVED_MAX: Duration = Duration::from_secs(15);

#[test]
fn a_full_queue_is_taken_over() {
    let bench = Bench::new();
    let load = Path::new(env!("CARGO_BIN_EXE_guest-load"));
    let image = Image::new(&bench, SCRIPT, load);
    let rounds = kill_rounds(2);
    let guest = image.boot_with_drive(&bench, 192 * MIB, &format!("rounds={rounds}"));
    for round in 0..rounds {
        let end = ["killed with", "ended with"][round as usize % 2];
        let under_way = guest.wait_for(end);
        let ended = Instant::now();
        guest.wait_for("served");
        let served = ended.elapsed();
        guest.wait_for("compared");
        println!(
            "round {round}: {end} {under_way} requests under way, served again after {served:?}"
        );
        assert!(served < SERVED_MAX, "served again after {served:?}");
    }
    guest.ended();
}
