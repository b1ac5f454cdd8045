//! Measures a drive through timed reads and writes alone.
//!
//! [`calibrate`] measures a device, simulated or real, in straight-line code over the executor. [`drive_file`] turns
//! its [`Findings`] into a drive file; [`take_profile`] measures a profile for the Disk Mimic. [`deltas`] finds the
//! delays between two requests on the model of a drive, for [`deltas_section`].
//!
//! The parts: `probe` (one timed request after the other), `journal` (questions and answers, for resuming), `spindle`
//! (the period, angles of sectors), `survey` (tracks at a place), `layout` (the assumed layout of the whole drive),
//! `map` (tests and corrects this layout), `least` (shortest times between requests), `arm`, `cache`, `flash`.
//! docs/calibration.md explains the method and its accuracy.

mod arm;
mod cache;
mod deltas;
mod drive_file;
mod error;
mod flash;
mod journal;
mod layout;
mod least;
mod map;
mod probe;
mod profile;
mod run;
mod spindle;
mod survey;

pub use arm::{Arm, Commands};
pub use cache::Memory;
pub use deltas::{deltas, deltas_section};
pub use drive_file::drive_file;
pub use error::Error;
pub use flash::{Flash, FlashWrites};
pub use journal::{Journal, replace};
pub use layout::{Layout, Zone};
pub use probe::{Hooks, Method, Progress};
pub use profile::{ProfilePlan, short_grid, take_profile};
pub use run::{Disk, Findings, Kind, LEAST_SECTORS, Options, calibrate};
pub use spindle::Spindle;
