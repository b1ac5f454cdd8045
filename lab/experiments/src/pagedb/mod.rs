//! A small page database on simulated drives: the instrument of the experiments on write-ahead logging.
//!
//! It has a buffer pool ([`Pool`]), a write-ahead log with group commit ([`Wal`]), checkpoints in six steps and recovery
//! by redo. What it does about a drive's volatile cache is a [`Rule`]: the three configurations of "Enforcing Database
//! Recoverability on Disks that Lack Write-Through" (Durable WAL), and a flush for each commit.
//!
//! A transaction reads its pages, and changes all of them at once when it commits, in one log record. So no page ever has
//! changes of a transaction that has not committed, recovery has nothing to undo, and no transaction is active at the
//! start of a checkpoint as far as the log knows: MinLSN (5.4, step 2) is the start of the checkpoint.

mod checkpoint;
pub mod cuts;
pub mod database;
mod instant;
pub(crate) mod page;
mod pool;
mod record;
pub mod recovery;
mod terminals;
mod timed;
pub mod wal;

pub use cuts::{Cut, Cuts, Report, Storage, cut_power, cut_power_of};
pub use database::{Commit, Database, DatabaseOptions, Devices};
pub use recovery::Damage;
pub use terminals::{Measured, Transaction, tpcc};
pub use timed::{Machine, TpccRun};
pub use wal::{Cause, Rule};
