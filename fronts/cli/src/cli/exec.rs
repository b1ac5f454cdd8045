//! `tonearm exec`.

use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// `tonearm exec`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cd /mnt && tonearm exec --atomic -- sh -c 'mv config config.old && make-config > config'
        both changes at once, or neither if a command fails
  tonearm exec --atomic --on /mnt -- rsync -a --delete new/ /mnt/site/
        readers see the old site, then the new one
  until tonearm exec --atomic --on /mnt -- ./step; [ $? -ne 75 ]; do :; done
        again as long as others change the same files meanwhile

What COMMAND and its descendants change on the mounted store is one unit. They see it at once. Others see
nothing of it until COMMAND has exited with 0 and all its descendants have ended; then all of it is there,
and durable. Otherwise nothing of it happens. A file that was open before belongs to the unit only by its
name. Changes through a shared memory mapping of a file that was there before are no part of the unit.

Exit codes: that of COMMAND (128 and the number of a signal that has ended it). 75: COMMAND has succeeded,
but others have changed files or names that it has used, and nothing has happened: run it again.
74: COMMAND has succeeded, and the unit could not end for another reason. 125: no unit could be begun.
126: COMMAND cannot be run. 127: there is no such command.")]
pub struct Exec {
    /// All changes at once or not at all
    #[arg(long, required = true)]
    pub atomic: bool,
    /// A directory of the mounted store [default: the present one]
    #[arg(
        long,
        value_name = "DIR",
        default_value = ".",
        hide_default_value = true
    )]
    pub on: PathBuf,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, last = true)]
    pub command: Vec<OsString>,
}
