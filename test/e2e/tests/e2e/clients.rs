//! Common NBD clients: libnbd's tools, qemu's tools, fio.

use tonearm_tests::{Bench, MIB, contains, noise};

const URI: &str = "nbd+unix:///main?socket=s.sock";

/// An image with random data and zeroes, whose length is not a multiple of the block size.
fn image(bench: &Bench) -> Vec<u8> {
    let mut bytes = noise(1, 8 << 20);
    bytes.resize(20 << 20, 0);
    bytes.extend(noise(2, (4 << 20) + 512));
    bench.write("in.raw", &bytes);
    bytes
}

#[test]
fn nbdinfo_sees_the_size_and_what_the_server_can_do() {
    let bench = Bench::with_store("64MiB");
    let _server = bench.serve_store();
    let info = bench.tool("nbdinfo", &["--json", URI]);
    let info: serde_json::Value = serde_json::from_str(&info).expect("JSON");
    assert_eq!(info["protocol"], "newstyle-fixed");
    assert_eq!(info["structured"], true);
    let export = &info["exports"][0];
    assert_eq!(export["export-size"], 64 * MIB);
    assert_eq!(export["contexts"], serde_json::json!(["base:allocation"]));
    assert_eq!(export["is_read_only"], false);
    for ability in [
        "can_cache",
        "can_df",
        "can_fast_zero",
        "can_flush",
        "can_fua",
        "can_multi_conn",
        "can_trim",
        "can_zero",
    ] {
        assert_eq!(export[ability], true, "{ability}");
    }
    assert_eq!(export["block_size_minimum"], 1);
    assert_eq!(export["block_size_preferred"], 4096);
    // The limit is the largest commit of this store's small log. With a larger log it is 32 MiB.
    let largest = export["block_size_maximum"].as_u64().expect("a size");
    assert!(
        largest.is_multiple_of(4096) && (MIB..8 * MIB).contains(&largest),
        "{largest}"
    );
    let bench = Bench::created(&["--size", "64MiB", "--log-size", "64MiB"]);
    let _server = bench.serve_store();
    let info = bench.tool_run("nbdinfo", &["--json", "nbd+unix:///?socket=s.sock"]);
    let info: serde_json::Value = serde_json::from_str(&info.out).expect("JSON");
    assert_eq!(info["exports"][0]["block_size_maximum"], 32 * MIB);
}

#[test]
fn nbdcopy_takes_an_image_in_and_out() {
    let bench = Bench::with_store("64MiB");
    let server = bench.serve_store();
    let bytes = image(&bench);
    bench.tool("nbdcopy", &["--flush", "in.raw", URI]);
    bench.tool("nbdcopy", &[URI, "out.raw"]);
    let out = bench.read("out.raw");
    assert!(out[..bytes.len()] == bytes[..] && out[bytes.len()..].iter().all(|byte| *byte == 0));
    // Read the image again after a restart, from the medium.
    server.end_ok();
    let _server = bench.serve_store();
    bench.tool("nbdcopy", &[URI, "again.raw"]);
    assert!(bench.read("again.raw") == out);
}

#[test]
fn qemu_img_converts_both_ways() {
    let bench = Bench::with_store("64MiB");
    let _server = bench.serve_store();
    image(&bench);
    bench.tool(
        "qemu-img",
        &["convert", "-n", "-f", "raw", "-O", "raw", "in.raw", URI],
    );
    bench.tool(
        "qemu-img",
        &["convert", "-f", "raw", "-O", "qcow2", URI, "out.qcow2"],
    );
    // The image is shorter than the volume. The rest of the volume must read as zeroes.
    contains(
        &bench.tool("qemu-img", &["compare", "in.raw", URI]),
        "Images are identical",
    );
    contains(
        &bench.tool(
            "qemu-img",
            &["compare", "-f", "qcow2", "out.qcow2", "-F", "raw", URI],
        ),
        "Images are identical",
    );
}

#[test]
fn qemu_io_patterns_are_read_back() {
    let bench = Bench::with_store("64MiB");
    let _server = bench.serve_store();
    let steps = [
        "write -P 0xa1 0 1M",
        "write -P 0xa2 4096 4096",
        "write -P 0xa3 10752 512",
        "write -P 0xa4 20001 1",
        "write -P 0xa5 40959 2",
        "read -P 0xa1 0 4096",
        "read -P 0xa2 4096 4096",
        "read -P 0xa1 8192 2560",
        "read -P 0xa3 10752 512",
        "read -P 0xa1 11264 8737",
        "read -P 0xa4 20001 1",
        "read -P 0xa1 20002 20957",
        "read -P 0xa5 40959 2",
        "read -P 0xa1 40961 1007615",
        "write -z 65536 65536",
        "read -P 0 65536 65536",
        "write -z -u 200001 77",
        "read -P 0 200001 77",
        "read -P 0xa1 200000 1",
        "read -P 0xa1 200078 1",
        "write -f -P 0xa6 67108352 512",
        "read -P 0xa6 67108352 512",
        "discard 524288 262144",
        "read -P 0xa1 786432 262144",
        "read -P 0 2M 1M",
        "writev -P 0xa7 3M 512 1024 4096",
        "readv -P 0xa7 3M 5120 512",
        "flush",
    ];
    let mut arguments = vec!["-f", "raw", URI];
    for step in &steps {
        arguments.extend(["-c", step]);
    }
    let ran = bench.tool_run("qemu-io", &arguments);
    let text = ran.text();
    assert_eq!(ran.code, Some(0), "{text}");
    assert!(!text.contains("failed"), "{text}");
    let reads = steps.iter().filter(|step| step.starts_with("read")).count();
    assert_eq!(
        text.matches("\nread ").count() + usize::from(text.starts_with("read ")),
        reads,
        "{text}"
    );
}

#[test]
fn fio_verifies_what_it_wrote() {
    let bench = Bench::with_store("64MiB");
    let server = bench.serve_store();
    for (name, depth, range) in [("small", "1", "1536-1536"), ("deep", "32", "4k-128k")] {
        let arguments = [
            &format!("--name={name}"),
            "--ioengine=nbd",
            &format!("--uri={URI}"),
            "--rw=randrw",
            &format!("--bsrange={range}"),
            "--size=24M",
            "--offset=8M",
            &format!("--iodepth={depth}"),
            "--fsync=32",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--time_based",
            "--runtime=2",
        ];
        contains(&bench.tool("fio", &arguments), "err= 0");
    }
    server.end_ok();
    contains(&bench.ok(&["check", "s.tn"]), "no damage found");
}
