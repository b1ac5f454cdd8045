//! The engine on simulated drives: what may meet at home, and what a round that fails leaves.

mod archives;
mod arrays;
mod common;
mod ends;
mod growing;
mod indirect;
mod openings;
mod readers;
mod rounds;
