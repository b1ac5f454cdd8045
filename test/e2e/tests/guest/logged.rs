//! A store in a guest on dm-log-writes, which logs what comes to the drive: the store opens from every prefix of that log, and the file
//! system on its volume has what was durable by then.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use tonearm_tests::guest::{Image, Machine};
use tonearm_tests::{Bench, MIB, kill_rounds};

/// Bytes of the drive.
const DRIVE: u64 = 192 * MIB;

/// The first boot makes a store and runs the load, with a mark in the log after each step. Each later one checks a prefix.
const SCRIPT: &str = "
must modprobe virtio_blk
drive=/dev/vda
if [ \"$(option done)\" = 0 ]; then
    must modprobe dm-log-writes
    sectors=$(blockdev --getsz /dev/vda)
    must dmsetup create logged --noudevsync --table \"0 $sectors log-writes /dev/vda /dev/vdb\"
    must dmsetup mknodes
    drive=/dev/mapper/logged
    must tonearm create $drive --size 96MiB --log-size 8MiB --force
fi
attach $drive
if [ \"$(option done)\" = 0 ]; then
    must /bin/mke2fs -q -t ext4 $device
    must mount $device /mnt
    must mkdir /mnt/load
    must sync
    must dmsetup message logged 0 mark done-0
    step=0
    # One step after the other, so that the load is never further than its mark and the next step.
    while [ $step -lt $(option steps) ]; do
        must guest-load /mnt/load $step 1
        step=$((step + 1))
        must dmsetup message logged 0 mark done-$step
    done
else
    must mount $device /mnt
    must guest-load /mnt/load $(option done) 0
fi
must umount /mnt
must e2fsck -fn $device
must tonearm detach $device
wait $server || failed \"the server gave $?: $(cat /run/notes)\"
[ $drive = /dev/vda ] || must dmsetup remove --noudevsync logged
";

/// An entry of the log (drivers/md/dm-log-writes.c).
enum Entry {
    Write { offset: u64, from: u64, bytes: u64 },
    Discard { offset: u64, bytes: u64 },
    Mark(String),
}

/// Reads the log.
fn entries(log: &File) -> Vec<Entry> {
    const MAGIC: u64 = 0x6a_7366_7773_6872;
    const DISCARD: u64 = 4;
    const MARK: u64 = 8;
    let number = |at: u64| {
        let mut bytes = [0; 8];
        log.read_exact_at(&mut bytes, at).expect("read");
        u64::from_le_bytes(bytes)
    };
    assert_eq!(number(0), MAGIC, "it is a log");
    let (count, sector) = (number(16), number(24) & 0xffff_ffff);
    let mut at = sector;
    let mut entries = Vec::new();
    for _ in 0..count {
        let (first, sectors) = (number(at), number(at + 8));
        let (flags, length) = (number(at + 16), number(at + 24));
        let (offset, bytes, from) = (first * sector, sectors * sector, at + sector);
        at = from;
        entries.push(if flags & MARK != 0 {
            let mut text = vec![0; length as usize];
            log.read_exact_at(&mut text, from - sector + 32)
                .expect("read");
            Entry::Mark(
                String::from_utf8_lossy(&text)
                    .trim_end_matches('\0')
                    .to_owned(),
            )
        } else if flags & DISCARD != 0 {
            Entry::Discard { offset, bytes }
        } else {
            at += bytes;
            Entry::Write {
                offset,
                from,
                bytes,
            }
        });
    }
    entries
}

/// Carries out an entry on a copy of the drive.
fn replay(log: &File, entry: &Entry, drive: &File) {
    match *entry {
        Entry::Write {
            offset,
            from,
            bytes,
        } => {
            let mut data = vec![0; bytes as usize];
            log.read_exact_at(&mut data, from).expect("read");
            drive.write_all_at(&data, offset).expect("written");
        }
        Entry::Discard { offset, bytes } => {
            let zeroes = vec![0; bytes as usize];
            drive.write_all_at(&zeroes, offset).expect("written");
        }
        Entry::Mark(_) => {}
    }
}

#[test]
fn every_prefix_of_what_came_to_the_drive_opens() {
    let bench = Bench::new();
    for (name, bytes) in [("drive", DRIVE), ("log", 2048 * MIB)] {
        let file = File::create(bench.path(name)).expect("a file");
        file.set_len(bytes).expect("set");
    }
    let load = Path::new(env!("CARGO_BIN_EXE_guest-load"));
    let image = Image::new(&bench, SCRIPT, load);
    let steps = 4 + 4 * kill_rounds(1);
    boot(&image, &bench, "drive", &format!("done=0 steps={steps}")).ended();

    let log = File::open(bench.path("log")).expect("a file");
    let entries = entries(&log);
    let mut drive = File::options();
    let drive = drive.read(true).write(true).create_new(true);
    let drive = drive.open(bench.path("prefix")).expect("a file");
    drive.set_len(DRIVE).expect("set");
    // The store is whole from the first mark on. Before that it is being made.
    let is_mark = |entry: &&Entry| matches!(entry, Entry::Mark(_));
    let start = entries
        .iter()
        .position(|entry| is_mark(&entry))
        .expect("a mark");
    let marks = entries.iter().filter(is_mark).count() as u64;
    // The end of the log has a mark of its own.
    assert_eq!(marks, steps + 2);
    let every = (entries.len() / (100 * kill_rounds(1) as usize)).max(1);
    // Guests check the file system of so many prefixes.
    let mounted_every = (entries.len() - start) / (1 + kill_rounds(1) as usize);
    let (mut done, mut checked, mut mounted) = (0, 0, 0);
    for (index, entry) in entries.iter().enumerate() {
        replay(&log, entry, &drive);
        if let Entry::Mark(text) = entry
            && let Some(number) = text.strip_prefix("done-")
        {
            done = number.parse::<u64>().expect("a number");
        }
        if index < start {
            continue;
        }
        if index.is_multiple_of(every) {
            bench.ok(&["check", "prefix"]);
            checked += 1;
        }
        if done > 0 && (index - start) / mounted_every > mounted {
            mounted += 1;
            std::fs::copy(bench.path("prefix"), bench.path("copy")).expect("copied");
            boot(&image, &bench, "copy", &format!("done={done}")).ended();
            bench.ok(&["check", "copy"]);
        }
    }
    println!(
        "{} entries, {checked} checked, {mounted} mounted",
        entries.len()
    );
    assert!(checked > 50 && mounted > 0);
}

fn boot(image: &Image, bench: &Bench, drive: &str, words: &str) -> Machine {
    let drive = format!("file={drive},format=raw,if=none,id=drive");
    let options = [
        "-drive",
        &drive,
        "-device",
        "virtio-blk-pci,drive=drive",
        "-drive",
        "file=log,format=raw,if=none,id=log",
        "-device",
        "virtio-blk-pci,drive=log",
    ];
    image.boot(bench, &options, words)
}
