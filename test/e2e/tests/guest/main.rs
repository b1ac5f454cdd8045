//! Tests in virtual machines with a real kernel: see `tonearm_tests::guest`. `make guest` runs them in full, with twenty rounds of
//! each kind; `make test` runs one round of two kinds (`scripts/guests.sh`).

mod attach;
mod cuts;
mod debian;
mod driver;
mod early;
mod failing;
mod libvirt;
mod logged;
mod postgres;
mod queue;
mod service;
mod ways_in;
