//! What a drive is like, seen only through timed reads and writes.
//!
//! [`calibrate`] measures a device, simulated or real, as straight-line code over the executor. Its
//! [`Findings`] become a drive file by [`drive_file`]; [`take_profile`] takes a profile for the Disk Mimic.
//! [`deltas`] finds on the model of a drive what passes between two requests, for [`deltas_section`].
//!
//! The parts: `probe` (one timed request after the other), `journal` (questions and answers; what is resumed),
//! `spindle` (the period, angles of sectors), `survey` (tracks at a place), `layout` (a belief about all of the
//! drive), `map` (tries and mends the belief), `least` (shortest times between requests), `arm`, `cache`,
//! `flash`. How it works and how accurate it is: docs/calibration.md.

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
