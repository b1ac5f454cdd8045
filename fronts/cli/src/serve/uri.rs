//! NBD URIs of the served exports (`doc/uri.md` of the NBD project).

use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tonearm_nbd::listen::ListenAddress;

/// The URI of export `export` at `address`; `None` where clients cannot name the address.
pub fn of(address: &ListenAddress, export: &str, tls: bool) -> Option<String> {
    let scheme = if tls { "nbds" } else { "nbd" };
    let export = encode(export.as_bytes(), b"");
    match address {
        ListenAddress::Unix(path) => {
            let path = std::path::absolute(path).ok()?;
            let path = encode(path.as_os_str().as_bytes(), b"/");
            Some(format!("{scheme}+unix:///{export}?socket={path}"))
        }
        ListenAddress::Tcp(address) => Some(format!("{scheme}://{}/{export}", reachable(*address))),
        ListenAddress::Anonymous => None,
    }
}

/// The path of a Unix socket, absolute.
pub fn socket_path(address: &ListenAddress) -> Option<std::path::PathBuf> {
    match address {
        ListenAddress::Unix(path) => std::path::absolute::<&Path>(path).ok(),
        _ => None,
    }
}

/// An address that stands for all addresses of this machine is reached from here by the loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::from([127, 0, 0, 1]),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn encode(bytes: &[u8], also_plain: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) || also_plain.contains(byte) {
            text.push(char::from(*byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
#[path = "uri_test.rs"]
mod uri_test;
