//! The machines of docs/ways-in.md boot by the commands that are printed there, and find the volume as their disk.

use std::path::Path;
use tonearm_tests::guest::Image;
use tonearm_tests::{Bench, recipe};

const SCRIPT: &str = "
must modprobe virtio_blk
[ $(blockdev --getsize64 /dev/vda) = $(option bytes) ] || failed \"the disk has $(blockdev --getsize64 /dev/vda) bytes\"
must dd if=/dev/zero of=/dev/vda bs=4096 count=16 conv=fsync
";

#[test]
fn the_machines_of_the_document_boot() {
    let bench = Bench::new();
    let of =
        |start, part| recipe::command("docs/ways-in.md", "A host of virtual machines", start, part);
    let run = |words: &[String]| {
        let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
        bench.ok(&words);
    };
    run(&of("tonearm create", ""));
    let image = Image::new(&bench, SCRIPT, Path::new("/bin/true"));
    for way in ["driver=nbd", "vhost-user-blk-pci"] {
        let server = if way == "driver=nbd" {
            // The command of the document has a fixed port for the metrics.
            bench.serve(&["vm.tn", "--ack", "write"])
        } else {
            let words = of("tonearm serve", "--vhost-user");
            let words: Vec<&str> = words.iter().skip(2).map(String::as_str).collect();
            bench.serve(&words)
        };
        let words = of("qemu-system-x86_64", way);
        let options: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
        let words = format!("bytes={}", 40u64 << 30);
        image.boot(&bench, &options, &words).ended();
        server.end_ok();
    }
}
