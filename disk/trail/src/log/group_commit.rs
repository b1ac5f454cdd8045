//! Group commit: callers that commit again and again share one device write. Such callers come back
//! soon after their last commits are durable. If the next device write started with the first of them, the others would
//! wait for that write and then for one of their own. From then on there would be two groups of callers in turn, each
//! of which waits for two writes. So the first caller waits for the others, for at most the time of a device write.
//! When a wait brings no other caller, because callers pause for longer between commits, the next few writes start
//! without a wait.

use tonearm_base::Nanos;

/// How long queued commits wait for more, so that they share a device write.
#[derive(Clone, Copy, Default)]
pub(crate) struct CommitDelay {
    /// Until when commits for which no caller waits stay in memory; `None` when none are held back.
    pub delayed_until: Option<Nanos>,
    pub group: GroupCommit,
}

/// Most device writes that start without a wait, after waits in vain.
const SKIP_MAX: u32 = 7;

/// How many callers come back for the next device write, and how long it is worth waiting for them.
#[derive(Clone, Copy, Default)]
pub(crate) struct GroupCommit {
    /// When the last device write was sent.
    pub sent: Nanos,
    /// Number of callers that waited when the last commits became durable, for those commits or for later ones.
    expected: usize,
    /// When the last commits became durable.
    since: Nanos,
    /// Time from the start of a device write until it is durable: the shortest recent one, which grows slowly.
    commit_delay: Nanos,
    /// Number of callers at the start of the present wait, if there is one.
    first: Option<usize>,
    /// Waits in vain in a row, kept as a power of two less one.
    vain: u32,
    /// Device writes that are to start without a wait.
    skip: u32,
}

impl GroupCommit {
    /// Notes that commits became durable for which `released` callers waited, while `left` wait for later ones.
    pub fn released(&mut self, now: Nanos, released: usize, left: usize) {
        let took = now.since(self.sent);
        self.commit_delay = match self.commit_delay {
            Nanos(0) => took,
            // A single slow write changes the value little. The value follows a device that has become slower within a
            // few writes.
            usual => took.min(usual + usual.0 / 8 + 1),
        };
        (self.expected, self.since, self.first) = (released + left, now, None);
        self.skip = self.skip.saturating_sub(1);
    }

    /// Until when the `waiting` callers wait for others; `None` when their commits are to be written now.
    pub fn waits_until(&mut self, now: Nanos, waiting: usize) -> Option<Nanos> {
        if waiting >= self.expected || self.skip > 0 {
            self.end_wait(waiting);
            return None;
        }
        let until = self.since + self.commit_delay.0;
        if now < until {
            self.first.get_or_insert(waiting);
            return Some(until);
        }
        self.end_wait(waiting);
        self.expected = waiting;
        None
    }

    /// The wait has ended with `waiting` callers.
    fn end_wait(&mut self, waiting: usize) {
        if let Some(first) = self.first.take() {
            self.vain = match waiting > first {
                true => 0,
                false => (self.vain * 2 + 1).min(SKIP_MAX),
            };
            self.skip = self.vain;
        }
    }
}
