//! Images of volumes: copies them into a store and out of it, sparse both ways, through its server or in process.

use super::super::files::copy::{STEP_BYTES, Stop, lock};
use super::super::files::place::Place;
use super::super::files::{damage_counts, open};
use super::format::{Format, HEAD_BYTES};
use crate::cli::{VolumeGet, VolumePut, VolumeStore};
use crate::control::{Answer, Client, Request, users_text};
use anyhow::{Context, bail};
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use serde::Serialize;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::ExitCode;
use tonearm_store::files::{FileId, Files, Level};
use tonearm_terminal::progress::{Progress, Unit};
use tonearm_terminal::{report, size};

/// Granularity in bytes at which zeroes are recognised.
const PIECE: u64 = 4096;

/// What was copied, in JSON.
#[derive(Serialize)]
struct Copied<'a> {
    volume: &'a str,
    path: &'a str,
    size_bytes: u64,
    /// The rest was zeroes.
    data_bytes: u64,
}

/// `volume put`.
///
/// # Errors
/// When there is no such volume or image, the image is too large, or something cannot be read or written.
pub fn put(arguments: &VolumePut) -> anyhow::Result<ExitCode> {
    let name = &arguments.name;
    let mut image = Image::open(&arguments.file)?;
    if let Some(format) = Format::of(&image.head).filter(|_| !arguments.raw) {
        let (file, store) = (&arguments.file, &arguments.store.store.path);
        bail!(
            "{}: {}",
            image.name,
            format.advice(&report::shell_word(file), &report::shell_word(store), name)
        );
    }
    let stop = Stop::on_signals()?;
    let files = open(&arguments.store.store)?;
    let volume = Volume::open(&*files, name, Level::Exclusive)?;
    if let Some(bytes) = image.size.filter(|bytes| *bytes > volume.size) {
        bail!(
            "{} has {} and volume {name} {}; make it larger first: `tonearm volume resize {} {name} --size {bytes}`",
            image.name,
            size::text(bytes),
            size::text(volume.size),
            arguments.store.store.path.display(),
        );
    }
    if !arguments.force {
        refuse_clients(&arguments.store, name)?;
    }
    let copied = copy_in(&volume, &mut image, &stop);
    let (bytes, data) = copied.map_err(|error| {
        if volume.changed.get() {
            error.context(format!(
                "volume {name} holds a part of {} at most; put it again",
                image.name
            ))
        } else {
            error
        }
    })?;
    let done = format!("{} -> {name}", image.name);
    report_copy(
        &arguments.store.store,
        &done,
        &Copied {
            volume: name,
            path: &image.name,
            size_bytes: bytes,
            data_bytes: data,
        },
    )?;
    Ok(ExitCode::SUCCESS)
}

/// `volume get`.
///
/// # Errors
/// When there is no such volume, it cannot be read, or the image not written.
pub fn get(arguments: &VolumeGet) -> anyhow::Result<ExitCode> {
    damage_counts(copy_out(arguments))
}

fn copy_out(arguments: &VolumeGet) -> anyhow::Result<()> {
    let copy = &arguments.copy;
    let place = Place::find(copy.file.as_deref(), &copy.name, copy.force)?;
    let stop = Stop::on_signals()?;
    let files = open(&copy.store)?;
    let volume = Volume::open(&*files, &copy.name, Level::Shared)?;
    let mut target = place.begin()?;
    let (mut bar, mut step) = (Progress::new("copying", Unit::Bytes), vec![0; STEP_BYTES]);
    let (mut at, mut data) = (0, 0);
    while at < volume.size {
        for (bytes, allocated) in volume.status(at, volume.size - at)? {
            let end = at + bytes;
            while at < end {
                stop.check()?;
                // A step ends at a multiple of its size, so that all pieces are the same.
                let border = (at / STEP_BYTES as u64 + 1) * STEP_BYTES as u64;
                let to = if allocated { end.min(border) } else { end };
                if allocated {
                    let step = &mut step[..(to - at) as usize];
                    volume.read(at, step)?;
                    for (piece, is_zero) in pieces(at, step) {
                        let written = if is_zero {
                            target.skip(piece.len() as u64)
                        } else {
                            io::Write::write_all(&mut target, piece)
                        };
                        written.context("cannot write the image")?;
                        data += if is_zero { 0 } else { piece.len() as u64 };
                    }
                } else {
                    target.skip(to - at).context("cannot write the image")?;
                }
                at = to;
                bar.at(at, volume.size);
            }
        }
    }
    drop(bar);
    match target.finish()? {
        Some(path) => report_copy(
            &copy.store,
            &format!("{} -> {path}", copy.name),
            &Copied {
                volume: &copy.name,
                path: &path,
                size_bytes: volume.size,
                data_bytes: data,
            },
        ),
        None => Ok(()),
    }
}

fn report_copy(
    store: &crate::cli::StoreArgs,
    done: &str,
    copied: &Copied<'_>,
) -> anyhow::Result<()> {
    if store.json {
        return report::json(copied);
    }
    let (all, data) = (size::text(copied.size_bytes), size::text(copied.data_bytes));
    Ok(report::line(format_args!(
        "{done}; {all}, {data} of it not zero"
    ))?)
}

/// Refuses a change of a volume below clients that keep data which they have read of it, such as a mounted file system.
fn refuse_clients(place: &VolumeStore, name: &str) -> anyhow::Result<()> {
    let Some(mut client) = Client::find(&place.store.path, place.control.as_deref())? else {
        return Ok(());
    };
    let Answer::Volumes(volumes) = client.ask(Request::VolumeList, |_, _| {})? else {
        bail!("the server gave another answer than was asked for");
    };
    let mut volumes = volumes.volumes.iter();
    match volumes.find(|volume| volume.name == name) {
        Some(volume) if !volume.users.is_empty() => bail!(
            "volume {name} is in use by {}, and would change below it; end that first, or use --force",
            users_text(&volume.users)
        ),
        _ => Ok(()),
    }
}

/// An open volume.
struct Volume<'a> {
    files: &'a dyn Files,
    id: FileId,
    name: &'a str,
    size: u64,
    /// Something has been written.
    changed: Cell<bool>,
}

impl<'a> Volume<'a> {
    /// Opens the volume, and locks it against other commands that put or get it.
    fn open(files: &'a dyn Files, name: &'a str, level: Level) -> anyhow::Result<Self> {
        let id = files.open_volume(name)?;
        lock(files, id, name, level)?;
        let size = files.size(id, None)?;
        Ok(Self {
            files,
            id,
            name,
            size,
            changed: Cell::new(false),
        })
    }

    fn read(&self, at: u64, step: &mut [u8]) -> anyhow::Result<()> {
        if self.files.read(self.id, None, at, step)? < step.len() {
            bail!(
                "volume {} became smaller while it was copied; try again",
                self.name
            );
        }
        Ok(())
    }

    fn status(&self, at: u64, bytes: u64) -> anyhow::Result<Vec<(u64, bool)>> {
        let runs = self.files.status(self.id, at, bytes)?;
        if runs.iter().all(|(bytes, _)| *bytes == 0) {
            bail!(
                "the store does not tell what volume {} holds at {at}",
                self.name
            );
        }
        Ok(runs)
    }

    fn write(&self, at: u64, data: &[u8]) -> anyhow::Result<()> {
        self.files.write(self.id, None, at, data)?;
        self.changed.set(true);
        Ok(())
    }

    /// Makes a range read as zeroes, where it does not do so already.
    fn clear(&self, from: u64, to: u64) -> anyhow::Result<()> {
        let mut at = from;
        while at < to {
            for (bytes, allocated) in self.status(at, to - at)? {
                if allocated {
                    self.files.zero(self.id, at, bytes)?;
                    self.changed.set(true);
                }
                at += bytes;
            }
        }
        Ok(())
    }
}

/// Makes `image` the content of `volume`, durably. Returns its bytes, and how many of them are not zeroes.
fn copy_in(volume: &Volume<'_>, image: &mut Image, stop: &Stop) -> anyhow::Result<(u64, u64)> {
    let (mut bar, mut step) = (Progress::new("copying", Unit::Bytes), vec![0; STEP_BYTES]);
    let (mut at, mut data) = (0, 0);
    loop {
        if stop.has_come() {
            bail!("interrupted");
        }
        let part = image.part(at, &mut step);
        let part = part.with_context(|| format!("cannot read {}", image.name))?;
        let bytes = match part {
            Part::End => break,
            Part::Hole(bytes) => bytes,
            Part::Data(bytes) => bytes as u64,
        };
        if at + bytes > volume.size {
            bail!(
                "{} is larger than the volume, which has {}",
                image.name,
                size::text(volume.size)
            );
        }
        match part {
            Part::Data(bytes) => {
                let mut from = at;
                for (piece, is_zero) in pieces(at, &step[..bytes]) {
                    let to = from + piece.len() as u64;
                    if is_zero {
                        volume.clear(from, to)?;
                    } else {
                        volume.write(from, piece)?;
                        data += to - from;
                    }
                    from = to;
                }
            }
            _ => volume.clear(at, at + bytes)?,
        }
        at += bytes;
        bar.at(at, image.size.unwrap_or(at).max(at));
    }
    volume.clear(at, volume.size)?;
    volume.files.flush()?;
    Ok((at, data))
}

/// An image that is read from its start on.
struct Image {
    /// Its name as the user gave it.
    name: String,
    /// Its first bytes.
    head: Vec<u8>,
    /// `None` for standard input.
    file: Option<File>,
    size: Option<u64>,
}

/// The next part of an image.
enum Part {
    End,
    Hole(u64),
    /// So many bytes of the buffer.
    Data(usize),
}

impl Image {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let mut head = Vec::with_capacity(HEAD_BYTES);
        if path == Path::new("-") {
            let mut input = io::stdin().lock().take(HEAD_BYTES as u64);
            input
                .read_to_end(&mut head)
                .context("cannot read standard input")?;
            return Ok(Self {
                name: "standard input".to_string(),
                head,
                file: None,
                size: None,
            });
        }
        let name = path.display().to_string();
        let cannot = || format!("cannot read {name}");
        // Checked before it is opened, because opening a pipe would wait for its writer.
        let about = std::fs::metadata(path).with_context(cannot)?;
        if !about.is_file() && !about.file_type().is_block_device() {
            bail!("{name} is neither a regular file nor a block device; use - for standard input");
        }
        let file = File::open(path).with_context(cannot)?;
        let size = if about.is_file() {
            about.len()
        } else {
            rustix::fs::seek(&file, SeekFrom::End(0))
                .map_err(io::Error::from)
                .with_context(cannot)?
        };
        head.resize(HEAD_BYTES.min(size as usize), 0);
        file.read_exact_at(&mut head, 0).with_context(cannot)?;
        Ok(Self {
            name,
            head,
            file: Some(file),
            size: Some(size),
        })
    }

    /// The next part at `at`. Data ends at `step` or at one of its borders.
    fn part(&mut self, at: u64, step: &mut [u8]) -> io::Result<Part> {
        let border = step.len() as u64 - at % step.len() as u64;
        let (Some(file), Some(size)) = (&self.file, self.size) else {
            let mut got = Vec::with_capacity(border as usize);
            let from = (at as usize).min(self.head.len());
            got.extend_from_slice(&self.head[from..]);
            let rest = border - got.len() as u64;
            io::stdin().lock().take(rest).read_to_end(&mut got)?;
            step[..got.len()].copy_from_slice(&got);
            return Ok(match got.len() {
                0 => Part::End,
                bytes => Part::Data(bytes),
            });
        };
        if at >= size {
            return Ok(Part::End);
        }
        let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(data) => data.min(size),
            // A hole up to the end.
            Err(Errno::NXIO) => size,
            // A device, or a file system that does not report holes.
            Err(_) => at,
        };
        if data > at {
            return Ok(Part::Hole(data - at));
        }
        let bytes = border.min(size - at) as usize;
        file.read_exact_at(&mut step[..bytes], at)?;
        Ok(Part::Data(bytes))
    }
}

/// Splits the bytes at `at` into parts, and marks which are zeroes. The parts meet at multiples of [`PIECE`], so that
/// no block is written in parts.
fn pieces(at: u64, mut bytes: &[u8]) -> impl Iterator<Item = (&[u8], bool)> {
    let first = (PIECE - at % PIECE) as usize;
    let mut first = first.min(bytes.len());
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let is_zero = |piece: &[u8]| piece.iter().all(|byte| *byte == 0);
        let mut len = std::mem::replace(&mut first, bytes.len().min(PIECE as usize));
        let zero = is_zero(&bytes[..len]);
        while len < bytes.len() {
            let next = &bytes[len..bytes.len().min(len + PIECE as usize)];
            if is_zero(next) != zero {
                break;
            }
            len += next.len();
        }
        let (piece, rest) = bytes.split_at(len);
        bytes = rest;
        first = first.min(rest.len());
        Some((piece, zero))
    })
}
