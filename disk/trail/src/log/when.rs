//! When what is queued is written, and when it is made durable: as soon as somebody waits for it.

use super::{State, Trail, WriteCache};
use tonearm_base::{Lsn, Nanos};

impl Trail {
    /// Until when what is queued waits for more, if it does: nobody needs it yet, and it is young and small.
    pub(super) fn lingers(&self, state: &mut State) -> Option<Nanos> {
        let inner = &*self.0;
        let needed = self.first_waited().is_some()
            || !state.space_queue.is_empty()
            || state.queue.bytes() >= inner.options.pipeline_bytes;
        if inner.options.linger == Nanos(0) || needed {
            state.lingers_until = None;
            return None;
        }
        let now = inner.rt.now();
        let until = *state
            .lingers_until
            .get_or_insert(now + inner.options.linger.0);
        if now >= until {
            state.lingers_until = None;
        }
        state.lingers_until
    }

    /// Until when those who wait for what is queued wait for others, if they do. Not where a head is followed: there the
    /// place of a write depends on its time.
    pub(super) fn awaits_company(&self, state: &mut State) -> Option<Nanos> {
        let inner = &*self.0;
        let here = inner.durable.waiting();
        let durability = &state.durability;
        // Those who wait for a flush of what is written do not wait for what is queued.
        let alone = here == 0
            || durability.writes_in_flight() > 0
            || durability.durable() != durability.flushed()
            || !state.arms.is_empty()
            || !state.space_queue.is_empty()
            || state.queue.bytes() >= inner.options.pipeline_bytes;
        if alone {
            return None;
        }
        state.company.awaited_until(inner.rt.now(), here)
    }

    /// Written through when somebody waits for just this write and nothing else waits in the cache; always
    /// where a head is followed, which a write into a cache would not move.
    pub(super) fn should_write_through(&self, state: &State, lsn: Lsn) -> bool {
        let durability = &state.durability;
        if self.0.options.write_cache == WriteCache::Ordered {
            return false;
        }
        if !state.arms.is_empty() {
            return true;
        }
        durability.writes_in_flight() == 0
            && durability.durable() == durability.flushed()
            && self.first_waited().is_some_and(|waited| waited <= lsn)
    }

    pub(super) fn flush_is_needed(&self, state: &State) -> bool {
        let (flushed, durable) = (state.durability.flushed(), state.durability.durable());
        flushed.seq > durable.seq
            && (state.force_seq > durable.seq
                || self
                    .first_waited()
                    .is_some_and(|waited| waited <= flushed.lsn))
    }

    /// Oldest commit that somebody waits for and that is not durable yet.
    pub(super) fn first_waited(&self) -> Option<Lsn> {
        self.0.durable.lowest().map(Lsn)
    }
}
