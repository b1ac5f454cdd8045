//! Which driver of the guest's kernel `tonearm attach` takes, what it says when there is none, and how a device by ublk ends and is
//! taken over.

use std::path::Path;
use tonearm_tests::guest::Image;
use tonearm_tests::{Bench, MIB};

const SCRIPT: &str = "
must modprobe virtio_blk
must tonearm create /dev/vda --size 5300MiB --no-volume --log-size 8MiB --force
must tonearm volume create /dev/vda main --size 64MiB
# The kernel discards at most 2 GiB at a time.
must tonearm volume create /dev/vda data --size 5GiB

# A command that must fail, and say this.
refused() {
    what=$1
    shift
    \"$@\" >/run/out 2>&1 && failed \"$* went well\"
    grep -q \"$what\" /run/out || failed \"$* said: $(cat /run/out)\"
}
# The server ends when its device is detached.
detached() {
    must tonearm detach \"$@\"
    wait $server || failed \"the server gave $?: $(cat /run/notes)\"
    [ ! -e $device ] || [ ${device#/dev/nbd} != $device ] || failed \"$device is still there\"
}
# A copy does not get the device of the original, also where the original was.
copied() {
    must tonearm create /run/a.tn --size 4MiB --log-size 8MiB
    attach /run/a.tn
    original=$device
    must dd if=/dev/urandom of=/run/block bs=4k count=1
    must dd if=/run/block of=$original conv=fsync
    kill -9 $server
    wait $server
    must mv /run/a.tn /run/b.tn
    must cp /run/b.tn /run/a.tn
    attach /run/a.tn
    [ $device != $original ] || failed 'a copy has the device of the original'
    must dd if=/dev/zero of=$device bs=4k count=1 conv=fsync
    detached $device
    attach /run/b.tn
    [ $device = $original ] || failed \"the device of the original is $device\"
    echo 3 >/proc/sys/vm/drop_caches
    must cmp -n 4096 /run/block $device
    detached $device
    rm /run/*.tn
}
# Kernels without modules.
mv /lib/modules /lib/hidden
refused 'neither the module ublk_drv nor nbd' tonearm attach /dev/vda
refused 'no module ublk_drv' tonearm attach /dev/vda --driver ublk
refused 'no module nbd' tonearm attach /dev/vda --driver nbd
refused 'to be attached twice' tonearm serve /dev/vda --socket /run/s.sock --attach main --attach main
refused 'server with a mount' tonearm serve /dev/vda --socket /run/s.sock --mount /mnt --attach main --driver ublk
[ -z \"$(tonearm devices 2>/dev/null)\" ] || failed \"devices: $(tonearm devices)\"
mv /lib/hidden /lib/modules
must modprobe nbd
mv /lib/modules /lib/hidden
attach /dev/vda
[ $device = /dev/nbd0 ] || failed \"without ublk the device is $device\"
detached /dev/vda

# Without a server the patience ends; the device can be given up, and made again.
attach /dev/vda --patience 3s
kill -9 $server
wait $server
begun=$(date +%s)
dd if=$device of=/dev/null bs=4k skip=1000 count=1 2>/dev/null && failed 'a read without a server went well'
waited=$(($(date +%s) - begun))
[ $waited -ge 1 ] && [ $waited -le 60 ] || failed \"the read waited for $waited s\"
must tonearm detach $device
[ -z \"$(tonearm devices 2>/dev/null)\" ] || failed \"devices: $(tonearm devices)\"
attach /dev/vda
[ \"$(blockdev --getsize64 $device)\" = $((64 << 20)) ] || failed 'size by nbd'
detached /dev/vda
copied
say patience

mv /lib/hidden /lib/modules

# The better driver, its device in several sizes of sectors.
attach /dev/vda
[ $device = /dev/ublkb0 ] || failed \"with ublk the device is $device\"
[ \"$(cat /sys/block/ublkb0/queue/logical_block_size)\" = 4096 ] || failed 'sectors'
grep -q 'write back' /sys/block/ublkb0/queue/write_cache || failed 'cache'
[ \"$(cat /sys/block/ublkb0/queue/fua)\" = 1 ] || failed 'fua'
[ \"$(blockdev --getsize64 $device)\" = $((64 << 20)) ] || failed 'size'
dd if=/dev/urandom of=/run/data bs=1M count=16 2>/dev/null
must dd if=/run/data of=$device bs=1M
must cmp -n $((16 << 20)) /run/data $device
blkdiscard -o 0 -l $((1 << 20)) $device || failed 'discard'
must cmp -n $((1 << 20)) /dev/zero $device
detached /dev/vda
copied
attach /dev/vda
tonearm stats /dev/vda >/run/stats || failed 'no statistics'
grep -q 'devices by ublk' /run/stats || failed \"stats: $(cat /run/stats)\"
say data

# An end in order while programs use the device: it stays, and another server takes it over.
must /bin/mke2fs -q -t ext4 $device
must mount $device /mnt
echo before >/mnt/file
kill $server
wait $server || failed \"the server gave $?: $(cat /run/notes)\"
grep -q 'is in use: its programs wait' /run/notes || failed \"the server said: $(cat /run/notes)\"
echo after >>/mnt/file
(sync; : >/run/synced) &
sync=$!
sleep 1
[ ! -e /run/synced ] || failed 'a device without a server was synced'
tonearm devices | grep -q 'in use' || failed \"devices: $(tonearm devices)\"
refused 'is a device of this volume by ublk' tonearm attach /dev/vda --driver nbd
attach /dev/vda --sector-size 512
grep -q 'keeps its 64 MiB in sectors of 4096' /run/notes || failed \"the server said: $(cat /run/notes)\"
wait $sync
[ \"$(cat /mnt/file | tr '\\n' ' ')\" = 'before after ' ] || failed \"file: $(cat /mnt/file)\"
refused 'in use' tonearm detach /dev/vda
say taken over

# Without a server a device can be given up.
kill -9 $server
wait $server
(dd if=/dev/zero of=/mnt/more bs=4k count=1 conv=fsync 2>/dev/null; echo $? >/run/dd) &
dd=$!
sleep 1
must tonearm detach --force $device
wait $dd
[ \"$(cat /run/dd)\" != 0 ] || failed 'a write to a device that was given up went well'
umount /mnt
[ -z \"$(tonearm devices 2>/dev/null)\" ] || failed \"devices: $(tonearm devices)\"
say given up

# What was flushed is there, on a new device.
attach /dev/vda --sector-size 512
[ \"$(cat /sys/block/$(basename $device)/queue/logical_block_size)\" = 512 ] || failed 'small sectors'
must mount $device /mnt
[ \"$(cat /mnt/file | tr '\\n' ' ')\" = 'before after ' ] || failed \"file: $(cat /mnt/file)\"
must umount /mnt
must e2fsck -fn $device
# Ctrl-C detaches a device that is not in use.
kill -2 $server
wait $server || failed \"the server gave $?: $(cat /run/notes)\"
[ ! -e $device ] || failed \"$device is still there\"

# Two devices of one server; the end of one leaves the other.
tonearm serve /dev/vda --socket /run/s.sock --attach main --attach data >/run/out 2>/run/notes &
server=$!
until grep -q 'attached data' /run/notes; do
    kill -0 $server || failed \"no server: $(cat /run/notes)\"
    usleep 20000
done
must dd if=/run/data of=/dev/ublkb0 bs=1M count=8
must dd if=/run/data of=/dev/ublkb1 bs=1M count=8
must tonearm detach /dev/vda main
must cmp -n $((8 << 20)) /run/data /dev/ublkb1
[ ! -e /dev/ublkb0 ] || failed 'a detached device is there'
refused 'is a block device of this kernel' tonearm volume delete /dev/vda data
must blkdiscard /dev/ublkb1
must cmp -n $((8 << 20)) /dev/zero /dev/ublkb1
must tonearm detach /dev/vda data
kill $server
wait $server || failed \"the server gave $?: $(cat /run/notes)\"
say two devices

# A new volume is not taken for a deleted one with its name.
attach /dev/vda data
kill -9 $server
wait $server
must tonearm volume delete /dev/vda data
must tonearm volume create /dev/vda data --size 5GiB
attach /dev/vda data
[ $device = /dev/ublkb1 ] || failed \"the device of a new volume is $device\"
must tonearm detach --force /dev/ublkb0
detached $device

must tonearm volume set /dev/vda main --read-only
attach /dev/vda
[ \"$(blockdev --getro $device)\" = 1 ] || failed 'a read-only volume takes writes'
detached $device
must tonearm check /dev/vda
";

#[test]
fn the_driver_is_chosen() {
    let bench = Bench::new();
    let load = Path::new(env!("CARGO_BIN_EXE_guest-load"));
    let image = Image::new(&bench, SCRIPT, load);
    let guest = image.boot_with_drive(&bench, 6144 * MIB, "");
    for stage in ["patience", "data", "taken over", "given up", "two devices"] {
        guest.wait_for(stage);
        println!("{stage}");
    }
    guest.ended();
}
