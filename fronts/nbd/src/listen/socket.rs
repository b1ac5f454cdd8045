//! The sockets a server listens on.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_nodelay, socket_acceptconn, socket_peercred, socket_type,
};
use rustix::net::{
    AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, accept_with,
    getpeername, getsockname, listen,
};

use super::unix::{SocketFile, bind_unix};

/// Connections that wait to be accepted; the kernel may allow fewer.
const BACKLOG: i32 = 1024;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// A Unix socket in the file system.
    Unix(PathBuf),
    /// A TCP address, with the port that was really bound.
    Tcp(SocketAddr),
    /// A Unix socket without a path, inherited.
    Anonymous,
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Unix(path) => write!(formatter, "unix:{}", path.display()),
            ListenAddress::Tcp(address) => write!(formatter, "tcp:{address}"),
            ListenAddress::Anonymous => formatter.write_str("unix:(inherited)"),
        }
    }
}

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address cannot be bound.
    #[error("cannot listen on {address}: {error}")]
    Bind {
        /// The address.
        address: String,
        /// What the system says.
        error: io::Error,
    },
    /// Another server listens there.
    #[error("{} is in use by a running server", path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// A file is in the way, and is not a socket.
    #[error("{} exists and is not a socket; remove it or choose another path", path.display())]
    NotASocket {
        /// The file.
        path: PathBuf,
    },
    /// An inherited descriptor cannot be served.
    #[error("inherited descriptor is not a listening stream socket of a known family")]
    Inherited,
}

/// A bound, listening socket. Dropping it removes a Unix socket's file.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    address: ListenAddress,
    _file: Option<SocketFile>,
}

impl Listener {
    /// Listens on a Unix socket, replacing the file of a dead server.
    pub fn unix(path: &Path) -> Result<Listener, ListenError> {
        let (fd, file) = bind_unix(path)?;
        let address = ListenAddress::Unix(path.to_owned());
        let listener = Listener {
            fd,
            address,
            _file: Some(file),
        };
        listener.listen()
    }

    /// Listens on a TCP address; port 0 lets the system choose.
    pub fn tcp(address: SocketAddr) -> Result<Listener, ListenError> {
        let failed = |error| ListenError::Bind {
            address: address.to_string(),
            error,
        };
        let socket = TcpListener::bind(address).map_err(failed)?;
        let address = ListenAddress::Tcp(socket.local_addr().map_err(failed)?);
        let listener = Listener {
            fd: socket.into(),
            address,
            _file: None,
        };
        listener.listen()
    }

    /// Serves a socket that another program bound, as systemd does. Its file, if
    /// any, is not removed.
    pub fn inherited(fd: OwnedFd) -> Result<Listener, ListenError> {
        let listening = socket_acceptconn(&fd) == Ok(true)
            && socket_type(&fd).is_ok_and(|kind| kind == SocketType::STREAM);
        let address = getsockname(&fd).ok().and_then(listen_address);
        match address {
            Some(address) if listening => Listener {
                fd,
                address,
                _file: None,
            }
            .nonblocking(),
            _ => Err(ListenError::Inherited),
        }
    }

    /// The address at which clients connect.
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }

    pub(super) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Takes a waiting connection and a name for its client. Never blocks.
    pub(super) fn accept(&self) -> Result<(OwnedFd, String), Errno> {
        let fd = accept_with(&self.fd, SocketFlags::CLOEXEC)?;
        let peer = match self.address {
            ListenAddress::Tcp(_) => {
                // Replies must not wait for acknowledgements, and the connection of a client that has vanished must not
                // stay for ever.
                set_tcp_nodelay(&fd, true)?;
                set_socket_keepalive(&fd, true)?;
                let peer = getpeername(&fd)?;
                peer.and_then(|peer| SocketAddr::try_from(peer).ok())
                    .map_or_else(|| "tcp".to_owned(), |peer| format!("tcp:{peer}"))
            }
            _ => match socket_peercred(&fd) {
                Ok(cred) => format!(
                    "unix:pid={},uid={}",
                    cred.pid.as_raw_nonzero(),
                    cred.uid.as_raw()
                ),
                Err(_) => "unix".to_owned(),
            },
        };
        Ok((fd, peer))
    }

    fn listen(self) -> Result<Listener, ListenError> {
        match listen(&self.fd, BACKLOG) {
            Ok(()) => self.nonblocking(),
            Err(errno) => Err(ListenError::Bind {
                address: self.address.to_string(),
                error: errno.into(),
            }),
        }
    }

    /// Makes the listener non-blocking. A connection can vanish between readiness and acceptance, and the acceptor must
    /// not hang then.
    fn nonblocking(self) -> Result<Listener, ListenError> {
        match ioctl_fionbio(&self.fd, true) {
            Ok(()) => Ok(self),
            Err(errno) => Err(ListenError::Bind {
                address: self.address.to_string(),
                error: errno.into(),
            }),
        }
    }
}

fn listen_address(address: SocketAddrAny) -> Option<ListenAddress> {
    if address.address_family() == AddressFamily::UNIX {
        let address = SocketAddrUnix::try_from(address).ok()?;
        let path = address
            .path()
            .and_then(|path| path.to_str().ok().map(PathBuf::from));
        return Some(path.map_or(ListenAddress::Anonymous, ListenAddress::Unix));
    }
    SocketAddr::try_from(address).ok().map(ListenAddress::Tcp)
}
