//! Prometheus metrics: a tiny HTTP responder, and the text that it gives.

mod http;
mod text;

pub use http::{Address, Responder};
