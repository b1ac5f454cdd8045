//! Indirect writes: the blocks of large commits are written to their places at home first, and the log gets these places alone, 24
//! bytes for each block (ZFS's `WR_INDIRECT` log records). So a stream of large commits is written once.
//!
//! A caller that waits for a commit is answered sooner if the log has the blocks, because that is one device write and not two in
//! turn. And it waits for all commits before its own: of a stream that fills the memory these may be many. So this is done only for
//! streams beside which no caller has waited for a while. The commits stay in the queue, in their order, until their blocks are durable;
//! the records that name the places are written after that.

use super::Trail;
use super::options::TrailOptions;
use super::sink::{Indirect, IndirectSink};
use super::state::State;
use super::writer::Step;
use crate::error::TrailError;
use crate::pack::IndirectBlock;
use std::cell::RefMut;
use std::rc::Rc;
use tonearm_base::Nanos;

/// Bytes of large commits that must be queued, in sizes of a large commit.
const QUEUED_MIN: u64 = 4;
/// Bytes that are appended at once, in the same unit. A caller that comes meanwhile waits for them.
const APPENDED: u64 = 16;
/// Bytes from which on the places are logged, so that blocks can be written back and memory becomes free.
const UNFLUSHED_MAX: u64 = 128;
impl State {
    /// The next step of indirect writes; `None` when the queue can be packed.
    pub(super) fn plan_indirect(&self, options: &TrailOptions, now: Nanos) -> Option<Step> {
        let Indirect {
            sink,
            unflushed,
            waited_at,
            refused,
            ..
        } = &self.indirect;
        sink.as_ref()?;
        if *unflushed == 0 && self.queue.has_decided() {
            return None;
        }
        let sizes = |count: u64| count.saturating_mul(options.large_commit_bytes);
        let least = if *unflushed > 0 { 1 } else { QUEUED_MIN };
        let is_refused = *refused && *unflushed > 0;
        let is_quiet = waited_at.is_none_or(|at| now >= at + options.large_commit_quiet.0);
        if is_quiet
            && !is_refused
            && self.given_up.is_none()
            && self.queue.large_bytes() >= sizes(least)
            && *unflushed < sizes(UNFLUSHED_MAX)
        {
            return Some(Step::Indirect);
        }
        (*unflushed > 0).then_some(Step::FlushIndirect)
    }
}

impl Trail {
    /// Lets `sink` take the blocks of large commits.
    pub fn set_indirect(&self, sink: Rc<dyn IndirectSink>) {
        self.0.state.borrow_mut().indirect.sink = Some(sink);
    }

    pub(super) fn append_indirect(&self, mut guard: RefMut<'_, State>) {
        let state = &mut *guard;
        let sink = state.indirect.sink.clone().expect("the plan saw it");
        let blocks: Rc<[IndirectBlock]> = state
            .queue
            .take_large(APPENDED.saturating_mul(self.0.options.large_commit_bytes))
            .into();
        state.indirect.busy = true;
        drop(guard);
        let trail = self.clone();
        self.0.rt.spawn(async move {
            let places = sink.append(blocks.clone()).await;
            let mut guard = trail.0.state.borrow_mut();
            let state = &mut *guard;
            let geometry = &trail.0.geometry;
            state.queue.decide(geometry, &blocks, places.as_deref());
            state.indirect.refused = places.is_none();
            if places.is_some() {
                let sizes = blocks.iter().map(|block| block.data.len() as u64);
                let bytes = sizes.sum::<u64>();
                state.indirect.unflushed += bytes;
                state.stats.indirect_bytes += bytes;
            }
            drop(guard);
            trail.indirect_done();
        });
    }

    pub(super) fn flush_indirect(&self, mut guard: RefMut<'_, State>) {
        let sink = guard.indirect.sink.clone().expect("the plan saw it");
        guard.indirect.busy = true;
        drop(guard);
        let trail = self.clone();
        self.0.rt.spawn(async move {
            let flushed = sink.flush().await;
            trail.0.state.borrow_mut().indirect.unflushed = 0;
            if let Err(reason) = flushed {
                trail.fail_with(TrailError::GivenUp(reason));
            }
            trail.indirect_done();
        });
    }

    fn indirect_done(&self) {
        self.0.state.borrow_mut().indirect.busy = false;
        self.0.work.notify();
        self.0.progress.notify();
    }
}
