use crate::reads::Reads;

/// Reads of a client that has always the same number under way.
struct Client {
    reads: Reads,
    submitted: Vec<u32>,
    next: u32,
}

impl Client {
    fn new(depth: u32) -> Self {
        let mut client = Self {
            reads: Reads::default(),
            submitted: Vec::new(),
            next: 0,
        };
        client.begin(depth);
        client
    }

    fn begin(&mut self, count: u32) {
        for _ in 0..count {
            if self.reads.begin(self.next) {
                self.submitted.push(self.next);
            }
            self.next += 1;
        }
    }

    /// The disk has ended its first `count` reads. Returns how many follow from those that were held back.
    fn end(&mut self, count: usize) -> usize {
        for _ in self.submitted.drain(..count) {
            self.reads.end();
        }
        self.reads.note_ends();
        let before = self.submitted.len();
        self.submitted
            .extend(std::iter::from_fn(|| self.reads.next()));
        self.submitted.len() - before
    }
}

#[test]
fn a_quarter_is_held_back_where_reads_end_together() {
    let mut client = Client::new(32);
    assert_eq!(client.submitted.len(), 32);
    assert_eq!(client.end(27), 0);
    client.begin(27);
    assert_eq!(client.submitted.len(), 24);
    // In the order in which they came, and as soon as others have ended.
    assert_eq!(client.end(24), 8);
    assert!(client.submitted.is_sorted());
    client.begin(24);
    assert_eq!(client.submitted.len(), 24);
    assert_eq!(client.end(10), 8);
}

#[test]
fn reads_are_not_batched_without_a_gain() {
    let mut client = Client::new(32);
    for _ in 0..100 {
        client.end(20);
        client.begin(20);
        assert_eq!(client.submitted.len(), 32);
    }
    let mut client = Client::new(7);
    for _ in 0..100 {
        client.end(7);
        client.begin(7);
        assert_eq!(client.submitted.len(), 7);
    }
}

#[test]
fn how_many_are_held_back_follows_their_number() {
    let mut client = Client::new(8);
    client.end(8);
    client.begin(64);
    assert_eq!(client.submitted.len(), 6);
    assert_eq!(client.end(6), 48);
    client.begin(6);
    assert_eq!(client.submitted.len(), 48);
}

#[test]
fn reads_are_held_back_for_a_time() {
    let mut client = Client::new(32);
    client.end(32);
    client.begin(32);
    assert_eq!(client.submitted.len(), 24);
    let mut ended = 0;
    while client.submitted.len() == 24 {
        client.end(4);
        client.begin(4);
        ended += 4;
    }
    assert_eq!((ended, client.submitted.len()), (1024, 32));
}

#[test]
fn the_last_reads_are_submitted() {
    let mut client = Client::new(96);
    client.end(96);
    client.begin(96);
    assert_eq!(client.submitted.len(), 72);
    for _ in 0..10 {
        let all = client.submitted.len();
        client.end(all);
    }
    assert!(client.submitted.is_empty());
    assert_eq!(client.reads.take_held().count(), 0);
}
