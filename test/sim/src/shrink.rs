//! Shortens a failing script: it removes generations, clients, faults and operations while the script still fails.

use crate::campaign::Failure;
use crate::script::{Generation, Op, Script};
use std::time::{Duration, Instant};

/// Returns the script without `count` items from number `at` on, or none if there are not so many.
type Stage = fn(script: &Script, at: usize, count: usize) -> Option<Script>;

/// Runs a script and returns its failure, if it fails.
pub trait Runner: Fn(&Script) -> Option<Failure> {}
impl<T: Fn(&Script) -> Option<Failure>> Runner for T {}

/// The shortest failing script found within `limit`, starting from `script`, which fails with `failure`.
pub fn shrink(
    script: &Script,
    failure: Failure,
    limit: Duration,
    runner: impl Runner,
) -> (Script, Failure) {
    let mut best = (script.clone(), failure);
    let began = Instant::now();
    loop {
        let before = best.0.clone();
        // Operations are removed in large pieces first.
        let half = best.0.operations().div_ceil(2).max(1);
        let stages: [(Stage, usize); 4] = [
            (without_generation, 1),
            (without_client, 1),
            (without_fault, 1),
            (without_ops, half),
        ];
        for (stage, mut piece) in stages {
            loop {
                let mut at = 0;
                while let Some(candidate) = stage(&best.0, at, piece) {
                    if began.elapsed() > limit {
                        return best;
                    }
                    match runner(&candidate) {
                        Some(failure) => best = (candidate, failure),
                        None => at += piece,
                    }
                }
                if piece == 1 {
                    break;
                }
                piece = piece.div_ceil(2);
            }
        }
        if best.0 == before {
            return best;
        }
    }
}

fn without_generation(script: &Script, at: usize, _: usize) -> Option<Script> {
    // The last generation is removed first, because those after the failure are not needed.
    let at = script.generations.len().checked_sub(at + 1)?;
    let mut shorter = script.clone();
    shorter.generations.remove(at);
    (!shorter.generations.is_empty()).then_some(shorter)
}

fn without_client(script: &Script, at: usize, _: usize) -> Option<Script> {
    without(script, at, |generation| &mut generation.clients)
}

fn without_fault(script: &Script, at: usize, _: usize) -> Option<Script> {
    without(script, at, |generation| &mut generation.faults)
}

/// The script without the item `at`, counted over all generations.
fn without<T>(
    script: &Script,
    mut at: usize,
    of: fn(&mut Generation) -> &mut Vec<T>,
) -> Option<Script> {
    let mut shorter = script.clone();
    for items in shorter.generations.iter_mut().map(of) {
        if at < items.len() {
            items.remove(at);
            return Some(shorter);
        }
        at -= items.len();
    }
    None
}

/// The script without `count` operations from number `at` on, counted over all clients.
fn without_ops(script: &Script, at: usize, count: usize) -> Option<Script> {
    if at >= script.operations() {
        return None;
    }
    let mut shorter = script.clone();
    let mut number = 0;
    for client in shorter.generations.iter_mut().flat_map(|g| &mut g.clients) {
        client.retain(|_: &Op| {
            number += 1;
            !(at..at + count).contains(&(number - 1))
        });
    }
    Some(shorter)
}
