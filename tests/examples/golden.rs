//! Makes the golden images in a folder; only for a new format version, whose images come beside the
//! old ones.

use tonearm_tests::nbd::CMD_TRIM;
use tonearm_tests::{Bench, golden_block};

fn main() {
    let folder = std::env::args().nth(1).expect("usage: golden FOLDER");
    for crashed in [false, true] {
        let bench = Bench::new();
        bench.ok(&["create", "s.tn", "--size", "4MiB", "--log-size", "512KiB"]);
        bench.ok(&["volume", "resize", "s.tn", "main", "--size", "1MiB"]);
        bench.ok(&["volume", "create", "s.tn", "other", "--size", "1MiB"]);
        let server = bench.serve_store();
        let mut client = server.client("main");
        for block in 0..8 {
            client
                .write(block * 4096, &golden_block(block), 0)
                .expect("written");
        }
        client.clear(CMD_TRIM, 5 * 4096, 4096).expect("trimmed");
        client.write(40_000, b"tonearm", 0).expect("written");
        server
            .client("other")
            .write(0, &golden_block(77), 0)
            .expect("written");
        client.flush().expect("flushed");
        if crashed {
            // May be there or not: nobody looks at these.
            client.write(600_000, &[78; 9000], 0).expect("written");
            server.kill9();
        } else {
            server.end_ok();
        }
        let name = if crashed { "crashed" } else { "clean" };
        let packed = bench.tool_run("gzip", &["-9", "-n", "s.tn"]);
        assert_eq!(packed.code, Some(0), "{packed:?}");
        let place = format!("{folder}/format-1-{name}.tn.gz");
        std::fs::copy(bench.path("s.tn.gz"), place).expect("copied");
    }
}
