//! Terminals that do transactions one after the other, without think time.

use super::database::{Counts, Database};
use crate::harness::Times;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_rt::Rt;
use tonearm_workload::tpcc::Kind;
use tonearm_workload::{Access, Tpcc};

/// What a terminal asks for.
pub struct Transaction {
    /// The pages, in order.
    pub accesses: Vec<Access>,
    /// Bytes of log records.
    pub log_bytes: u64,
    /// True for those that count for the rate: new orders of TPC-C.
    pub counted: bool,
}

/// The transactions of `generator`, one after the other.
///
/// # Panics
/// The function panics after the last one.
pub fn tpcc(mut generator: Tpcc) -> impl FnMut() -> Transaction {
    move || {
        let mut accesses = Vec::new();
        let done = generator.next_transaction(&mut accesses);
        let done = done.expect("the generator goes on");
        Transaction {
            accesses,
            log_bytes: done.log_bytes,
            counted: done.kind == Kind::NewOrder,
        }
    }
}

/// What was measured.
#[derive(Clone)]
pub struct Measured {
    /// From the start to the end of the last transaction.
    pub elapsed: Nanos,
    /// Transactions.
    pub transactions: u64,
    /// Those that count.
    pub counted: u64,
    /// From the start of each transaction to the end of the log's write of it.
    pub times: Times,
    /// What the database did meanwhile.
    pub before: Counts,
    /// The counts at the end.
    pub after: Counts,
}

/// The terminals of a database.
pub struct Terminals {
    rt: Rt,
    database: Rc<Database>,
    source: RefCell<Box<dyn FnMut() -> Transaction>>,
    left: Cell<u64>,
    counted: Cell<u64>,
    /// Transactions that are not in the log yet: their numbers there, and starts.
    waiting: RefCell<Vec<(u64, Nanos)>>,
    times: RefCell<Times>,
}

impl Terminals {
    /// Terminals that do what `source` gives.
    pub fn new(
        rt: &Rt,
        database: &Rc<Database>,
        source: impl FnMut() -> Transaction + 'static,
    ) -> Rc<Self> {
        Rc::new(Self {
            rt: rt.clone(),
            database: database.clone(),
            source: RefCell::new(Box::new(source)),
            left: Cell::new(0),
            counted: Cell::new(0),
            waiting: RefCell::default(),
            times: RefCell::default(),
        })
    }

    /// Does `transactions` transactions from `terminals` terminals.
    pub async fn run(self: &Rc<Self>, terminals: usize, transactions: u64) -> Measured {
        self.left.set(transactions);
        self.counted.set(0);
        self.times.take();
        let (begun, before) = (self.rt.now(), self.database.counts());
        let all = (0..terminals).map(|_| self.rt.spawn(self.clone().terminal()));
        for terminal in all.collect::<Vec<_>>() {
            terminal.await;
        }
        Measured {
            elapsed: self.rt.now().since(begun),
            transactions,
            counted: self.counted.get(),
            times: self.times.take(),
            before,
            after: self.database.counts(),
        }
    }

    async fn terminal(self: Rc<Self>) {
        while let Some(left) = self.left.get().checked_sub(1) {
            self.left.set(left);
            let transaction = (self.source.borrow_mut())();
            let begun = self.rt.now();
            let database = &self.database;
            let lsn = database
                .transact(&transaction.accesses, transaction.log_bytes)
                .await;
            if transaction.counted {
                self.counted.set(self.counted.get() + 1);
            }
            self.waiting.borrow_mut().push((lsn, begun));
            let (now, written) = (self.rt.now(), database.flush_lsn());
            self.waiting.borrow_mut().retain(|(lsn, begun)| {
                if *lsn <= written {
                    self.times.borrow_mut().push(now.since(*begun));
                }
                *lsn > written
            });
        }
    }
}

impl Measured {
    /// Transactions that count, per minute.
    pub fn per_minute(&self) -> f64 {
        self.counted as f64 * 60e9 / self.elapsed.0 as f64
    }

    /// The difference of a count.
    pub fn count(&self, of: impl Fn(&Counts) -> u64) -> u64 {
        of(&self.after) - of(&self.before)
    }
}
