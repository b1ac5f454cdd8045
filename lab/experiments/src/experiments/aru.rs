//! The micro-benchmarks of the paper on atomic recovery units, on the file system of a store and on Minix in place.

mod files;
mod large;
mod minix;
mod minix_cache;
pub(super) mod on_lists;
mod order;
mod programs;
mod runs;
pub(super) mod setup;
mod small;
pub(super) mod tonearm;

use self::setup::{LOG_BYTES, MEMORY_BYTES, MIB, STORE_BYTES};
use crate::experiment::{Context, Drives, Experiment, Outcome};
use tonearm_drive_file::DriveFile;

pub const EXPERIMENT: Experiment = Experiment {
    name: "aru",
    title: "Atomic recovery units: small files and a large file",
    source: "ARU 5.2 and 5.3, Figures 5 and 6",
    about: "Programs create, read and delete small files, and write and read a large one in sequence and at random. The file systems are \
            Minix with one list a file over the Logical Disk, with sequential and with concurrent units, that of a store, whose every \
            operation is a recovery unit, and Minix in place. Two file systems share one Logical Disk.",
    drives: Drives::One("hp_c3010"),
    run,
};

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let drive = &drives[0];
    let mut outcome = Outcome::default();
    let bandwidth = setup::bandwidth(drive, context.seed(0)).expect("a drive without faults");
    small::small_files(context, drive, bandwidth, &mut outcome);
    order::read_orders(context, drive, &mut outcome);
    large::large_file(context, drive, bandwidth, &mut outcome);
    outcome.notes = vec![
        "old, new and new, delete are Minix over the Logical Disk (ARU, Table 1), with one program. old has one unit at a time, on the \
         committed state; new is the product's disk. Both give the drive the same work. What shadows cost the processor is in \
         aru-overhead. old and new free the blocks of a deleted file one by one, new, delete with its list."
            .into(),
        "Over the Logical Disk the creation and the deletion of a file are units, and writes are simple operations, as in the paper. In the \
         file system of a store each operation is a unit."
            .into(),
        format!(
            "Minix in place is a model: bitmaps, inodes and directories at fixed places, blocks of 4 KB, a block cache of {} MiB. When a changed \
             block has to leave it, all changed blocks are written in the order of their places, one request for each and one at a \
             time. Nothing keeps it whole in a crash.",
            MEMORY_BYTES / MIB
        ),
        "Each phase ends when everything is durable. Before the next one the store writes everything home, and no content of files is \
         left in memory, so reads are of the drive. Metadata may stay in memory."
            .into(),
        "The shares of the processor are those of a model: 24.7 us on average for an operation, with an exponential distribution, as \
         the server of a mount takes on a present machine (benchmarks, small-files), and the measured times of requests. The \
         processor of the paper, at 70 MHz, took far more of the time, so its overheads of units are mostly those of the processor."
            .into(),
        "The runs differ in the angle of the platter at the beginning and in the times of operations. The spread is the largest less \
         the least value, in percent of the mean."
            .into(),
        "A request is near the one before if it begins within 64 KiB after its end.".into(),
        format!(
            "Blocks of 4 KiB, a store of {} MiB in segments of 0.5 MB with a log of {} MiB on one drive, {} MiB of memory for \
             written blocks. The log waits up to 0.1 s for more commits, because nobody waits for durability before the end of a \
             phase. Each block is written twice, to the log and to a segment; the paper's prototype has its segments alone. What \
             fits in memory, such as the 10-KB files, is written to the log alone in its phase.",
            STORE_BYTES / MIB,
            LOG_BYTES / MIB,
            MEMORY_BYTES / MIB
        ),
    ];
    outcome
}
