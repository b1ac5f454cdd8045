use std::fs;

use super::testing::*;
use super::*;
use crate::handshake::TlsPolicy;

fn error_of(files: &TlsFiles) -> String {
    server_config(files)
        .expect_err("unusable files")
        .to_string()
}

#[test]
fn good_files_make_a_configuration() {
    let authority = Authority::new();
    let config = authority.strict_server();
    assert_eq!(Tls::Off.policy(), TlsPolicy::Off);
    assert_eq!(Tls::Allow(config.clone()).policy(), TlsPolicy::Allow);
    assert_eq!(Tls::Require(config).policy(), TlsPolicy::Require);
}

#[test]
fn errors_name_the_file() {
    let authority = Authority::new();
    let missing = authority.path("missing.pem");
    let garbage = authority.path("garbage.pem");
    fs::write(&garbage, "nothing here").expect("written");
    let broken = authority.path("broken.pem");
    fs::write(
        &broken,
        "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n",
    )
    .expect("written");

    for (path, what) in [
        (&missing, "cannot read TLS file"),
        (&garbage, "holds no certificate"),
        (&broken, "cannot read TLS file"),
    ] {
        let mut files = authority.files();
        files.certificate = path.clone();
        let error = error_of(&files);
        assert!(error.contains(what), "{error}");
        assert!(error.contains(&path.display().to_string()), "{error}");

        let mut files = authority.files();
        files.client_ca = Some(path.clone());
        let error = error_of(&files);
        assert!(error.contains(&path.display().to_string()), "{error}");
    }
    let mut files = authority.files();
    files.key = missing.clone();
    assert!(error_of(&files).contains("missing.pem"));
    files.key = garbage;
    let error = error_of(&files);
    assert!(
        error.contains("garbage.pem holds no private key"),
        "{error}"
    );
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    let authority = Authority::new();
    let mut files = authority.files();
    files.key = authority.path("client-key.pem");
    let error = error_of(&files);
    assert!(error.contains("server-cert.pem"), "{error}");
    assert!(error.contains("client-key.pem"), "{error}");
}
