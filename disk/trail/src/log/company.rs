//! Who waits for one device write together.
//!
//! Clients that commit again and again come back soon after their last commits are durable. Were the next device write to
//! start with the first of them, the others would have to wait for it and then for one of their own: from then on
//! the clients would come in two groups by turns, each paying for two writes. So the first waits for the rest, as
//! long as that may pay: for the time of a device write. When nobody came, for clients that think for longer between
//! their commits, the next few times nobody is waited for.

use tonearm_base::Nanos;

/// Most device writes for which nobody is waited for, after waits in vain.
const SKIP_MAX: u32 = 7;

/// See the module.
#[derive(Default)]
pub(crate) struct Company {
    /// When the last device write was sent.
    pub sent: Nanos,
    /// How many waited when the last commits became durable: for these, and for the next ones.
    expected: usize,
    /// When that was.
    since: Nanos,
    /// What a device write takes until it is durable, at best and of late.
    usual: Nanos,
    /// How many were there when they began to wait for others, while they do.
    first: Option<usize>,
    /// Waits in vain in a row, as a power of two less one.
    vain: u32,
    /// Device writes that are not waited for.
    skip: u32,
}

impl Company {
    /// Commits are durable for which `released` have waited, while `left` wait for others.
    pub fn part(&mut self, now: Nanos, released: usize, left: usize) {
        let took = now.since(self.sent);
        self.usual = match self.usual {
            Nanos(0) => took,
            // An outlier is forgotten at once, a slower device learnt in a few writes.
            usual => took.min(usual + usual.0 / 8 + 1),
        };
        (self.expected, self.since, self.first) = (released + left, now, None);
        self.skip = self.skip.saturating_sub(1);
    }

    /// Until when those who are `here` wait for the others, if they do.
    pub fn awaited_until(&mut self, now: Nanos, here: usize) -> Option<Nanos> {
        if here >= self.expected || self.skip > 0 {
            self.gather(here);
            return None;
        }
        let until = self.since + self.usual.0;
        if now < until {
            self.first.get_or_insert(here);
            return Some(until);
        }
        self.gather(here);
        self.expected = here;
        None
    }

    /// Those who are here wait no longer.
    fn gather(&mut self, here: usize) {
        if let Some(first) = self.first.take() {
            self.vain = match here > first {
                true => 0,
                false => (self.vain * 2 + 1).min(SKIP_MAX),
            };
            self.skip = self.vain;
        }
    }
}
