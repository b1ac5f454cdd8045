//! Skewed accesses against their distribution functions.

use crate::common::{all, chi_square_deviations, near};
use tonearm_workload::tpcc::TpccOptions;
use tonearm_workload::{
    Access, PageCounts, Pool, Pooled, Published, Skew, SkewOptions, SkewedPages, Tpcc, Workload,
    campus, financial,
};

const SKEWS: [&str; 9] = [
    "uniform",
    "hot-cold:90-10",
    "hot-cold:50-50",
    "knuth:80-20",
    "knuth:90-10",
    "knuth:50-50",
    "hsu:80-20",
    "hsu:90-10",
    "hsu:55-45",
];

fn options(skew: Skew, pages: u64, accesses: u64) -> SkewOptions {
    SkewOptions {
        pages,
        accesses,
        write_share: 0.5,
        reads: Skew::Uniform,
        writes: skew,
        seed: 11,
    }
}

#[test]
fn the_generator_follows_its_distribution_function() {
    const PAGES: u64 = 1_000;
    const ACCESSES: u64 = 1_000_000;
    for name in SKEWS {
        let skew: Skew = name.parse().unwrap();
        let mut workload = SkewedPages::new(&options(skew, PAGES, ACCESSES));
        let mut counts = vec![0u64; PAGES as usize];
        let mut reads = vec![0u64; PAGES as usize];
        for access in all(&mut workload) {
            let counts = if access.write {
                &mut counts
            } else {
                &mut reads
            };
            counts[access.page as usize] += 1;
        }
        let by_rank = |counts: &[u64]| -> Vec<u64> {
            let rank = |rank| counts[workload.page_of_rank(rank) as usize];
            (0..PAGES).map(rank).collect()
        };
        let expected = |skew: Skew| -> Vec<f64> {
            let share = |rank: u64| skew.share(rank as f64 / PAGES as f64);
            (0..PAGES)
                .map(|rank| share(rank + 1) - share(rank))
                .collect()
        };
        for (counts, skew) in [(by_rank(&counts), skew), (by_rank(&reads), Skew::Uniform)] {
            let deviations = chi_square_deviations(&counts, &expected(skew));
            assert!(
                deviations.abs() < 5.0,
                "{name}: {deviations} standard deviations"
            );
        }
        let writes = counts.iter().sum();
        assert!(near(writes, ACCESSES, 0.5), "{name}: {writes} writes");
    }
}

#[test]
fn a_wrong_skew_is_seen_by_the_same_test() {
    const PAGES: u64 = 1_000;
    let mut workload = SkewedPages::new(&options(Skew::Knuth { p: 0.8 }, PAGES, 1_000_000));
    let mut counts = vec![0u64; PAGES as usize];
    for access in all(&mut workload).iter().filter(|access| access.write) {
        counts[access.page as usize] += 1;
    }
    let counts: Vec<u64> = (0..PAGES)
        .map(|rank| counts[workload.page_of_rank(rank) as usize])
        .collect();
    let share = |rank: u64| Skew::Knuth { p: 0.81 }.share(rank as f64 / PAGES as f64);
    let expected: Vec<f64> = (0..PAGES)
        .map(|rank| share(rank + 1) - share(rank))
        .collect();
    assert!(chi_square_deviations(&counts, &expected) > 20.0);
}

#[test]
fn p_of_the_accesses_go_to_1_minus_p_of_the_pages() {
    for name in SKEWS {
        let skew: Skew = name.parse().unwrap();
        let p = match skew {
            Skew::Uniform => 0.5,
            Skew::HotCold { p } | Skew::Knuth { p } | Skew::Hsu { p } => p,
        };
        assert!((skew.share(1.0 - p) - p).abs() < 1e-12, "{name}");
        assert!(skew.share(0.0).abs() < 1e-12 && (skew.share(1.0) - 1.0).abs() < 1e-12);
        // w is concave: the next page is never hotter than the one before.
        let steps: Vec<f64> = (0..100)
            .map(|h| skew.share(f64::from(h + 1) / 100.0) - skew.share(f64::from(h) / 100.0))
            .collect();
        assert!(
            steps.windows(2).all(|two| two[1] <= two[0] + 1e-12),
            "{name}"
        );
    }
    // Knuth's 80-20 rule repeats itself within the hot part.
    let rule = Skew::Knuth { p: 0.8 };
    assert!((rule.share(0.04) - 0.64).abs() < 1e-12);
    assert!((Skew::Knuth { p: 0.5 }.share(0.3) - 0.3).abs() < 1e-12);
}

#[test]
fn skews_are_read_as_they_are_shown() {
    for name in SKEWS
        .into_iter()
        .chain(["knuth:99.5-0.5", "hot-cold:90.1-9.9"])
    {
        assert_eq!(name.parse::<Skew>().unwrap().to_string(), name);
    }
    for bad in [
        "",
        "zipf",
        "knuth",
        "knuth:80",
        "knuth:80-30",
        "knuth:40-60",
        "knuth:100-0",
        "hsu:50-50",
        "uniform:80-20",
        "knuth:nan-20",
        "hot-cold:1e400-0",
        "knuth:120--20",
    ] {
        let error = bad.parse::<Skew>().unwrap_err().to_string();
        assert!(error.contains("knuth:80-20"), "{bad}: {error}");
    }
}

#[test]
fn a_seed_gives_one_stream() {
    let stream = |seed| {
        let options = SkewOptions {
            seed,
            ..options(Skew::Knuth { p: 0.9 }, 12_345, 1_000)
        };
        all(&mut SkewedPages::new(&options))
    };
    assert_eq!(stream(1), stream(1));
    assert_ne!(stream(1), stream(2));
}

#[test]
fn stand_ins_have_the_published_sizes_and_ratios() {
    for (published, options) in [
        (Published::FINANCIAL, financial(1)),
        (Published::CAMPUS, campus(1)),
    ] {
        assert_eq!(
            (options.pages * published.page_bytes) >> 20,
            published.megabytes
        );
        assert_eq!(options.accesses, published.reads + published.writes);
        let mut workload = SkewedPages::new(&SkewOptions {
            accesses: 1_000_000,
            ..options
        });
        let writes = all(&mut workload)
            .iter()
            .filter(|access| access.write)
            .count() as f64;
        let ratio = (1e6 - writes) / writes;
        assert!(
            (ratio / published.logical_ratio - 1.0).abs() < 0.02,
            "{}: {ratio}",
            published.name
        );
    }
    let top = |options: SkewOptions| options.writes.share(0.1);
    assert!(top(financial(1)) > top(campus(1)));
}

/// Reads for each write, and the share of the writes that the hottest 10 % of the pages get.
fn ratio_and_top(accesses: &[Access], pages: u64) -> (f64, f64) {
    let mut counts = PageCounts::default();
    let writes = accesses.iter().filter(|access| access.write);
    writes.clone().for_each(|access| counts.add(access.page));
    let writes = writes.count() as f64;
    let ratio = (accesses.len() as f64 - writes) / writes;
    (ratio, counts.shares(pages, &[0.1])[0])
}

#[test]
fn pooled_stand_ins_match_published_ratios_and_skew() {
    let mut tops = Vec::new();
    // A sixteenth of everything: pages, accesses, pool.
    for (published, options) in [
        (Published::FINANCIAL, financial(1)),
        (Published::CAMPUS, campus(1)),
    ] {
        let pool = (400 << 20) / published.page_bytes / 16;
        let small = SkewOptions {
            pages: options.pages / 16,
            accesses: options.accesses / 16,
            ..options
        };
        let found = all(&mut Pooled::new(SkewedPages::new(&small), Pool::new(pool)));
        let (ratio, top) = ratio_and_top(&found, small.pages);
        assert!(
            (ratio / published.physical_ratio - 1.0).abs() < 0.05,
            "{}: {ratio}",
            published.name
        );
        tops.push(top);
    }
    // 3 of 50 warehouses, and as many transactions for each of them as the paper's trace has.
    let tpcc = Tpcc::new(&TpccOptions {
        warehouses: 3,
        transactions: 72_000,
        ..TpccOptions::default()
    });
    // The pool keeps the items, of which there are as many in any database: 2,689 pages with their index.
    let pool = (102_400 - 2_689) * 3 / 50 + 2_689;
    let mut tpcc = Pooled::new(tpcc.unwrap(), Pool::new(pool));
    let found = all(&mut tpcc);
    let (ratio, top) = ratio_and_top(&found, tpcc.into_inner().allocated());
    tops.push(top);
    // Known: the paper has 1.37. docs/workloads.md says what makes the difference.
    assert!((1.5..2.1).contains(&ratio), "{ratio}");
    assert!(tops[0] > tops[1] && tops[1] > tops[2], "{tops:?}");
}

/// A trace is short: Financial has one write behind the pool for every eight pages, so that each page with a write is among
/// the hottest of the count. Only a longer run shows the skew.
#[test]
fn pooled_financial_is_more_skewed_than_campus() {
    let top = |options: SkewOptions, page_bytes: u64| {
        let small = SkewOptions {
            pages: options.pages / 64,
            accesses: u64::MAX,
            ..options
        };
        let pool = (400 << 20) / page_bytes / 64;
        let mut pooled = Pooled::new(SkewedPages::new(&small), Pool::new(pool));
        let mut counts = PageCounts::default();
        let (mut writes, least) = (0, 6 * small.pages);
        while writes < least {
            let access = pooled.next_access().unwrap().unwrap();
            if access.write {
                writes += 1;
                counts.add(access.page);
            }
        }
        counts.shares(small.pages, &[0.1])[0]
    };
    let financial = top(financial(1), Published::FINANCIAL.page_bytes);
    let campus = top(campus(1), Published::CAMPUS.page_bytes);
    assert!((0.75..0.85).contains(&financial), "{financial}");
    assert!((0.5..0.6).contains(&campus), "{campus}");
}

#[test]
fn shares_count_pages_without_an_access() {
    let mut counts = PageCounts::default();
    for (page, writes) in [(3, 6), (900, 3), (5, 1)] {
        (0..writes).for_each(|_| counts.add(page));
    }
    let counted: Vec<(u64, u64)> = counts.iter().collect();
    assert_eq!(counted, [(3, 6), (5, 1), (900, 3)]);
    let shares = counts.shares(1_000, &[0.001, 0.002, 0.5]);
    assert_eq!(shares, [0.6, 0.9, 1.0]);
    assert_eq!(PageCounts::default().shares(10, &[0.5]), [0.0]);
}

#[test]
fn a_workload_of_one_page_has_one_page() {
    let mut workload = SkewedPages::new(&options(Skew::Knuth { p: 0.9 }, 1, 100));
    assert_eq!(workload.pages(), 1);
    assert_eq!(all(&mut workload).len(), 100);
}
