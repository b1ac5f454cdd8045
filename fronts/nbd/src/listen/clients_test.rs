//! The handshake with real clients: libnbd's tools, of the Debian package `libnbd-bin`, and qemu's, of `qemu-utils`.

use std::fs;
use std::process::Command;

use super::testing::*;
use crate::tls::Tls;
use crate::tls::testing::Authority;

/// Standard output of a program that must succeed.
fn output_of(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("cannot run {program}: {error}"));
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn nbdinfo_lists_the_exports() {
    let rig = Rig::new();
    let uri = format!("nbd+unix:///?socket={}", rig.path().display());
    let list = output_of("nbdinfo", &["--list", "--json", &uri]);
    for expected in [
        r#""export-name": "main""#,
        r#""export-name": "frozen""#,
        r#""description": "volume main""#,
        r#""base:allocation""#,
        r#""is_read_only": true"#,
        r#""can_multi_conn": true"#,
        r#""can_fast_zero": true"#,
        r#""can_cache": true"#,
        r#""can_df": true"#,
        r#""block_size_preferred": 4096"#,
        r#""block_size_maximum": 33554432"#,
        r#""export-size": 10737418240"#,
    ] {
        assert!(list.contains(expected), "{expected} in {list}");
    }
}

#[test]
fn nbdinfo_asks_for_the_default_export_under_tls() {
    let authority = Authority::new();
    let rig = Rig::with(|config| config.tls = Tls::Require(authority.strict_server()));
    let folder = tempfile::tempdir().expect("folder");
    for name in ["ca-cert.pem", "client-cert.pem", "client-key.pem"] {
        fs::copy(authority.path(name), folder.path().join(name)).expect("copied");
    }
    let uri = format!(
        "nbds+unix:///?socket={}&tls-certificates={}",
        rig.path().display(),
        folder.path().display()
    );
    let list = output_of("nbdinfo", &["--list", "--json", &uri]);
    assert!(list.contains(r#""TLS": true"#), "{list}");
    assert!(list.contains(r#""export-name": "frozen""#), "{list}");
}

#[test]
fn qemu_nbd_lists_the_exports() {
    let rig = Rig::new();
    let path = rig.path().display().to_string();
    let list = output_of("qemu-nbd", &["--list", "--socket", &path]);
    assert!(list.contains("exports available: 3"), "{list}");
    assert!(list.contains("size:  10737418240"), "{list}");
    assert!(list.contains("base:allocation"), "{list}");
}
