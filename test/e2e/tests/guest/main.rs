//! Tests in virtual machines with a real kernel: see `tonearm_tests::guest`. `make guest` runs them in full, with twenty rounds of
//! each kind; `make test` runs a share.

mod attach;
mod cuts;
mod debian;
mod failing;
mod libvirt;
mod logged;
mod postgres;
mod readme;
