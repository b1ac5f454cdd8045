//! A volume: bytes over blocks.

use crate::changes::Changes;
use crate::error::DiskError;
use crate::map::{self, Run};
use crate::table::{Life, SharedVolume};
use base::{ALIGN, Buf, BufPool, Lsn, Slice};
use engine::{Ack, Admission, CommitChange, Engine};
use format::{EXTENTS_MAX, VolumeKind};
use layout::Piece;
use rt::Permit;
use std::rc::Rc;

/// A handle on a volume; cheap to clone. It stays valid when the volume is resized.
#[derive(Clone)]
pub struct Volume {
    engine: Engine,
    pool: BufPool,
    shared: SharedVolume,
}

impl Volume {
    pub(crate) fn new(engine: &Engine, pool: &BufPool, shared: SharedVolume) -> Self {
        Self {
            engine: engine.clone(),
            pool: pool.clone(),
            shared,
        }
    }

    pub(crate) fn shared(&self) -> &SharedVolume {
        &self.shared
    }

    /// What it is.
    pub fn kind(&self) -> VolumeKind {
        self.shared.borrow().entry.kind
    }

    /// Its number since the opening of the store, which no other volume or file gets.
    pub fn serial(&self) -> u64 {
        self.shared.borrow().serial
    }

    /// Counts the commits that change it.
    pub fn changes(&self) -> Changes {
        self.shared.borrow().changes.clone()
    }

    /// Its name.
    pub fn name(&self) -> String {
        self.shared.borrow().entry.name.clone()
    }

    /// Its size in bytes, as committed.
    pub fn size_bytes(&self) -> u64 {
        self.shared.borrow().entry.size_bytes
    }

    /// True when it refuses writes.
    pub fn read_only(&self) -> bool {
        self.shared.borrow().entry.read_only || self.engine.options().read_only
    }

    /// Bytes of a block: writes of whole aligned blocks are the cheapest.
    pub fn block_size(&self) -> u32 {
        self.engine.block_size() as u32
    }

    /// Memory for a write of `bytes`, first come first served: the back-pressure. Attach the permit to the
    /// payload's buffer before the payload is received.
    ///
    /// # Errors
    /// When the store has failed or is closed.
    pub async fn reserve(&self, bytes: u64) -> Result<Permit, DiskError> {
        let block = self.engine.block_size() as u64;
        // What is not whole blocks is merged into a second buffer.
        let charged = if bytes.is_multiple_of(block) {
            bytes
        } else {
            bytes.next_multiple_of(block) * 2 + block
        };
        Ok(self.engine.reserve(charged).await?)
    }

    /// Reads `len` bytes at `offset`; the pieces are in order and as long together.
    ///
    /// # Errors
    /// Beyond the end, damaged, or failed.
    pub async fn read(&self, offset: u64, len: u64) -> Result<Vec<Piece>, DiskError> {
        self.check(offset, len)?;
        if len == 0 {
            return Ok(Vec::new());
        }
        let block = self.engine.block_size() as u64;
        let (first, end) = (offset / block, (offset + len).div_ceil(block));
        let mut pieces = Vec::new();
        loop {
            let (runs, moves) = (self.runs(first, end - first), self.moves());
            for run in &runs {
                pieces.extend(self.engine.read(run.home, run.count).await?);
            }
            // A single run was looked up at once. Of several, the later ones may have got another owner
            // while the earlier ones were read.
            if runs.len() == 1 || self.moves() == moves && !self.is_gone() {
                break;
            }
            pieces.clear();
            self.check(offset, len)?;
        }
        Ok(cut(pieces, (offset - first * block) as usize, len as usize))
    }

    /// Writes `data` at `offset`, as one commit. Ends when the write is acknowledged: at once, or when it is
    /// durable if `durable` or the store's mode asks for it.
    ///
    /// # Errors
    /// Beyond the end, read-only, or failed. Nothing of it has been written then, unless the error is that
    /// it could not be made durable.
    pub async fn write(&self, offset: u64, data: Slice, durable: bool) -> Result<(), DiskError> {
        let len = data.len() as u64;
        self.check_write(offset, len)?;
        if len == 0 {
            return Ok(());
        }
        let block = self.engine.block_size() as u64;
        let whole = offset.is_multiple_of(block) && len.is_multiple_of(block);
        let lsn = if whole && (data.as_ptr() as usize).is_multiple_of(ALIGN) {
            let admission = self.engine.admit(len / block, 0).await?;
            self.check_write(offset, len)?;
            let mut changes = Vec::with_capacity(1);
            self.push_writes(&mut changes, offset / block, data);
            self.commit(admission, changes)?
        } else {
            let (first, end) = (offset / block, (offset + len).div_ceil(block));
            let admission = self.engine.admit(end - first, 0).await?;
            self.check_write(offset, len)?;
            let mut buf = self.pool.alloc(((end - first) * block) as usize);
            let start = (offset - first * block) as usize;
            buf[start..start + data.len()].copy_from_slice(&data);
            // The payload's memory was paid for by its sender; it stays charged as long as the copy lives.
            buf.attach(Rc::new(data));
            let edges = loop {
                let moves = self.moves();
                let edges = self
                    .edges(first, start, start + len as usize, &mut buf)
                    .await?;
                self.check_write(offset, len)?;
                // Else the volume was resized meanwhile, and the blocks may be others now.
                if self.moves() == moves && are_current(&edges) {
                    break edges;
                }
            };
            self.merge(edges, &mut buf);
            let mut changes = Vec::new();
            self.push_writes(&mut changes, first, buf.share());
            self.commit(admission, changes)?
        };
        self.acknowledge(lsn, durable).await
    }

    /// Gives the space of the blocks that lie wholly within the range back; they read as zeroes then.
    ///
    /// # Errors
    /// As for [`Volume::write`].
    pub async fn trim(&self, offset: u64, len: u64, durable: bool) -> Result<(), DiskError> {
        self.check_write(offset, len)?;
        let admission = self.engine.admit(0, EXTENTS_MAX as u64).await?;
        self.check_write(offset, len)?;
        let (first, end) = self.inner_blocks(offset, len);
        if first >= end {
            return Ok(());
        }
        let runs = self.runs(first, end - first);
        let changes = runs
            .iter()
            .map(|run| CommitChange::Trim {
                first: run.home,
                count: run.count,
            })
            .collect();
        let lsn = self.commit(admission, changes)?;
        self.acknowledge(lsn, durable).await
    }

    /// Makes the range read as zeroes, exactly, as one commit; with `keep_space` its space stays allocated.
    ///
    /// # Errors
    /// As for [`Volume::write`].
    pub async fn write_zeroes(
        &self,
        offset: u64,
        len: u64,
        keep_space: bool,
        durable: bool,
    ) -> Result<(), DiskError> {
        self.check_write(offset, len)?;
        if len == 0 {
            return Ok(());
        }
        let admission = self.engine.admit(2, EXTENTS_MAX as u64).await?;
        let block = self.engine.block_size() as u64;
        let (first, end) = self.inner_blocks(offset, len);
        let mut parts = Vec::new();
        if first >= end {
            // No whole block: one or two partial ones.
            let (from, to) = (offset / block, (offset + len).div_ceil(block));
            parts.push((from, to, offset - from * block, offset + len - from * block));
        } else {
            if offset < first * block {
                parts.push((first - 1, first, offset - (first - 1) * block, block));
            }
            if offset + len > end * block {
                parts.push((end, end + 1, 0, offset + len - end * block));
            }
        }
        let buffers = loop {
            let (moves, mut buffers) = (self.moves(), Vec::new());
            for &(from, to, start, stop) in &parts {
                self.check_write(offset, len)?;
                let mut buf = self.pool.alloc_zeroed(((to - from) * block) as usize);
                let edges = self
                    .edges(from, start as usize, stop as usize, &mut buf)
                    .await?;
                buffers.push((from, edges, buf));
            }
            self.check_write(offset, len)?;
            let current = buffers.iter().all(|(_, edges, _)| are_current(edges));
            if self.moves() == moves && current {
                break buffers;
            }
        };
        let mut changes = Vec::new();
        for (from, edges, mut buf) in buffers {
            self.merge(edges, &mut buf);
            self.push_writes(&mut changes, from, buf.share());
        }
        if first < end {
            for Run { home, count } in self.runs(first, end - first) {
                changes.push(if keep_space {
                    CommitChange::Zero { first: home, count }
                } else {
                    CommitChange::Trim { first: home, count }
                });
            }
        }
        let lsn = self.commit(admission, changes)?;
        self.acknowledge(lsn, durable).await
    }

    /// Makes everything written so far durable, on this volume and on all others.
    ///
    /// # Errors
    /// When the log fails.
    pub async fn flush(&self) -> Result<(), DiskError> {
        Ok(self.engine.flush().await?)
    }

    /// Reads the range so that it is verified and the system's caches know it.
    ///
    /// # Errors
    /// As for [`Volume::read`].
    pub async fn cache(&self, offset: u64, len: u64) -> Result<(), DiskError> {
        const STEP: u64 = 1 << 20;
        self.check(offset, len)?;
        let mut at = offset;
        while at < offset + len {
            let step = STEP.min(offset + len - at);
            self.read(at, step).await?;
            at += step;
        }
        Ok(())
    }

    /// Runs of bytes and whether they hold data, from `offset` on: for the whole range or, when that is
    /// long, for its first part.
    ///
    /// # Errors
    /// As for [`Volume::read`].
    pub async fn status(&self, offset: u64, len: u64) -> Result<Vec<(u64, bool)>, DiskError> {
        self.check(offset, len)?;
        if len == 0 {
            return Ok(Vec::new());
        }
        let block = self.engine.block_size() as u64;
        let (first, end) = (offset / block, (offset + len).div_ceil(block));
        let mut runs: Vec<(u64, bool)> = Vec::new();
        'runs: for run in self.runs(first, end - first) {
            let mut seen = 0;
            for (count, allocated) in self.engine.status(run.home, run.count).await? {
                seen += count;
                match runs.last_mut() {
                    Some(last) if last.1 == allocated => last.0 += count * block,
                    _ => runs.push((count * block, allocated)),
                }
            }
            if seen < run.count {
                break 'runs;
            }
        }
        // Blocks to bytes: the first block may begin before the range, the last end behind it.
        let (mut skip, mut left) = (offset - first * block, len);
        runs.retain_mut(|(bytes, _)| {
            let skipped = skip.min(*bytes);
            (skip, *bytes) = (skip - skipped, *bytes - skipped);
            *bytes = (*bytes).min(left);
            left -= *bytes;
            *bytes > 0
        });
        Ok(runs)
    }

    fn check(&self, offset: u64, len: u64) -> Result<(), DiskError> {
        let state = self.shared.borrow();
        if state.life != Life::Live {
            return Err(DiskError::Deleted);
        }
        match offset.checked_add(len) {
            Some(end) if end <= state.entry.size_bytes => Ok(()),
            end => Err(DiskError::OutOfRange {
                volume: state.entry.name.clone(),
                offset,
                end: end.unwrap_or(u64::MAX),
                size_bytes: state.entry.size_bytes,
            }),
        }
    }

    fn check_write(&self, offset: u64, len: u64) -> Result<(), DiskError> {
        if self.shared.borrow().entry.read_only {
            return Err(DiskError::ReadOnlyVolume(self.name()));
        }
        self.check(offset, len)
    }

    /// What makes the bytes behind `size_bytes` of the block that holds this end zeroes, for a commit that
    /// follows without an await; nothing where no block is cut.
    ///
    /// # Errors
    /// When the block cannot be read.
    pub(crate) async fn cut_off(&self, size_bytes: u64) -> Result<Vec<CommitChange>, DiskError> {
        let block = self.engine.block_size() as u64;
        let (first, stays) = (size_bytes / block, (size_bytes % block) as usize);
        let mut changes = Vec::new();
        loop {
            if size_bytes >= self.size_bytes() || stays == 0 {
                return Ok(changes);
            }
            let (moves, mut buf) = (self.moves(), self.pool.alloc_zeroed(block as usize));
            let edges = self.edges(first, stays, block as usize, &mut buf).await?;
            if self.is_gone() {
                return Err(DiskError::Deleted);
            }
            if self.moves() == moves && are_current(&edges) {
                self.merge(edges, &mut buf);
                self.push_writes(&mut changes, first, buf.share());
                return Ok(changes);
            }
        }
    }

    fn is_gone(&self) -> bool {
        self.shared.borrow().life != Life::Live
    }

    /// Counts the volume's resizings: what was looked up before one may lie elsewhere after it.
    fn moves(&self) -> u64 {
        self.shared.borrow().moves
    }

    fn runs(&self, first: u64, count: u64) -> Vec<Run> {
        map::runs(&self.shared.borrow().entry.extents, first, count)
    }

    /// Blocks wholly within a range of bytes; the volume's last block counts as whole when its end is in.
    fn inner_blocks(&self, offset: u64, len: u64) -> (u64, u64) {
        let block = self.engine.block_size() as u64;
        let size = self.size_bytes();
        let end = if offset + len == size {
            size.div_ceil(block)
        } else {
            (offset + len) / block
        };
        (offset.div_ceil(block), end)
    }

    fn push_writes(&self, changes: &mut Vec<CommitChange>, first: u64, data: Slice) {
        let block = self.engine.block_size();
        let mut at = 0;
        for run in self.runs(first, (data.len() / block) as u64) {
            let bytes = run.count as usize * block;
            changes.push(CommitChange::Write {
                first: run.home,
                data: data.slice(at..at + bytes),
            });
            at += bytes;
        }
    }

    /// Reads what surrounds bytes `start..stop` of `buf` (which begins at volume block `first`), under a
    /// guard for each edge block.
    async fn edges(
        &self,
        first: u64,
        start: usize,
        stop: usize,
        buf: &mut Buf,
    ) -> Result<Vec<Edge>, DiskError> {
        let block = self.engine.block_size();
        let blocks = buf.len() / block;
        let mut edges = Vec::new();
        let mut edge_blocks = vec![0];
        if blocks > 1 {
            edge_blocks.push(blocks - 1);
        }
        // Looked up together: while the first block is read the volume may become shorter.
        let home = |index: usize| (index, self.runs(first + index as u64, 1)[0].home);
        let edge_blocks: Vec<_> = edge_blocks.into_iter().map(home).collect();
        for (index, home) in edge_blocks {
            let (from, to) = (index * block, (index + 1) * block);
            if start <= from && stop >= to {
                continue;
            }
            let (pieces, guard) = self.engine.read_for_merge(home).await?;
            let taken = start.clamp(from, to)..stop.clamp(from, to);
            fill_around(buf, from, &taken, &pieces);
            edges.push(Edge {
                home,
                from,
                taken,
                guard,
            });
        }
        Ok(edges)
    }

    /// Takes over what was committed to the edge blocks since they were read: from here to the commit there
    /// must be no await.
    fn merge(&self, edges: Vec<Edge>, buf: &mut Buf) {
        for edge in edges {
            if let Some(piece) = self.engine.cached(edge.home) {
                fill_around(buf, edge.from, &edge.taken, &[piece]);
            }
        }
    }

    fn commit(&self, admission: Admission, changes: Vec<CommitChange>) -> Result<Lsn, DiskError> {
        let lsn = self.engine.commit(admission, changes)?;
        self.shared.borrow().changes.note();
        Ok(lsn)
    }

    async fn acknowledge(&self, lsn: Lsn, durable: bool) -> Result<(), DiskError> {
        if durable || self.engine.options().ack == Ack::Write {
            self.engine.wait_durable(lsn).await?;
        }
        Ok(())
    }
}

/// A block that is written in part.
struct Edge {
    home: u64,
    /// Where the block begins in the buffer.
    from: usize,
    /// Bytes of the buffer within it that are the writer's.
    taken: std::ops::Range<usize>,
    guard: engine::MergeGuard,
}

/// Whether what was read, or memory, still has the newest content of all.
fn are_current(edges: &[Edge]) -> bool {
    edges.iter().all(|edge| edge.guard.is_current())
}

/// Copies the content of a block to `buf` at `from`, except for the bytes `taken`.
pub(crate) fn fill_around(
    buf: &mut Buf,
    from: usize,
    taken: &std::ops::Range<usize>,
    pieces: &[Piece],
) {
    let mut at = from;
    for piece in pieces {
        let len = piece_len(piece);
        for part in [
            at..(at + len).min(taken.start.max(at)),
            taken.end.clamp(at, at + len)..at + len,
        ] {
            if part.start >= part.end {
                continue;
            }
            match piece {
                Piece::Data(data) => {
                    buf[part.clone()].copy_from_slice(&data[part.start - at..part.end - at])
                }
                Piece::Zero(_) => buf[part].fill(0),
            }
        }
        at += len;
    }
}

pub(crate) fn piece_len(piece: &Piece) -> usize {
    match piece {
        Piece::Data(data) => data.len(),
        Piece::Zero(bytes) => *bytes,
    }
}

/// The bytes `skip .. skip + len` of `pieces`.
pub(crate) fn cut(pieces: Vec<Piece>, mut skip: usize, mut len: usize) -> Vec<Piece> {
    let mut result = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let bytes = piece_len(&piece);
        let from = skip.min(bytes);
        let to = (from + len).min(bytes);
        (skip, len) = (skip - from, len - (to - from));
        if from == to {
            continue;
        }
        result.push(match piece {
            Piece::Data(data) => Piece::Data(data.slice(from..to)),
            Piece::Zero(_) => Piece::Zero(to - from),
        });
    }
    result
}
