//! Runs a [`Negotiation`] over a blocking stream.

use std::io::{self, Read, Write};

use super::close::Close;
use super::negotiation::{Negotiation, Step};

/// Why a handshake delivered no connection.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The protocol ended it.
    #[error(transparent)]
    Closed(#[from] Close),
    /// The client went away.
    #[error("the client disconnected during the handshake")]
    Disconnected,
    /// The deadline passed.
    #[error("the handshake took longer than its deadline")]
    TimedOut,
    /// The TLS handshake or a TLS record failed.
    #[error("TLS: {0}")]
    Tls(rustls::Error),
    /// The stream failed.
    #[error("input/output error during the handshake: {0}")]
    Io(io::Error),
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> HandshakeError {
        use io::ErrorKind as Kind;
        // rustls wraps its errors into I/O errors of the stream.
        if let Some(tls) = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<rustls::Error>())
        {
            return HandshakeError::Tls(tls.clone());
        }
        match error.kind() {
            Kind::TimedOut => HandshakeError::TimedOut,
            Kind::UnexpectedEof
            | Kind::ConnectionReset
            | Kind::ConnectionAborted
            | Kind::BrokenPipe => HandshakeError::Disconnected,
            _ => HandshakeError::Io(error),
        }
    }
}

/// Exchanges messages until a step other than [`Step::Read`] is reached, whose
/// output has been sent. Never returns [`Step::Read`]; a [`Step::Close`] is
/// returned as an error. Reads no byte beyond the message in progress.
pub fn drive<S: Read + Write>(
    stream: &mut S,
    negotiation: &mut Negotiation,
) -> Result<Step, HandshakeError> {
    let mut buffer = [0; 4096];
    send(stream, negotiation)?;
    loop {
        let want = negotiation.want().min(buffer.len());
        debug_assert!(want > 0, "an open negotiation waits for bytes");
        let got = match stream.read(&mut buffer[..want]) {
            Ok(0) => return Err(HandshakeError::Disconnected),
            Ok(got) => got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        let step = negotiation.supply(&buffer[..got]);
        // A client that aborts may be gone before the reply. This is not an error.
        let sent = send(stream, negotiation);
        match step {
            Step::Close(close) => return Err(close.into()),
            Step::Read => sent?,
            step => return sent.map(|()| step),
        }
    }
}

fn send<S: Write>(stream: &mut S, negotiation: &mut Negotiation) -> Result<(), HandshakeError> {
    let output = negotiation.take_output();
    if !output.is_empty() {
        stream.write_all(&output)?;
        stream.flush()?;
    }
    Ok(())
}
