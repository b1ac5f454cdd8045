//! A bank in SQLite. Numbered transactions move money between accounts of one or two databases, and a ledger records
//! the state after each transaction.

use crate::history::{History, State};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use rusqlite::{Connection, OpenFlags};
use std::cell::RefCell;
use std::rc::Rc;

/// Number of accounts of a database.
const ACCOUNTS: usize = 30;

/// Settings of SQLite.
#[derive(Clone, Debug)]
pub struct Setup {
    journal_mode: &'static str,
    synchronous: &'static str,
    page_size: u32,
    locking_mode: &'static str,
    auto_vacuum: &'static str,
    /// Pages in the cache. With few pages SQLite spills in the middle of a transaction.
    cache_size: u32,
    /// Whether a second database is attached.
    pub attached: bool,
}

fn one_of<T: Copy>(rng: &mut ChaCha8Rng, of: &[T]) -> T {
    of[rng.next_u32() as usize % of.len()]
}

impl Setup {
    /// Random settings.
    pub fn new(rng: &mut ChaCha8Rng) -> Self {
        let modes = ["DELETE", "TRUNCATE", "PERSIST", "MEMORY", "OFF", "WAL"];
        let journal_mode = one_of(rng, &modes);
        Self {
            journal_mode,
            synchronous: one_of(rng, &["OFF", "NORMAL", "FULL", "FULL", "EXTRA"]),
            page_size: one_of(rng, &[512, 1024, 4096, 8192]),
            locking_mode: one_of(rng, &["NORMAL", "NORMAL", "EXCLUSIVE"]),
            auto_vacuum: one_of(rng, &["NONE", "NONE", "FULL"]),
            cache_size: one_of(rng, &[2, 10, 2000]),
            // SQLite makes no atomic commits over several databases in WAL mode.
            attached: journal_mode != "WAL" && rng.next_u32().is_multiple_of(3),
        }
    }

    /// True when a commit that has returned survives a power cut.
    fn is_durable(&self) -> bool {
        matches!(self.synchronous, "FULL" | "EXTRA")
    }

    fn pragmas(&self, schema: &str) -> String {
        format!(
            "PRAGMA {schema}.page_size = {}; PRAGMA {schema}.auto_vacuum = {};
             PRAGMA {schema}.locking_mode = {}; PRAGMA {schema}.journal_mode = {};
             PRAGMA {schema}.synchronous = {}; PRAGMA {schema}.cache_size = {};",
            self.page_size,
            self.auto_vacuum,
            self.locking_mode,
            self.journal_mode,
            self.synchronous,
            self.cache_size
        )
    }
}

/// The balances of all accounts. Those of the second database follow those of the first.
type Balances = Vec<i64>;

/// The bank after a power cut: the number of its last transaction, and the balances.
pub type Found = Option<(u64, Balances)>;

/// The bank after each transaction. The last one may not have been committed yet.
pub type Ledger = History<Found>;

impl State for Found {
    fn differences(&self, found: &Self) -> Vec<String> {
        vec![format!("{found:?} in place of {self:?}")]
    }
}

/// The databases of a store that is registered with the VFS.
pub struct Databases<'a> {
    /// Name of the store in URIs.
    pub store: &'a str,
}

impl Databases<'_> {
    fn uri(&self, name: &str) -> String {
        format!("file:{name}?vfs=tonearm&store={}", self.store)
    }

    fn open(&self, name: &str) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
        Connection::open_with_flags(self.uri(name), flags)
    }

    fn connect(&self, setup: &Setup) -> rusqlite::Result<Connection> {
        let db = self.open("app.db")?;
        db.execute_batch(&setup.pragmas("main"))?;
        if setup.attached {
            db.execute_batch(&format!("ATTACH '{}' AS second", self.uri("second.db")))?;
            db.execute_batch(&setup.pragmas("second"))?;
        }
        Ok(db)
    }

    /// Runs `transactions` transactions, and other operations between them.
    ///
    /// # Errors
    /// The errors of SQLite.
    pub fn run(
        &self,
        setup: &Setup,
        ledger: &Rc<RefCell<Ledger>>,
        rng: &mut ChaCha8Rng,
        transactions: u64,
    ) -> rusqlite::Result<()> {
        let schemas: &[&str] = match setup.attached {
            true => &["main", "second"],
            false => &["main"],
        };
        let mut db = self.connect(setup)?;
        let mut state = vec![100; ACCOUNTS * schemas.len()];
        let promise = |ledger: &Rc<RefCell<Ledger>>| {
            let mut ledger = ledger.borrow_mut();
            if setup.is_durable() {
                let last = ledger.last();
                ledger.acknowledge(last);
            }
        };
        ledger.borrow_mut().commit(Some((0, state.clone())));
        let tables = schemas.iter().rev().map(|schema| {
            format!(
                "CREATE TABLE {schema}.account(id INTEGER PRIMARY KEY, balance INT, note BLOB);
                 CREATE TABLE {schema}.done(n INT); INSERT INTO {schema}.done VALUES(0);
                 WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM n WHERE i < {ACCOUNTS} - 1)
                 INSERT INTO {schema}.account SELECT i, 100, zeroblob(60) FROM n;"
            )
        });
        db.execute_batch(&format!("BEGIN; {} COMMIT;", tables.collect::<String>()))?;
        promise(ledger);
        for number in 1..=transactions {
            self.around(setup, &mut db, rng)?;
            let mut sql = String::from("BEGIN;");
            let amount = i64::from(rng.next_u32() % 50);
            for change in [-amount, amount] {
                let account = rng.next_u64() as usize % state.len();
                state[account] += change;
                let (schema, id) = (schemas[account / ACCOUNTS], account % ACCOUNTS);
                sql += &format!(
                    "UPDATE {schema}.account SET balance = balance + {change} WHERE id = {id};"
                );
            }
            for schema in schemas {
                sql += &format!("UPDATE {schema}.done SET n = {number};");
                let bytes = rng.next_u32() % 700;
                sql += &match rng.next_u32() % 6 {
                    0 => format!("UPDATE {schema}.account SET note = zeroblob({bytes});"),
                    1 => format!(
                        "CREATE TABLE IF NOT EXISTS {schema}.bulk(x); INSERT INTO {schema}.bulk SELECT zeroblob({bytes}) FROM {schema}.account;"
                    ),
                    2 => format!("DROP TABLE IF EXISTS {schema}.bulk;"),
                    // A savepoint cannot be rolled back without a journal.
                    3 if setup.journal_mode != "OFF" => format!(
                        "SAVEPOINT a; UPDATE {schema}.account SET balance = -1, note = zeroblob({bytes}); ROLLBACK TO a; RELEASE a;"
                    ),
                    _ => String::new(),
                };
            }
            ledger.borrow_mut().commit(Some((number, state.clone())));
            db.execute_batch(&sql)?;
            db.execute_batch("COMMIT")?;
            promise(ledger);
        }
        Ok(())
    }

    /// An operation between two transactions that must not change the bank.
    fn around(
        &self,
        setup: &Setup,
        db: &mut Connection,
        rng: &mut ChaCha8Rng,
    ) -> rusqlite::Result<()> {
        // SQLite does not report this rollback without a journal to the VFS (docs/sqlite.md, journal modes).
        let untold =
            setup.journal_mode == "OFF" && setup.locking_mode == "EXCLUSIVE" && setup.attached;
        match rng.next_u32() % 10 {
            0 if untold => {}
            0 => {
                let all = "BEGIN; UPDATE main.account SET balance = 0, note = zeroblob(400); UPDATE main.done SET n = -1; ROLLBACK;";
                // Without a journal SQLite answers a rollback with an error.
                let _ = db.execute_batch(all);
            }
            1 => db.execute_batch("VACUUM")?,
            2 => {
                // The old connection is closed first, because it may hold locks.
                *db = Connection::open_in_memory()?;
                *db = self.connect(setup)?;
            }
            3 if setup.journal_mode == "WAL" => {
                db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads the bank after a power cut.
    ///
    /// # Errors
    /// When a database is damaged, or the two databases contradict each other.
    pub fn look(&self, attached: bool) -> Result<Found, String> {
        let first = self.look_at("app.db")?;
        if !attached {
            return Ok(first);
        }
        match (first, self.look_at("second.db")?) {
            (Some((number, mut state)), Some((other, more))) if number == other => {
                state.extend(more);
                Ok(Some((number, state)))
            }
            (None, None) => Ok(None),
            (first, second) => Err(format!(
                "app.db and second.db do not fit: {first:?} and {second:?}"
            )),
        }
    }

    fn look_at(&self, name: &str) -> Result<Found, String> {
        let text =
            |error: rusqlite::Error| format!("{name}: {error}; {}", tonearm_sqlite::last_error());
        // A database that does not exist has no bank.
        let db = self.open(name).map_err(text)?;
        let check = db.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
        let check = check.map_err(text)?;
        if check != "ok" {
            return Err(format!("{name}: integrity_check says {check}"));
        }
        let tables = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0));
        let tables: i64 = tables.map_err(text)?;
        if tables == 0 {
            return Ok(None);
        }
        let number = db.query_row("SELECT n FROM done", [], |row| row.get::<_, i64>(0));
        let number = number.map_err(text)?;
        let balances = || -> rusqlite::Result<Balances> {
            let mut rows = db.prepare("SELECT balance FROM account ORDER BY id")?;
            rows.query_map([], |row| row.get(0))?.collect()
        };
        let number = u64::try_from(number).map_err(|_| format!("{name}: transaction {number}"))?;
        Ok(Some((number, balances().map_err(text)?)))
    }
}
