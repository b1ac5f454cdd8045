//! Certificates and clients for tests.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use tempfile::TempDir;

use super::*;

/// An authority with a server's and a client's certificate, as PEM files.
pub(crate) struct Authority {
    folder: TempDir,
    certificate: CertificateDer<'static>,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let folder = tempfile::tempdir().expect("folder");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("authority");
        let write = |name: &str, text: String| {
            fs::write(folder.path().join(name), text).expect("written");
        };
        write("ca-cert.pem", issuer.pem());
        for name in ["server", "client"] {
            let key = KeyPair::generate().expect("key");
            let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
            let certificate = params.signed_by(&key, &issuer).expect("certificate");
            write(&format!("{name}-cert.pem"), certificate.pem());
            write(&format!("{name}-key.pem"), key.serialize_pem());
        }
        let certificate = issuer.der().clone();
        Authority {
            folder,
            certificate,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn files(&self) -> TlsFiles {
        TlsFiles {
            certificate: self.path("server-cert.pem"),
            key: self.path("server-key.pem"),
            client_ca: None,
        }
    }

    pub(crate) fn server(&self) -> Arc<ServerConfig> {
        server_config(&self.files()).expect("server configuration")
    }

    /// A server that wants client certificates of this authority.
    pub(crate) fn strict_server(&self) -> Arc<ServerConfig> {
        let mut files = self.files();
        files.client_ca = Some(self.path("ca-cert.pem"));
        server_config(&files).expect("server configuration")
    }

    /// A client that trusts this authority, with a certificate of its own or not.
    pub(crate) fn client(&self, with_certificate: bool) -> ClientConnection {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).expect("root");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
        let config = if with_certificate {
            let certificate =
                CertificateDer::from_pem_file(self.path("client-cert.pem")).expect("certificate");
            let key = PrivateKeyDer::from_pem_file(self.path("client-key.pem")).expect("key");
            builder
                .with_client_auth_cert(vec![certificate], key)
                .expect("client certificate")
        } else {
            builder.with_no_client_auth()
        };
        let name = ServerName::try_from("localhost").expect("name");
        ClientConnection::new(Arc::new(config), name).expect("client")
    }
}

/// A server's side of a connection that has yet to shake hands.
pub(crate) fn server_connection(config: Arc<ServerConfig>) -> ServerConnection {
    ServerConnection::new(config).expect("server")
}
