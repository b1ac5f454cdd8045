//! Simulation of whole stores: seeded workloads run on the real engine in virtual time, with faults of drives and a
//! power cut at every step of the I/O. A model knows every state that may be found after recovery.
//!
//! After each cut the following must hold (the engine's invariants 1, 2, 4, 5, 6): the recovered store equals the state
//! after some prefix of the commit order, the prefix contains everything that was acknowledged as durable, and no block
//! is torn, mixed or unreadable. The offline check and a scrub must agree. [`Blame`] says which deviations a drive's
//! faults excuse.

pub mod archives;
mod arrays;
mod arus;
mod bank;
mod blame;
mod campaign;
mod client;
mod content;
mod counts;
mod cut;
mod cuts;
mod drives;
mod found;
mod generate;
mod generations;
mod history;
mod kind;
mod model;
mod observer;
mod oracle;
mod run;
mod runtime;
mod script;
mod seeds;
mod shrink;
mod sqlite;
mod store;
pub mod trees;
mod workload;

pub use self::store::{Heads, Image, Layout, Shape, StoreImage, create, members};
pub use arrays::{ArrayImage, ArrayShape, OpenArray};
pub use blame::Blame;
pub use campaign::{Failure, Outcome};
pub use counts::{Counts, Met};
pub use found::contents;
pub use generate::{Size, generate};
pub use kind::{Kind, try_script};
pub use oracle::Oracle;
pub use run::run_script;
pub use script::{End, Generation, Op, Script};
pub use seeds::{Regression, regressions};
pub use shrink::shrink;
pub use workload::{fill, read_stamps};
