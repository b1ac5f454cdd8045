//! Reports to the service manager that has started this program when it serves and when it stops (sd_notify(3)).

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use tonearm_terminal::report;

/// The environment variable by which the manager names its socket.
pub const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";

/// The service manager, if there is one.
pub struct ServiceManager(Option<OsString>);

impl ServiceManager {
    /// That of the environment.
    pub fn of_environment() -> Self {
        Self(std::env::var_os(SOCKET_VARIABLE).filter(|name| !name.is_empty()))
    }

    /// The program serves: units that wait for it may start.
    pub fn ready(&self) {
        self.report("READY=1");
    }

    /// The program stops in order.
    pub fn stopping(&self) {
        self.report("STOPPING=1");
    }

    fn report(&self, state: &str) {
        if let Some(name) = &self.0
            && let Err(error) = send(name, state)
        {
            report::note(format_args!(
                "{state} does not reach the service manager at {SOCKET_VARIABLE}={}: {error}",
                name.display()
            ));
        }
    }
}

/// Sends `state` to the socket `name`, which begins with @ in Linux's abstract namespace.
fn send(name: &OsStr, state: &str) -> io::Result<()> {
    let address = match name.as_bytes() {
        [b'@', abstract_name @ ..] => SocketAddr::from_abstract_name(abstract_name)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    let sent = socket.send_to_addr(state.as_bytes(), &address)?;
    if sent == state.len() {
        Ok(())
    } else {
        Err(io::ErrorKind::WriteZero.into())
    }
}

#[cfg(test)]
#[path = "service_test.rs"]
mod service_test;
