//! Whole-store simulation: seeded workloads on the real engine in virtual time, a power cut at every single
//! step of the I/O, faults of the drives, recovery, and a model that knows every state that may be found.
//!
//! What is checked after each cut (the engine's invariants 1, 2, 4, 5, 6): the recovered store equals the
//! state after some prefix of the commit order, the prefix contains everything that was acknowledged as
//! durable, and no block is torn, mixed or unreadable. The offline check and a scrub agree with it. What a
//! fault of a drive excuses, and what not, is said in [`Blame`].

mod arus;
mod bank;
mod blame;
mod campaign;
mod client;
mod content;
mod cut;
mod drives;
mod found;
mod generate;
mod kind;
mod model;
mod observer;
mod oracle;
mod run;
mod script;
mod seeds;
mod shrink;
mod sqlite;
mod store;
mod workload;

pub use self::store::{Heads, Shape, StoreImage};
pub use arus::{Counts, Met};
pub use blame::Blame;
pub use campaign::{Campaign, Failure, Outcome, run_seed};
pub use generate::{Size, generate};
pub use kind::{Kind, try_script};
pub use oracle::{Oracle, Violation};
pub use run::run_script;
pub use script::{End, Generation, Op, Script};
pub use seeds::{Regression, regressions};
pub use shrink::shrink;
