//! Why a handshake ends without an export.

/// The server drops the connection, for this reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Close {
    /// The client asked for it; not an error.
    #[error("the client ended the session")]
    Aborted,
    /// The client set handshake flags that were not offered.
    #[error("unknown client flags {0:#x}")]
    ClientFlags(u32),
    /// An option does not start with the magic.
    #[error("an option does not start with the NBD option magic")]
    OptionMagic,
    /// A client without fixed newstyle sent something else than an export name.
    #[error("option {0} without fixed newstyle negotiation")]
    NotFixedNewstyle(u32),
    /// An option's data is too long even to throw away.
    #[error("option {option} announces {data_bytes} bytes of data")]
    OptionBytes {
        /// The option.
        option: u32,
        /// Its claimed length.
        data_bytes: u32,
    },
    /// The client has sent too many options.
    #[error("more options than one session may send")]
    TooManyOptions,
    /// `OPT_EXPORT_NAME` named no export, and cannot be answered by an error.
    #[error("no such export: {0:?}")]
    UnknownExport(String),
    /// `OPT_EXPORT_NAME` with a name that is not a legal string.
    #[error("the export name is not a legal string")]
    ExportNameSyntax,
    /// `OPT_EXPORT_NAME` before TLS, which this server requires.
    #[error("TLS is required before an export is chosen")]
    TlsRequired,
}
