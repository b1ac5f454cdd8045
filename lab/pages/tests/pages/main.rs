//! Tests of whole simulations.

mod common;
mod layouts;
mod steady;
mod verification;
