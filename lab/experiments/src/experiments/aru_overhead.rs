//! What concurrent recovery units cost the processor (ARU 5.3).

mod lists;
mod shares;
mod small;
mod system;
mod units;

use crate::experiment::{Context, Drives, Experiment, Outcome};
use tonearm_drive_file::DriveFile;

pub const EXPERIMENT: Experiment = Experiment {
    name: "aru-overhead",
    title: "Atomic recovery units: what concurrent units cost the processor",
    source: "ARU 5.2 and 5.3, Figure 5",
    about: "A Minix file system with one list a file creates, writes, reads and deletes small files on two Logical Disks. \"new\" is the \
            product's, with concurrent recovery units. \"old\" has one unit at a time, on the committed state. Lists are deleted block by \
            block and as a whole, and the smallest units are timed.",
    drives: Drives::One("hp_c3010"),
    run,
};

fn run(context: &Context<'_>, drives: &[DriveFile]) -> Outcome {
    let drive = &drives[0];
    let mut outcome = Outcome {
        is_partial: !context.is_full(),
        ..Outcome::default()
    };
    small::small_files(context, drive, &mut outcome);
    lists::deletions(context, drive, &mut outcome);
    units::smallest_units(context, drive, &mut outcome);
    outcome.notes = vec![
        "Processor times are of the machine that ran the experiment, unlike all other figures of the laboratory. So a quick run shows \
         them and has no bound for them."
            .into(),
        "old does an operation once, on copies of the committed pages of records, and its end commits these. new does it on the unit's \
         own records, logs it, and does it again on copies of the committed pages when the unit ends. Both choose the same blocks and \
         write the same log, which the findings show."
            .into(),
        "The creation and the deletion of a file are units. Its blocks are allocated and written by simple operations, as in ARU 5.2. \
         Directories have 100 files each."
            .into(),
        "Each phase ends with a flush, and everything is written back before the next one. The processor is busy with the file system, \
         the disk, the log and the simulated drive. The tolerances of the paper's shares, 5 % of each, were set before the first run."
            .into(),
    ];
    outcome
}
