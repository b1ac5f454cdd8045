//! SCAN on page numbers: the queue of one disk.

/// An I/O of one disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Io {
    /// First page of the disk.
    pub page: u32,
    /// Number of pages.
    pub pages: u32,
    pub write: bool,
    /// What it is for.
    pub work: crate::counts::Work,
    /// The operation of which it is a part.
    pub op: u32,
}

/// Waiting I/Os.
#[derive(Default)]
pub(crate) struct Scan {
    /// By page; of equals, the older first.
    waiting: Vec<Io>,
    /// The page that was served last.
    at: u32,
    downwards: bool,
}

impl Scan {
    #[inline]
    pub fn push(&mut self, io: Io) {
        let at = self.waiting.partition_point(|other| other.page <= io.page);
        self.waiting.insert(at, io);
    }

    /// The next one in the direction of the sweep, which turns when none is left there.
    #[inline]
    pub fn pop(&mut self) -> Option<Io> {
        if self.waiting.is_empty() {
            return None;
        }
        let above = self.waiting.partition_point(|io| io.page < self.at);
        let at = match self.downwards {
            false if above < self.waiting.len() => above,
            false => {
                self.downwards = true;
                above - 1
            }
            true => {
                let up_to = self.waiting.partition_point(|io| io.page <= self.at);
                if up_to > 0 {
                    up_to - 1
                } else {
                    self.downwards = false;
                    0
                }
            }
        };
        let io = self.waiting.remove(at);
        self.at = io.page;
        Some(io)
    }
}
