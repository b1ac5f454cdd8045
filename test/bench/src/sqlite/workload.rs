//! The workloads, and the ratios to peers that Tonearm must reach.

/// What a transaction does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transaction {
    /// Inserts one row at the end.
    Insert,
    /// Changes this many random rows.
    Update(u64),
}

/// One workload.
pub struct Workload {
    /// Name on the command line.
    pub name: &'static str,
    /// Description.
    pub title: &'static str,
    /// What each transaction does.
    pub transaction: Transaction,
    /// Number of databases. Connections are spread over them.
    pub databases: usize,
    /// Number of connections, each with its own thread.
    pub connections: usize,
    /// Least ratio to the rate of WAL with FULL, or none if the workload has no target.
    pub wal_full_min: Option<f64>,
}

/// Least ratio to the rate of DELETE with FULL, in every workload.
pub const DELETE_FULL_MIN: f64 = 4.0;
/// Largest ratio of the 99.9th percentile to that of WAL with FULL, in every workload.
pub const WAL_FULL_P999_MAX: f64 = 1.0 / 3.0;
/// Least ratio of `synchronous=NORMAL` to the rate of WAL with NORMAL, in every workload.
pub const WAL_NORMAL_MIN: f64 = 0.5;

/// All workloads. Rows have about 200 bytes.
pub const WORKLOADS: &[Workload] = &[
    Workload {
        name: "insert-1",
        title: "insert one row",
        transaction: Transaction::Insert,
        databases: 1,
        connections: 1,
        wal_full_min: Some(0.95),
    },
    Workload {
        name: "update-1",
        title: "update one random row of 100,000",
        transaction: Transaction::Update(1),
        databases: 1,
        connections: 1,
        wal_full_min: Some(0.95),
    },
    Workload {
        name: "update-10",
        title: "update ten random rows",
        transaction: Transaction::Update(10),
        databases: 1,
        connections: 1,
        wal_full_min: Some(1.3),
    },
    Workload {
        name: "databases-4",
        title: "update one random row; 4 connections on 4 databases",
        transaction: Transaction::Update(1),
        databases: 4,
        connections: 4,
        wal_full_min: Some(2.0),
    },
    Workload {
        name: "connections-4",
        title: "update one random row; 4 connections on one database",
        transaction: Transaction::Update(1),
        databases: 1,
        connections: 4,
        wal_full_min: None,
    },
];
