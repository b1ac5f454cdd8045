//! `tonearm exec --atomic`: a command in a unit of a mounted store.

use crate::cli::Exec;
use anyhow::anyhow;
use rustix::io::Errno;
use rustix::process::{WaitOptions, WaitStatus, getpid, set_child_subreaper, wait};
use std::io::ErrorKind;
use std::process::{Command, ExitCode};
use tonearm_fuse::ProcessUnit;
use tonearm_terminal::report;

/// Others have changed what the command has used (EX_TEMPFAIL).
const CONFLICT: u8 = 75;
/// The unit could not end (EX_IOERR).
const NOT_ENDED: u8 = 74;
/// The command was not run, as for env(1) and timeout(1).
const NO_UNIT: u8 = 125;
const NOT_RUN: u8 = 126;
const NO_COMMAND: u8 = 127;
/// Added to the number of a signal, as shells do.
const SIGNAL: u8 = 128;

/// Runs the command.
///
/// # Errors
/// When processes cannot be waited for.
pub fn run(arguments: &Exec) -> anyhow::Result<ExitCode> {
    // Processes whose parents end stay below this one, and so in the unit.
    set_child_subreaper(Some(getpid()))?;
    let unit = match ProcessUnit::begin(&arguments.on) {
        Ok(unit) => unit,
        Err(error) => {
            report::complain(&anyhow!("{}: {}", arguments.on.display(), text(error)));
            return Ok(NO_UNIT.into());
        }
    };
    let (name, words) = arguments
        .command
        .split_first()
        .expect("the command line has a command");
    let child = match Command::new(name).args(words).spawn() {
        Ok(child) => child,
        Err(error) => {
            report::complain(&anyhow!("{}: {error}", name.to_string_lossy()));
            let is_missing = error.kind() == ErrorKind::NotFound;
            return Ok(if is_missing { NO_COMMAND } else { NOT_RUN }.into());
        }
    };
    let code = wait_for_all(child.id())?;
    if code != 0 {
        // The end of this process would abort it, too.
        let _ = unit.abort();
        return Ok(code.into());
    }
    match unit.commit() {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(Errno::CANCELED) => {
            report::complain(&anyhow!(
                "nothing has happened: others have changed what the command has used, or the unit was open for too long \
                 (mount -o unit_time=SECONDS), or the store was full; run it again",
            ));
            Ok(CONFLICT.into())
        }
        Err(error) => {
            report::complain(&anyhow!("the unit could not end: {}", text(error)));
            Ok(NOT_ENDED.into())
        }
    }
}

/// Waits for the process `first` and all others below this one. Gives the exit code of `first`.
fn wait_for_all(first: u32) -> anyhow::Result<u8> {
    let mut code = 0;
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((process, status))) => {
                if process.as_raw_nonzero().get().cast_unsigned() == first {
                    code = code_of(status);
                }
            }
            Ok(None) | Err(Errno::INTR) => {}
            Err(Errno::CHILD) => return Ok(code),
            Err(error) => return Err(error.into()),
        }
    }
}

fn code_of(status: WaitStatus) -> u8 {
    let code = status.exit_status();
    let signal = status.terminating_signal();
    match (code, signal) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => SIGNAL.wrapping_add(signal as u8),
        (None, None) => 1,
    }
}

fn text(error: Errno) -> String {
    match error {
        Errno::NOTTY => {
            "it is not on a mounted store of this version; name a directory of one with --on".into()
        }
        Errno::INVAL => {
            "this process is in a unit already, of which the command can be a part".into()
        }
        Errno::AGAIN => "there are as many units as there may be; end some".into(),
        Errno::NOTCONN => "the server has ended; nothing has happened".into(),
        Errno::NOSPC => {
            "the store is full, or the unit needs more memory than units may have".into()
        }
        error => error.to_string(),
    }
}
