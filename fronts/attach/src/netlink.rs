//! The kernel's NBD client, asked through generic netlink (include/uapi/linux/nbd-netlink.h).

use crate::device::Device;
use crate::error::AttachError;
use crate::identity::Identity;
use neli::consts::nl::NlmF;
use neli::consts::socket::NlFamily;
use neli::err::RouterError;
use neli::genl::{AttrTypeBuilder, Genlmsghdr, GenlmsghdrBuilder, Nlattr, NlattrBuilder};
use neli::nl::NlPayload;
use neli::router::synchronous::NlRouter;
use neli::types::{Buffer, GenlBuffer};
use neli::utils::Groups;
use neli::{Size, ToBytes};
use std::fmt::Display;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Name of the family, and its version.
const FAMILY: &str = "nbd";
const VERSION: u8 = 1;

/// Commands.
const CONNECT: u8 = 1;
const DISCONNECT: u8 = 2;
const RECONFIGURE: u8 = 3;

/// Attributes.
const INDEX: u16 = 1;
const SIZE_BYTES: u16 = 2;
const BLOCK_SIZE_BYTES: u16 = 3;
const TIMEOUT: u16 = 4;
const SERVER_FLAGS: u16 = 5;
const SOCKETS: u16 = 7;
const DEAD_CONN_TIMEOUT: u16 = 8;
const BACKEND_IDENTIFIER: u16 = 10;
/// An attribute within SOCKETS, and one within that.
const SOCK_ITEM: u16 = 1;
const SOCK_FD: u16 = 1;

/// The kernel sends a request again when it has no answer after so many seconds and its socket was replaced. It cuts a socket
/// that gives no answer for so long.
const REQUEST_SECONDS: u64 = 30;

/// What the kernel must know of a volume.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Size in bytes.
    pub size_bytes: u64,
    /// Bytes of a block: 512 to 4,096, a power of two.
    pub block_bytes: u32,
    /// Transmission flags of the NBD protocol.
    pub flags: u16,
    /// How long programs wait for a server that has gone, in whole seconds.
    pub patience: Duration,
}

/// A connection to the kernel's NBD client.
pub struct Kernel {
    router: NlRouter,
    family: u16,
}

type Attributes = GenlBuffer<u16, Buffer>;

impl Kernel {
    /// Connects.
    ///
    /// # Errors
    /// When the kernel has no NBD client.
    pub fn new() -> Result<Self, AttachError> {
        let connected = NlRouter::connect(NlFamily::Generic, None, Groups::empty());
        let (router, _) = connected.map_err(|error| unanswered("a netlink socket", &error))?;
        let family = router
            .resolve_genl_family(FAMILY)
            .map_err(|_| AttachError::NoModule)?;
        Ok(Self { router, family })
    }

    /// Makes a device over a connected socket, whose other end serves requests already. Returns the device's number.
    ///
    /// # Errors
    /// When the kernel refuses, or has no device left.
    pub fn connect(
        &self,
        socket: BorrowedFd<'_>,
        shape: Shape,
        identity: &Identity,
    ) -> Result<u32, AttachError> {
        let attributes = [
            attribute(SIZE_BYTES, shape.size_bytes)?,
            attribute(BLOCK_SIZE_BYTES, u64::from(shape.block_bytes))?,
            attribute(TIMEOUT, REQUEST_SECONDS)?,
            attribute(SERVER_FLAGS, u64::from(shape.flags))?,
            attribute(DEAD_CONN_TIMEOUT, shape.patience.as_secs())?,
            attribute(BACKEND_IDENTIFIER, identity.to_string())?,
            sockets(socket)?,
        ];
        let what = "a device";
        let answers = match self.ask(what, CONNECT, attributes.into_iter().collect()) {
            Err(AttachError::Refused { error, .. })
                if matches!(error.raw_os_error(), Some(NO_DEVICE | BUSY)) =>
            {
                return Err(AttachError::NoneFree);
            }
            answers => answers?,
        };
        answers
            .first()
            .copied()
            .ok_or_else(|| AttachError::Unanswered {
                what,
                why: "it did not tell the device's number".to_owned(),
            })
    }

    /// Offers a device another socket, and sends it the size. The kernel takes the socket if the one that it has is dead. Otherwise
    /// it keeps its own, and reports nothing.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn reconnect(
        &self,
        device: &Device,
        socket: BorrowedFd<'_>,
        shape: Shape,
    ) -> Result<(), AttachError> {
        let attributes = [
            attribute(INDEX, device.index)?,
            attribute(SIZE_BYTES, shape.size_bytes)?,
            attribute(BLOCK_SIZE_BYTES, u64::from(shape.block_bytes))?,
            attribute(DEAD_CONN_TIMEOUT, shape.patience.as_secs())?,
            attribute(BACKEND_IDENTIFIER, device.backend.clone())?,
            sockets(socket)?,
        ];
        self.ask(
            "another socket",
            RECONFIGURE,
            attributes.into_iter().collect(),
        )
        .map(|_| ())
    }

    /// Ends a device.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn disconnect(&self, device: &Device) -> Result<(), AttachError> {
        let attributes = [attribute(INDEX, device.index)?];
        let asked = self.ask(
            "the end of a device",
            DISCONNECT,
            attributes.into_iter().collect(),
        );
        asked.map(|_| ())
    }

    /// Sends a command, waits for its end, and returns the numbers of devices in the answers.
    fn ask(
        &self,
        what: &'static str,
        command: u8,
        attributes: Attributes,
    ) -> Result<Vec<u32>, AttachError> {
        let message = GenlmsghdrBuilder::default()
            .cmd(command)
            .version(VERSION)
            .attrs(attributes)
            .build()
            .map_err(|error| unanswered(what, &error))?;
        let payload = NlPayload::Payload(message);
        let receiver = self
            .router
            .send::<_, _, u16, Genlmsghdr<u8, u16>>(self.family, NlmF::ACK, payload)
            .map_err(|error| unanswered(what, &error))?;
        let mut numbers = Vec::new();
        for answer in receiver {
            match answer {
                Ok(message) => {
                    if let NlPayload::Payload(message) = message.nl_payload() {
                        let handle = message.attrs().get_attr_handle();
                        numbers.extend(handle.get_attr_payload_as::<u32>(INDEX).ok());
                    }
                }
                Err(RouterError::Nlmsgerr(refused)) => {
                    let error = io::Error::from_raw_os_error(-*refused.error());
                    return Err(match error.kind() {
                        io::ErrorKind::PermissionDenied => AttachError::NotPermitted,
                        _ => AttachError::Refused { what, error },
                    });
                }
                Err(error) => return Err(unanswered(what, &error)),
            }
        }
        Ok(numbers)
    }
}

/// Error numbers of the kernel.
const BUSY: i32 = rustix::io::Errno::BUSY.raw_os_error();
const NO_DEVICE: i32 = rustix::io::Errno::NODEV.raw_os_error();

/// The list of sockets, with one.
fn sockets(socket: BorrowedFd<'_>) -> Result<Nlattr<u16, Buffer>, AttachError> {
    let number =
        u32::try_from(socket.as_raw_fd()).map_err(|error| unanswered("a socket", &error))?;
    let item = attribute(SOCK_ITEM, Buffer::new())?;
    let item = item.nest(&attribute(SOCK_FD, number)?);
    let item = item.map_err(|error| unanswered("a socket", &error))?;
    let list = attribute(SOCKETS, Buffer::new())?.nest(&item);
    list.map_err(|error| unanswered("a socket", &error))
}

fn attribute(kind: u16, value: impl Size + ToBytes) -> Result<Nlattr<u16, Buffer>, AttachError> {
    let kind = AttrTypeBuilder::default().nla_type(kind).build();
    let kind = kind.map_err(|error| unanswered("an attribute", &error))?;
    let attribute = NlattrBuilder::default().nla_type(kind).nla_payload(value);
    attribute
        .build()
        .map_err(|error| unanswered("an attribute", &error))
}

fn unanswered(what: &'static str, why: &dyn Display) -> AttachError {
    AttachError::Unanswered {
        what,
        why: why.to_string(),
    }
}
