//! Volumes that virtual machines use through a vhost-user socket.

use super::mailbox::{Mailbox, Message};
use super::socket_file::SocketFile;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use tonearm_terminal::report;
use tonearm_vhost::{AskEngine, SessionError};

/// A socket, and the volume behind it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VhostUser {
    /// The socket.
    pub path: PathBuf,
    /// Name of the volume.
    pub volume: String,
}

impl FromStr for VhostUser {
    type Err = String;

    /// Reads `PATH[:VOLUME]`. What is after the last colon is no volume if it has a slash.
    fn from_str(text: &str) -> Result<Self, String> {
        let (path, volume) = match text.rsplit_once(':') {
            Some((path, volume)) if !volume.contains('/') => (path, volume),
            _ => (text, "main"),
        };
        if path.is_empty() || volume.is_empty() {
            return Err("write PATH or PATH:VOLUME, such as /run/vm.sock:main".to_owned());
        }
        Ok(Self {
            path: path.into(),
            volume: volume.to_owned(),
        })
    }
}

impl VhostUser {
    /// Listens. One virtual machine uses the socket at a time; the next one waits.
    ///
    /// # Errors
    /// When there is no such volume, or the socket cannot be made.
    pub fn start(&self, mailbox: &Mailbox) -> anyhow::Result<SocketFile> {
        let mailbox = mailbox.clone();
        let engine: AskEngine = Arc::new(move |ask| mailbox.send(Message::Vhost(ask)));
        tonearm_vhost::shape(&self.volume, &engine)?;
        let Self { path, volume } = self.clone();
        let socket =
            SocketFile::listen(
                &self.path,
                "vhost-user",
                move |stream| match tonearm_vhost::serve(stream, &volume, &engine) {
                    Ok(()) | Err(SessionError::Ended) => {}
                    Err(error) => report::note(format_args!(
                        "vhost-user client of {volume} at {}: {error}",
                        path.display()
                    )),
                },
            )?;
        report::note(format_args!(
            "serving {} to a virtual machine at {} (vhost-user-blk)",
            self.volume,
            self.path.display()
        ));
        Ok(socket)
    }
}

#[cfg(test)]
mod tests {
    use super::VhostUser;

    #[test]
    fn a_socket_may_name_its_volume() {
        let parts = |text: &str| {
            let parsed: VhostUser = text.parse().unwrap();
            (parsed.path.to_str().unwrap().to_owned(), parsed.volume)
        };
        let of = |path: &str, volume: &str| (path.to_owned(), volume.to_owned());
        assert_eq!(parts("/run/vm.sock"), of("/run/vm.sock", "main"));
        assert_eq!(parts("vm.sock:data"), of("vm.sock", "data"));
        assert_eq!(parts("/a:b/vm.sock"), of("/a:b/vm.sock", "main"));
        assert_eq!(parts("/a:b/vm.sock:c"), of("/a:b/vm.sock", "c"));
        for wrong in ["", ":data", "vm.sock:"] {
            assert!(wrong.parse::<VhostUser>().is_err(), "{wrong}");
        }
    }
}
