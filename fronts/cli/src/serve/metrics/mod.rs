//! Prometheus metrics: a small HTTP responder, and the text of its page.

mod http;
mod text;

pub use http::{Address, Responder};
