//! The database and the accesses of TPC-C.

use crate::common::{all, chi_square_deviations, near};
use crate::tpcc_input::item_probabilities;
use std::collections::{BTreeMap, BTreeSet};
use tonearm_workload::tpcc::{BadOptions, Inputs, Kind, Size, Table, TpccOptions, Transaction};
use tonearm_workload::{Access, Tpcc, Workload};

fn options(warehouses: u32, transactions: u64) -> TpccOptions {
    TpccOptions {
        warehouses,
        transactions,
        seed: 3,
        ..TpccOptions::default()
    }
}

fn size(tpcc: &Tpcc, name: &str) -> Size {
    let sizes = tpcc.sizes();
    *sizes.iter().find(|size| size.name == name).expect(name)
}

/// Every transaction with its accesses.
fn run(tpcc: &mut Tpcc) -> Vec<(Transaction, Vec<Access>)> {
    let mut done = Vec::new();
    loop {
        let mut accesses = Vec::new();
        match tpcc.next_transaction(&mut accesses) {
            Some(transaction) => done.push((transaction, accesses)),
            None => return done,
        }
    }
}

fn reads(accesses: &[Access]) -> u64 {
    accesses.iter().filter(|access| !access.write).count() as u64
}

/// Clause 1.2.1: rows and thousands of bytes for a warehouse, without the overhead of pages.
const CARDINALITIES: [(Table, u64, u64); 9] = [
    (Table::Warehouse, 1, 89),
    (Table::District, 10, 950),
    (Table::Customer, 30_000, 19_650_000),
    (Table::History, 30_000, 1_380_000),
    (Table::NewOrder, 9_000, 72_000),
    (Table::Orders, 30_000, 720_000),
    (Table::OrderLine, 300_000, 16_200_000),
    (Table::Item, 100_000, 8_200_000),
    (Table::Stock, 100_000, 30_600_000),
];

#[test]
fn tables_have_the_standards_cardinalities() {
    for warehouses in [1, 3] {
        let options = options(warehouses, 0);
        let tpcc = Tpcc::new(&options).unwrap();
        tpcc.check().unwrap();
        for (table, rows, bytes) in CARDINALITIES {
            let factor = if table == Table::Item {
                1
            } else {
                u64::from(warehouses)
            };
            let size = size(&tpcc, table.name());
            if table == Table::OrderLine {
                // The number of lines is even from 5 to 15, so its variance is 10.
                let orders = 30_000.0 * factor as f64;
                let off = size.rows as f64 - 10.0 * orders;
                assert!(off.abs() < 5.0 * (10.0 * orders).sqrt(), "{size:?}");
            } else {
                assert_eq!(size.rows, rows * factor, "{}", table.name());
            }
            assert_eq!(
                rows * u64::from(table.row_bytes()),
                bytes,
                "{}",
                table.name()
            );
            let per_page = u64::from(options.rows_per_page(table));
            assert_eq!(size.pages, size.rows.div_ceil(per_page), "{}", table.name());
        }
        for index in tpcc.sizes().iter().filter(|size| size.levels > 0) {
            let table = index.name.split(' ').next().unwrap();
            assert_eq!(index.rows, size(&tpcc, table).rows, "{}", index.name);
        }
    }
}

#[test]
fn rows_fill_pages_of_the_chosen_size() {
    let options = options(1, 0);
    // 4096 - 68 bytes for rows of 655 + 10 and 306 + 10 bytes.
    assert_eq!(options.rows_per_page(Table::Customer), 6);
    assert_eq!(options.rows_per_page(Table::Stock), 12);
    let half = TpccOptions {
        table_fill_percent: 50,
        page_bytes: 8192,
        ..options
    };
    assert_eq!(half.rows_loaded_per_page(Table::Customer), 6);
    assert_eq!(half.rows_per_page(Table::Customer), 12);
    let tpcc = Tpcc::new(&half).unwrap();
    assert_eq!(size(&tpcc, "customer").pages, 5_000);
}

#[test]
fn the_database_stays_consistent_and_within_its_space() {
    for page_bytes in [1024, 4096] {
        let mut tpcc = Tpcc::new(&TpccOptions {
            page_bytes,
            ..options(1, 30_000)
        })
        .unwrap();
        let loaded = tpcc.sizes();
        let done = run(&mut tpcc);
        tpcc.check().unwrap();
        let count = |kind| done.iter().filter(|one| one.0.kind == kind).count() as u64;
        let rolled_back = done.iter().filter(|one| one.0.rolled_back).count() as u64;
        let skipped: u64 = done
            .iter()
            .map(|one| u64::from(one.0.deliveries_skipped))
            .sum();
        let grown = |name: &str| {
            let before = loaded.iter().find(|size| size.name == name).unwrap().rows;
            size(&tpcc, name).rows as i64 - before as i64
        };
        let orders = (count(Kind::NewOrder) - rolled_back) as i64;
        assert!(
            near(rolled_back, count(Kind::NewOrder), 0.01),
            "{rolled_back}"
        );
        assert_eq!(grown("orders"), orders);
        assert_eq!(grown("history"), count(Kind::Payment) as i64);
        assert_eq!(
            grown("new-order"),
            orders - (10 * count(Kind::Delivery) - skipped) as i64
        );
        assert_eq!(grown("stock") + grown("item") + grown("customer"), 0);
        let written: BTreeSet<u64> = done
            .iter()
            .flat_map(|one| &one.1)
            .map(|access| access.page)
            .collect();
        let end = written.last().copied().unwrap();
        assert!(end < tpcc.allocated() && tpcc.allocated() <= tpcc.pages());
        // The bound is no more than half as much again, and the extents that are begun.
        let growth = tpcc.allocated() - Tpcc::new(&options_of(page_bytes)).unwrap().allocated();
        let bound = tpcc.pages() - (tpcc.allocated() - growth);
        assert!(
            bound < growth * 3 / 2 + 600,
            "{bound} pages foreseen for {growth}"
        );
    }
}

fn options_of(page_bytes: u32) -> TpccOptions {
    TpccOptions {
        page_bytes,
        ..options(1, 0)
    }
}

#[test]
fn the_stream_of_accesses_is_that_of_the_transactions() {
    let one = run(&mut Tpcc::new(&options(1, 2_000)).unwrap());
    let one: Vec<Access> = one.into_iter().flat_map(|one| one.1).collect();
    let other = all(&mut Tpcc::new(&options(1, 2_000)).unwrap());
    assert_eq!(one, other);
    let seed = TpccOptions {
        seed: 4,
        ..options(1, 2_000)
    };
    assert_ne!(other, all(&mut Tpcc::new(&seed).unwrap()));
}

#[test]
fn each_kind_makes_the_accesses_that_its_statements_need() {
    let mut tpcc = Tpcc::new(&options(2, 20_000)).unwrap();
    let levels: BTreeMap<&str, u64> = tpcc
        .sizes()
        .iter()
        .map(|size| (size.name, size.levels.into()))
        .collect();
    let level = |name: &str| levels[name];
    let (warehouse, district) = (level("warehouse (w)"), level("district (w, d)"));
    let (customer, item, stock) = (
        level("customer (w, d, c)"),
        level("item (i)"),
        level("stock (w, i)"),
    );
    let (order, of_customer) = (level("orders (w, d, o)"), level("orders (w, d, c, o)"));
    let (new_order, line) = (
        level("new-order (w, d, o)"),
        level("order-line (w, d, o, line)"),
    );
    let mut seen = BTreeSet::new();
    for (transaction, accesses) in run(&mut tpcc) {
        let (reads, writes) = (reads(&accesses), accesses.len() as u64 - reads(&accesses));
        let rows = u64::from(transaction.rows_changed);
        let pages: BTreeSet<u64> = accesses
            .iter()
            .filter(|a| a.write)
            .map(|a| a.page)
            .collect();
        assert_eq!(u64::from(transaction.pages_changed), pages.len() as u64);
        assert_eq!(transaction.log_records == 0, writes == 0);
        match transaction.kind {
            Kind::NewOrder if !transaction.rolled_back => {
                // District, order and new order; then stock and line for each of n lines.
                let n = (rows - 3) / 2;
                assert!((5..=15).contains(&n) && rows == 3 + 2 * n, "{rows} rows");
                let each = item + 1 + 2 * (stock + 1) + line;
                let head =
                    warehouse + customer + 2 + 2 * (district + 1) + order + of_customer + new_order;
                assert_eq!(reads, head + n * each);
                // A split writes two pages more, or a few if it goes on upwards.
                let least = 6 + 3 * n;
                assert!(
                    (least..least + 12).contains(&writes),
                    "{writes} writes of {n} lines"
                );
                // Updates: 4 bytes twice, 8 bytes twice (10 if remote). Insertions: rows, and keys with 8 bytes more.
                let log = 48 + 64 + 58 + 62 + 48 + 58 + n * (56 + 94 + 60) + 40;
                let remote = transaction.log_bytes - log;
                assert!(
                    remote % 4 == 0 && remote <= 4 * n,
                    "{log} and {remote} bytes"
                );
                assert_eq!(u64::from(transaction.log_records), 6 + 3 * n + 1);
            }
            Kind::NewOrder => {
                let n = (rows - 3) / 2;
                assert!(
                    (4..=14).contains(&n),
                    "the last of {} lines is not found",
                    n + 1
                );
                assert_eq!(u64::from(transaction.log_records), 2 * (6 + 3 * n) + 1);
                assert!(writes >= 2 * (6 + 3 * n));
            }
            Kind::Payment => {
                assert_eq!((rows, writes, transaction.log_records), (4, 4, 5));
                let good = 40 * 5 + 2 * 7 + 2 * 7 + 2 * 16 + 46;
                assert!(
                    [good, good + 1_000].contains(&transaction.log_bytes),
                    "{transaction:?}"
                );
                let least = 2 * (warehouse + 1) + 2 * (district + 1) + 2 * (customer + 1);
                assert!((least..least + 60).contains(&reads), "{reads} reads");
            }
            Kind::OrderStatus => {
                assert_eq!((rows, writes, transaction.log_bytes), (0, 0, 0));
                assert!(
                    reads >= customer + 1 + of_customer + 1 + line + 5,
                    "{reads} reads"
                );
            }
            Kind::Delivery => {
                assert_eq!(transaction.deliveries_skipped, 0);
                // New order, order and customer of ten districts, and their lines.
                let lines = rows - 30;
                assert!((50..=150).contains(&lines));
                assert_eq!(u64::from(transaction.log_records), rows + 10 + 1);
                assert!(writes >= rows + 10);
                let each = new_order + 1 + 2 * (order + 1) + 2 * line + customer + 1;
                assert!(reads >= 10 * each + 2 * lines, "{reads} reads");
                // A scan reads a second leaf when the lines of an order lie on two.
                assert!(reads <= 10 * (each + 2) + 2 * lines, "{reads} reads");
            }
            Kind::StockLevel => {
                assert_eq!((rows, writes), (0, 0));
                let lines = (reads - district - 1 - line) / (stock + 2);
                assert!((100..=300).contains(&lines), "{lines} lines of 20 orders");
            }
        }
        seen.insert((transaction.kind, transaction.rolled_back));
    }
    assert_eq!(seen.len(), 6, "{seen:?}");
}

#[test]
fn pages_of_stock_are_as_uneven_as_nurand_makes_them() {
    let options = options(1, 40_000);
    let mut tpcc = Tpcc::new(&options).unwrap();
    let per_page = options.rows_per_page(Table::Stock) as usize;
    let pages = size(&tpcc, "stock").pages as usize;
    let first = (0..tpcc.allocated())
        .find(|page| tpcc.owner(*page) == Some("stock"))
        .unwrap();
    let mut counts = vec![0u64; pages];
    for (transaction, accesses) in run(&mut tpcc) {
        if transaction.kind == Kind::NewOrder && !transaction.rolled_back {
            for access in accesses.iter().filter(|access| access.write) {
                if let Some(count) = access
                    .page
                    .checked_sub(first)
                    .and_then(|index| counts.get_mut(index as usize))
                {
                    *count += 1;
                }
            }
        }
    }
    let items = item_probabilities(Inputs::new(1, options.seed).item());
    let expected: Vec<f64> = items
        .chunks(per_page)
        .map(|items| items.iter().sum())
        .collect();
    let deviations = chi_square_deviations(&counts, &expected);
    assert!(deviations.abs() < 5.0, "{deviations} standard deviations");
    // Leutenegger and Dias (1993), "A modeling study of the TPC-C benchmark": the hottest 20 % of the tuples get 84 %
    // of the accesses; packed in the order of their keys onto pages of 4 KiB, the hottest 20 % of the pages get 75 %.
    let top = |mut shares: Vec<f64>| -> f64 {
        shares.sort_by(|one, other| other.total_cmp(one));
        shares[..shares.len() / 5].iter().sum()
    };
    assert!((top(items) - 0.84).abs() < 0.01);
    assert!((top(expected) - 0.75).abs() < 0.02);
}

#[test]
fn reads_for_each_write_are_near_the_papers() {
    let accesses = all(&mut Tpcc::new(&options(5, 20_000)).unwrap());
    let reads = reads(&accesses) as f64;
    let ratio = reads / (accesses.len() as f64 - reads);
    eprintln!(
        "{ratio} reads for each write, {} accesses for each transaction",
        accesses.len() as f64 / 20_000.0
    );
    assert!((ratio / 5.66 - 1.0).abs() < 0.15, "{ratio}");
}

#[test]
fn options_beyond_their_limits_are_refused() {
    let refused = |change: &dyn Fn(&mut TpccOptions)| {
        let mut options = options(1, 1);
        change(&mut options);
        Tpcc::new(&options).err().expect("an error").to_string()
    };
    assert_eq!(
        refused(&|options| options.warehouses = 0),
        "warehouses is 0; it may be from 1 to 10000"
    );
    assert!(refused(&|options| options.page_bytes = 512).contains("page_bytes is 512"));
    assert!(refused(&|options| options.extent_pages = 0).contains("extent_pages"));
    let small = TpccOptions {
        page_bytes: 1024,
        page_header_bytes: 400,
        ..options(1, 1)
    };
    let error = Tpcc::new(&small).err().unwrap();
    assert_eq!(
        error,
        BadOptions::Small {
            page_bytes: 1024,
            what: "customer"
        }
    );
}
