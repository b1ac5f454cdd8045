//! Generators against the distributions that they promise.

mod common;
mod pool;
mod skew;
mod tpcc_input;
mod tpcc_pages;
mod trace;
