//! A store in a guest on a drive whose writes begin to fail (dm-flakey): programs see errors, nothing that was durable is lost, and the
//! store goes on when the drive does.

use std::path::Path;
use tonearm_tests::guest::Image;
use tonearm_tests::{Bench, MIB, kill_rounds};

const SCRIPT: &str = "
must modprobe virtio_blk
must modprobe dm-flakey
sectors=$(blockdev --getsz /dev/vda)
must dmsetup create drive --noudevsync --table \"0 $sectors linear /dev/vda 0\"
must dmsetup mknodes
drive=/dev/mapper/drive
must tonearm create $drive --size 96MiB --log-size 8MiB --force

# Gives the drive another table.
becomes() {
    must dmsetup load drive --table \"0 $sectors $*\"
    must dmsetup suspend --noudevsync drive
    must dmsetup resume --noudevsync drive
}
# The number of the last step that was durable.
done=0
for round in $(seq 0 $(option rounds)); do
    attach $drive
    if [ $round = 0 ]; then
        must /bin/mke2fs -q -t ext4 $device
        must mount $device /mnt
        must mkdir /mnt/load
        must sync
    else
        must mount $device /mnt
        must guest-load /mnt/load $done 0
        must umount /mnt
        must e2fsck -fn $device
        must mount $device /mnt
    fi
    [ $round != $(option rounds) ] || break
    : >/run/steps
    guest-load /mnt/load $done 1000000 >>/run/steps 2>/run/load &
    load=$!
    until [ $(grep -c ^done /run/steps) -ge $((5 + round % 7)) ]; do
        kill -0 $load || failed \"load: $(cat /run/load)\"
        usleep 50000
    done
    becomes flakey /dev/vda 0 0 3600 1 error_writes
    wait $load && failed 'the load has not noticed that the drive fails'
    # A line that is not whole was not printed after a durable step.
    done=$(sed -n 's/^done //p' /run/steps | tail -n 1)
    say failed after step $done: $(tail -n 1 /run/load)
    umount /mnt
    tonearm detach $device >/run/out 2>&1 && failed 'a device was detached, and its page cache was not written'
    grep -q 'the device stays' /run/out || failed \"detach said: $(cat /run/out)\"
    must tonearm detach --force $device
    wait $server && failed 'the server of a failed store ended as if all were well'
    grep -q 'Input/output error' /run/notes || failed \"the server said: $(cat /run/notes)\"
    becomes linear /dev/vda 0
done
must umount /mnt
must tonearm detach $device
wait $server || failed \"the server gave $?: $(cat /run/notes)\"
must tonearm check $drive
must dmsetup remove --noudevsync drive
";

#[test]
fn store_survives_a_drive_whose_writes_fail() {
    let bench = Bench::new();
    let load = Path::new(env!("CARGO_BIN_EXE_guest-load"));
    let image = Image::new(&bench, SCRIPT, load);
    let words = format!("rounds={}", kill_rounds(2));
    let guest = image.boot_with_drive(&bench, 192 * MIB, &words);
    for _ in 0..kill_rounds(2) {
        println!("{}", guest.wait_for("failed after"));
    }
    guest.ended();
}
