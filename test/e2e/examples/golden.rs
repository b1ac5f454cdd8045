//! Creates the golden images in a folder. Run it only for a new format version, and add the new images to the old ones.

use tonearm_tests::nbd::FLAG_FUA;
use tonearm_tests::{Bench, DIFFERENCES, golden_block, golden_differences};

fn main() {
    let folder = std::env::args().nth(1).expect("usage: golden FOLDER");
    let stores = [
        (1, "overwrite"),
        (2, "overwrite"),
        (3, "segments"),
        (3, "hylog"),
    ]
    .into_iter();
    for ((version, layout), crashed) in stores.flat_map(|store| [(store, false), (store, true)]) {
        let bench = Bench::new();
        let mut create = vec!["create", "s.tn", "--size", "4MiB", "--log-size", "512KiB"];
        let mut files = vec!["s.tn"];
        if version == 2 {
            create.extend(["--log", "a.log", "--log", "b.log", "--head", "formula"]);
            create.extend(["--log-drive", "st41601n", "--log-drive", "st41601n"]);
            files.extend(["a.log", "b.log"]);
        }
        if version == 3 {
            create.extend(["--layout", layout, "--segment-size", "64KiB"]);
        }
        bench.ok(&create);
        bench.ok(&["volume", "resize", "s.tn", "main", "--size", "1MiB"]);
        bench.ok(&["volume", "create", "s.tn", "other", "--size", "1MiB"]);
        if version == 3 {
            bench.ok(&["volume", "create", "s.tn", "filled", "--size", "1920KiB"]);
        }
        let server = bench.serve_store();
        let mut client = server.client("main");
        for block in 0..8 {
            client
                .write(block * 4096, &golden_block(block), 0)
                .expect("written");
        }
        client.trim(5 * 4096, 4096).expect("trimmed");
        client.write(40_000, b"tonearm", 0).expect("written");
        if version == 3 {
            // Enough random overwrites that the cleaner must copy live blocks.
            let mut filled = server.client("filled");
            for round in 0..120 {
                for step in 0..32 {
                    let place = (round * 1009 + step * 61) % 480;
                    let block = golden_block(100 + place);
                    filled.write(place * 4096, &block, 0).expect("written");
                }
                filled.flush().expect("flushed");
            }
        }
        server
            .client("other")
            .write(0, &golden_block(77), 0)
            .expect("written");
        client.flush().expect("flushed");
        if crashed {
            // This write was not flushed. It may be there or not, and no test reads it.
            client.write(600_000, &[78; 9000], 0).expect("written");
            server.kill9();
        } else {
            server.end_ok();
        }
        let name = if crashed { "crashed" } else { "clean" };
        let kind = if layout == "hylog" { "hylog-" } else { "" };
        for file in files {
            let packed = format!("{folder}/format-{version}-{kind}{name}.{file}.gz");
            pack(&bench, file, &packed);
        }
    }
    differences(&folder);
}

/// An image of a killed server whose log has patches of block 12: single words, runs of words, and overlapping ones.
fn differences(folder: &str) {
    let bench = Bench::created(&["--size", "4MiB", "--log-size", "512KiB"]);
    bench.ok(&["volume", "resize", "s.tn", "main", "--size", "1MiB"]);
    let server = bench.serve_store();
    let mut client = server.client("main");
    for step in 0..=DIFFERENCES {
        let block = golden_differences(step);
        client.write(12 * 4096, &block, FLAG_FUA).expect("written");
    }
    server.kill9();
    pack(
        &bench,
        "s.tn",
        &format!("{folder}/records-3-crashed.s.tn.gz"),
    );
}

fn pack(bench: &Bench, file: &str, place: &str) {
    let packed = bench.tool_run("gzip", &["-9", "-n", file]);
    assert_eq!(packed.code, Some(0), "{packed:?}");
    std::fs::copy(bench.path(&format!("{file}.gz")), place).expect("copied");
}
