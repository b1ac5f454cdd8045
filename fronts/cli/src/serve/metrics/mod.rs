//! Prometheus metrics: a small HTTP responder, and the text of its page.

mod http;
mod text;

pub use http::{Address, Responder};
#[cfg(test)]
pub use text::text_test::page as example;
