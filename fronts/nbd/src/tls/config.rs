//! The rustls configuration from PEM files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::handshake::TlsPolicy;

/// Whether connections use TLS, and with which configuration.
#[derive(Clone, Debug, Default)]
pub enum Tls {
    /// No TLS.
    #[default]
    Off,
    /// TLS for clients that ask for it.
    Allow(Arc<ServerConfig>),
    /// TLS for every client.
    Require(Arc<ServerConfig>),
}

impl Tls {
    /// The policy alone.
    pub fn policy(&self) -> TlsPolicy {
        match self {
            Tls::Off => TlsPolicy::Off,
            Tls::Allow(_) => TlsPolicy::Allow,
            Tls::Require(_) => TlsPolicy::Require,
        }
    }

    /// The configuration, when there is one.
    pub fn config(&self) -> Option<&Arc<ServerConfig>> {
        match self {
            Tls::Off => None,
            Tls::Allow(config) | Tls::Require(config) => Some(config),
        }
    }
}

/// The PEM files of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, followed by intermediate ones.
    pub certificate: PathBuf,
    /// The private key of the certificate: PKCS#8, PKCS#1 or SEC1.
    pub key: PathBuf,
    /// Authorities that sign client certificates. When given, clients without
    /// a valid certificate are refused.
    pub client_ca: Option<PathBuf>,
}

/// What is wrong with the TLS files.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or is not PEM.
    #[error("cannot read TLS file {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What happened.
        error: String,
    },
    /// A PEM file lacks the items that it was given for.
    #[error("TLS file {} holds no {what}", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// The items that were expected.
        what: &'static str,
    },
    /// A certificate authority that cannot be used.
    #[error("cannot use the client authorities of {}: {error}", path.display())]
    ClientCa {
        /// The file.
        path: PathBuf,
        /// What rustls or its verifier says.
        error: String,
    },
    /// Certificate and key do not belong together, or are of a kind that is not
    /// supported.
    #[error(
        "cannot use certificate {} with key {}: {error}",
        certificate.display(),
        key.display()
    )]
    Pair {
        /// The certificate file.
        certificate: PathBuf,
        /// The key file.
        key: PathBuf,
        /// What rustls says.
        error: rustls::Error,
    },
}

/// Makes a configuration for TLS 1.2 and 1.3.
pub fn server_config(files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
    let certificates = read_certificates(&files.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::Missing {
            path: files.key.clone(),
            what: "private key",
        },
        error => unreadable(&files.key, &error),
    })?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| pair(files, error))?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let unusable = |error: String| TlsError::ClientCa {
                path: path.clone(),
                error,
            };
            let mut roots = RootCertStore::empty();
            for certificate in read_certificates(path)? {
                roots
                    .add(certificate)
                    .map_err(|error| unusable(error.to_string()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|error| unusable(error.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let config = builder
        .with_single_cert(certificates, key)
        .map_err(|error| pair(files, error))?;
    Ok(Arc::new(config))
}

fn pair(files: &TlsFiles, error: rustls::Error) -> TlsError {
    TlsError::Pair {
        certificate: files.certificate.clone(),
        key: files.key.clone(),
        error,
    }
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(|items| items.collect::<Result<Vec<_>, _>>())
        .map_err(|error| unreadable(path, &error))?;
    if certificates.is_empty() {
        return Err(TlsError::Missing {
            path: path.to_owned(),
            what: "certificate",
        });
    }
    Ok(certificates)
}

fn unreadable(path: &Path, error: &pem::Error) -> TlsError {
    TlsError::File {
        path: path.to_owned(),
        error: match error {
            pem::Error::Io(error) => error.to_string(),
            error => error.to_string(),
        },
    }
}
