//! `tonearm-lab workload tpcc`.

use super::figures::{Mix, More, Object, TpccFigures};
use super::measure::{BATCH, Counts, Measure};
use super::output;
use crate::cli::TpccLoad;
use anyhow::Context;
use std::collections::BTreeMap;
use std::process::ExitCode;
use tonearm_workload::tpcc::{Kind, TpccOptions};
use tonearm_workload::{Published, Tpcc, Workload};

/// Makes the load.
///
/// # Errors
/// When an option is beyond its limits, or the output cannot be written.
pub fn run(load: &TpccLoad) -> anyhow::Result<ExitCode> {
    let page_bytes = u32::try_from(load.page_size).context("--page-size is more than 64KiB")?;
    let mut tpcc = Tpcc::new(&TpccOptions {
        warehouses: load.warehouses,
        transactions: load.transactions,
        seed: load.seed,
        page_bytes,
        page_header_bytes: load.page_header,
        row_overhead_bytes: load.row_overhead,
        entry_overhead_bytes: load.entry_overhead,
        table_fill_percent: load.table_fill,
        index_fill_percent: load.index_fill,
        extent_pages: load.extent,
        log_header_bytes: load.log_header,
    })?;
    let loaded_bytes = tpcc.allocated() * load.page_size;
    let mut measure = Measure::new(&load.make, load.page_size, tpcc.pages())?;
    let mut mix = Kind::ALL.map(|kind| Mix {
        kind: kind.name(),
        ..Mix::default()
    });
    measure.run(0, |accesses| {
        while accesses.len() < BATCH {
            let before = accesses.len();
            let Some(done) = tpcc.next_transaction(accesses) else {
                return Ok(false);
            };
            let mix = &mut mix[done.kind as usize];
            let made = accesses.len() - before;
            let writes = accesses[before..]
                .iter()
                .filter(|access| access.write)
                .count();
            mix.count += 1;
            mix.rolled_back += u64::from(done.rolled_back);
            mix.reads += (made - writes) as f64;
            mix.writes += writes as f64;
            mix.rows_changed += f64::from(done.rows_changed);
            mix.pages_changed += f64::from(done.pages_changed);
            mix.log_records += f64::from(done.log_records);
            mix.log_bytes += done.log_bytes as f64;
        }
        Ok(true)
    })?;
    let transactions = load.transactions.max(1) as f64;
    let log_bytes: f64 = mix.iter().map(|mix| mix.log_bytes).sum();
    for mix in &mut mix {
        let count = mix.count.max(1) as f64;
        mix.share_percent = mix.count as f64 * 100.0 / transactions;
        for sum in [
            &mut mix.reads,
            &mut mix.writes,
            &mut mix.rows_changed,
            &mut mix.pages_changed,
            &mut mix.log_records,
            &mut mix.log_bytes,
        ] {
            *sum /= count;
        }
    }
    let pool = load.make.pool.is_some();
    let (all, pooled) = (
        by_owner(&tpcc, &measure.counts),
        by_owner(&tpcc, &measure.behind_pool),
    );
    let objects = tpcc.sizes().into_iter().map(|size| {
        let of =
            |counts: &BTreeMap<&str, [u64; 2]>| counts.get(size.name).copied().unwrap_or_default();
        let ([reads, writes], [pool_reads, pool_writes]) = (of(&all), of(&pooled));
        Object {
            name: size.name,
            rows: size.rows,
            pages: size.pages,
            levels: (size.levels > 0).then_some(size.levels),
            reads,
            writes,
            pool_reads: pool.then_some(pool_reads),
            pool_writes: pool.then_some(pool_writes),
        }
    });
    let figures = TpccFigures {
        warehouses: load.warehouses,
        transactions: load.transactions,
        loaded_bytes,
        objects: objects.collect(),
        mix: mix.to_vec(),
        log_bytes_per_transaction: log_bytes / transactions,
        published: Published::TPCC.into(),
    };
    let name = format!("TPC-C, {} warehouses", load.warehouses);
    let report = measure.finish(name, Some(load.seed), tpcc.allocated(), More::Tpcc(figures))?;
    output::print(&load.make, &report)
}

/// Reads and writes of each table and index.
fn by_owner(tpcc: &Tpcc, counts: &Counts) -> BTreeMap<&'static str, [u64; 2]> {
    let mut sums = BTreeMap::new();
    for (index, counts) in [&counts.reads, &counts.writes].into_iter().enumerate() {
        for (page, count) in counts.iter() {
            if let Some(owner) = tpcc.owner(page) {
                sums.entry(owner).or_insert([0; 2])[index] += count;
            }
        }
    }
    sums
}
