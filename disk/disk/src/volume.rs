//! A volume: bytes over blocks.

use crate::changes::Changes;
use crate::error::DiskError;
use crate::map;
use crate::partial::{Parts, fill_around, reread_changed};
use crate::state::{Life, SharedVolume, Watch};
use std::ops::Range;
use std::rc::Rc;
use tonearm_base::{ALIGN, Buf, BufPool, Lsn, Slice};
use tonearm_engine::{Ack, Admission, CommitChange, Engine};
use tonearm_format::{EXTENTS_MAX, Extent};
use tonearm_layout::Piece;
use tonearm_rt::Permit;

/// A handle on a volume; cheap to clone. It stays valid when the volume is resized.
#[derive(Clone)]
pub struct Volume {
    engine: Engine,
    pool: BufPool,
    shared: SharedVolume,
    /// Changes end when they survive the end of this process.
    survives_process: bool,
}

impl Volume {
    pub(crate) fn new(engine: &Engine, pool: &BufPool, shared: SharedVolume) -> Self {
        Self {
            engine: engine.clone(),
            pool: pool.clone(),
            shared,
            survives_process: false,
        }
    }

    /// A handle for a writer that lives longer than this process and does not repeat changes that have ended, such as a kernel. A
    /// change through it ends when it survives the end of this process. A power cut may take it back, as every change before a flush.
    pub fn for_kernel_client(mut self) -> Self {
        self.survives_process = true;
        self
    }

    pub(crate) fn shared(&self) -> &SharedVolume {
        &self.shared
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

    /// Memory for a write of `bytes`, first come first served: the back-pressure. Attach the permit to the payload's
    /// buffer before the payload is received. If a payload has no permit, its write takes the memory itself.
    ///
    /// # Errors
    /// When the store has failed or is closed.
    pub async fn reserve(&self, bytes: u64) -> Result<Permit, DiskError> {
        let block = self.engine.block_size() as u64;
        let mut charged = memory_of(bytes);
        if !bytes.is_multiple_of(block) {
            charged += self.merge_memory(bytes.next_multiple_of(block) + block);
        }
        Ok(self.engine.reserve(charged).await?)
    }

    /// Memory for merging into `bytes` of whole blocks: the buffer, and an edge block while it is read.
    fn merge_memory(&self, bytes: u64) -> u64 {
        memory_of(bytes) + memory_of(self.engine.block_size() as u64)
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
                pieces.extend(self.engine.read(run.start, run.count).await?);
            }
            // A single run is looked up and read without an await between. The later ones of several runs may have got
            // another owner while the earlier ones were read.
            if runs.len() == 1 || self.moves() == moves && !self.is_gone() {
                break;
            }
            pieces.clear();
            self.check(offset, len)?;
        }
        Ok(cut(pieces, (offset - first * block) as usize, len as usize))
    }

    /// Writes `data` at `offset`, as one commit. Ends when the write is acknowledged: at once, or when it is
    /// durable if `durable` or the store's mode asks for it ([`Volume::for_kernel_client`] has a third answer).
    ///
    /// # Errors
    /// Beyond the end, read-only, or failed. Nothing of it has been written then, unless the error is that
    /// it could not be made durable.
    pub async fn write(&self, offset: u64, data: Slice, durable: bool) -> Result<(), DiskError> {
        let len = data.len() as u64;
        if len == 0 {
            return self.check_write(offset, 0);
        }
        let block = self.engine.block_size() as u64;
        if !data.has_lease() {
            data.attach(Rc::new(self.reserve(len).await?));
        }
        let (first, start) = (offset / block, (offset % block) as usize);
        let blocks = (start as u64 + len).div_ceil(block);
        let admission = self.engine.admit(blocks, 0).await?;
        let whole = start == 0 && len.is_multiple_of(block);
        let mut changes = Vec::with_capacity(1);
        if whole && (data.as_ptr() as usize).is_multiple_of(ALIGN) {
            self.check_write(offset, len)?;
            self.push_writes(&mut changes, first, data);
        } else {
            let mut buf = self.pool.alloc((blocks * block) as usize);
            let written = start..start + data.len();
            buf[written.clone()].copy_from_slice(&data);
            // The sender has paid for the payload's memory. That permit also pays for the copy until it is committed.
            buf.attach(Rc::new(data));
            let spans = vec![self.span(first, buf, written)];
            let check = || self.check_write(offset, len);
            self.push_spans(&mut changes, spans, check).await?;
        }
        let lsn = self.commit(admission, changes, first..first + blocks)?;
        self.acknowledge(lsn, durable).await
    }

    /// Gives the space of the blocks that lie wholly within the range back; they read as zeroes then.
    ///
    /// # Errors
    /// As for [`Volume::write`].
    pub async fn trim(&self, offset: u64, len: u64, durable: bool) -> Result<(), DiskError> {
        let admission = self.engine.admit(0, EXTENTS_MAX as u64).await?;
        self.check_write(offset, len)?;
        let (first, end) = self.inner_blocks(offset, len);
        if first >= end {
            return Ok(());
        }
        let runs = self.runs(first, end - first);
        let changes = runs.iter().map(map::trim_of).collect();
        let lsn = self.commit(admission, changes, first..end)?;
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
        if len == 0 {
            return self.check_write(offset, 0);
        }
        let block = self.engine.block_size() as u64;
        let whole = offset.is_multiple_of(block) && len.is_multiple_of(block);
        let _memory = if whole {
            None
        } else {
            // A part of the block at either end may stay.
            let bytes = 2 * memory_of(block) + self.merge_memory(block);
            Some(self.engine.reserve(bytes).await?)
        };
        let admission = self.engine.admit(2, EXTENTS_MAX as u64).await?;
        let check = || self.check_write(offset, len);
        check()?;
        let (touched, stop) = (offset / block..(offset + len).div_ceil(block), offset + len);
        let zeroes = |from: u64, to: u64| {
            let buf = self.pool.alloc_zeroed(((to - from) * block) as usize);
            let (start, stop) = (offset.max(from * block), stop.min(to * block));
            let written = (start - from * block) as usize..(stop - from * block) as usize;
            self.span(from, buf, written)
        };
        let mut changes = Vec::new();
        let (first, end) = loop {
            let (first, end) = self.inner_blocks(offset, len);
            let mut spans = Vec::new();
            if first >= end {
                // There is no whole block, but one or two partial ones.
                spans.push(zeroes(touched.start, touched.end));
            } else {
                if offset < first * block {
                    spans.push(zeroes(first - 1, first));
                }
                if stop > end * block {
                    spans.push(zeroes(end, end + 1));
                }
            }
            self.push_spans(&mut changes, spans, check).await?;
            // The last block is whole no more if others have made the volume longer meanwhile.
            if self.inner_blocks(offset, len) == (first, end) {
                break (first, end);
            }
            changes.clear();
        };
        if first < end {
            let runs = self.runs(first, end - first);
            changes.extend(runs.iter().map(|run| {
                if keep_space {
                    CommitChange::Zero {
                        first: run.start,
                        count: run.count,
                    }
                } else {
                    map::trim_of(run)
                }
            }));
        }
        let lsn = self.commit(admission, changes, touched)?;
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
            for (count, allocated) in self.engine.status(run.start, run.count).await? {
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
        // Blocks to bytes: the first block may begin before the range, the last end after it.
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
        self.shared.borrow().check(offset, len)
    }

    fn check_write(&self, offset: u64, len: u64) -> Result<(), DiskError> {
        let state = self.shared.borrow();
        state.check_mode()?;
        state.check(offset, len)
    }

    /// The changes that make the bytes after `size_bytes`, in the block that holds this end, zeroes. They are for a
    /// commit that follows without an await. There are none when no block is cut.
    ///
    /// # Errors
    /// When the block cannot be read.
    pub(crate) async fn cut_off(&self, size_bytes: u64) -> Result<Vec<CommitChange>, DiskError> {
        let block = self.engine.block_size() as u64;
        let (first, stays) = (size_bytes / block, (size_bytes % block) as usize);
        let mut changes = Vec::new();
        if stays == 0 || size_bytes >= self.size_bytes() {
            return Ok(changes);
        }
        let buf = self.pool.alloc_zeroed(block as usize);
        let spans = vec![self.span(first, buf, stays..block as usize)];
        // Others may make the volume as short meanwhile.
        let check = || self.check(0, size_bytes + 1);
        match self.push_spans(&mut changes, spans, check).await {
            Ok(()) | Err(DiskError::OutOfRange { .. }) => Ok(changes),
            Err(error) => Err(error),
        }
    }

    fn is_gone(&self) -> bool {
        self.shared.borrow().life != Life::Live
    }

    /// How often blocks of the volume have moved. A lookup is valid as long as this stays the same.
    fn moves(&self) -> u64 {
        self.shared.borrow().moves
    }

    fn runs(&self, first: u64, count: u64) -> Vec<Extent> {
        self.shared.borrow().runs(first, count)
    }

    /// Blocks wholly within a range of bytes. The volume's last block counts as whole when the range covers its bytes.
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
                first: run.start,
                data: data.slice(at..at + bytes),
            });
            at += bytes;
        }
    }

    /// Blocks from `first` on. `written` is the part of `buf` that the writer has filled.
    fn span(&self, first: u64, buf: Buf, written: Range<usize>) -> Span {
        let (block, watched) = (self.engine.block_size(), &self.shared.borrow().watched);
        let last = buf.len() / block - 1;
        let mut edges = Vec::new();
        for at in [0, last].into_iter().take(1 + last.min(1)) {
            let start = at * block;
            let written = written.start.max(start)..written.end.min(start + block);
            if written.len() < block {
                edges.push(Edge {
                    index: first + at as u64,
                    start,
                    written: written.start - start..written.end - start,
                    watch: Watch::new(watched, first + at as u64),
                });
            }
        }
        Span { first, buf, edges }
    }

    /// Adds writes of `spans`, filled with the newest content. The commit has to follow without an await. `check`
    /// checks that the blocks still belong to the volume.
    async fn push_spans(
        &self,
        changes: &mut Vec<CommitChange>,
        spans: Vec<Span>,
        check: impl Fn() -> Result<(), DiskError>,
    ) -> Result<(), DiskError> {
        let volume = self;
        let mut spans = Spans {
            volume,
            spans,
            check: &check,
        };
        reread_changed(&mut spans).await?;
        check()?;
        for Span { first, buf, .. } in spans.spans {
            self.push_writes(changes, first, buf.share());
        }
        Ok(())
    }

    /// Commits `changes`, all within `blocks` of the volume.
    fn commit(
        &self,
        admission: Admission,
        changes: Vec<CommitChange>,
        blocks: Range<u64>,
    ) -> Result<Lsn, DiskError> {
        let lsn = self.engine.commit(admission, changes)?;
        self.shared.borrow().written(blocks);
        Ok(lsn)
    }

    async fn acknowledge(&self, lsn: Lsn, durable: bool) -> Result<(), DiskError> {
        if durable || self.engine.options().ack == Ack::Write {
            self.engine.wait_durable(lsn).await?;
        } else if self.survives_process {
            self.engine.wait_flushed().await?;
        }
        Ok(())
    }
}

/// Memory that a buffer of `bytes` takes.
fn memory_of(bytes: u64) -> u64 {
    // A size that no buffer can have comes from a caller's mistake.
    match bytes {
        0..0x10_0000_0000 => BufPool::capacity_of(bytes as usize) as u64,
        bytes => bytes,
    }
}

/// Content for adjacent blocks, of which the first and the last may be written in part.
struct Span {
    first: u64,
    buf: Buf,
    edges: Vec<Edge>,
}

/// A block that is written in part.
struct Edge {
    index: u64,
    /// Where the block begins in the buffer.
    start: usize,
    /// The bytes that the writer writes.
    written: Range<usize>,
    watch: Watch,
}

struct Spans<'a, C> {
    volume: &'a Volume,
    spans: Vec<Span>,
    check: &'a C,
}

impl<C: Fn() -> Result<(), DiskError>> Parts for Spans<'_, C> {
    /// The place of a span, and of an edge in it.
    type Block = (usize, usize);

    fn stale(&self) -> Vec<(usize, usize)> {
        let mut stale = Vec::new();
        for (at, span) in self.spans.iter().enumerate() {
            let edges = span.edges.iter().enumerate();
            let edges = edges.filter(|(_, edge)| edge.watch.is_stale());
            stale.extend(edges.map(|(edge, _)| (at, edge)));
        }
        stale
    }

    async fn read_rest(&mut self, (span, edge): (usize, usize)) -> Result<(), DiskError> {
        (self.check)()?;
        let engine = &self.volume.engine;
        let Span { buf, edges, .. } = &mut self.spans[span];
        let edge = &edges[edge];
        edge.watch.look();
        let home = self.volume.runs(edge.index, 1)[0].start;
        let pieces = engine.read(home, 1).await?;
        let block = &mut buf[edge.start..edge.start + engine.block_size()];
        fill_around(block, [edge.written.clone()], &pieces);
        Ok(())
    }
}

/// The bytes `skip .. skip + len` of `pieces`.
pub(crate) fn cut(pieces: Vec<Piece>, mut skip: usize, mut len: usize) -> Vec<Piece> {
    let mut result = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let bytes = piece.len();
        let from = skip.min(bytes);
        let to = (from + len).min(bytes);
        (skip, len) = (skip - from, len - (to - from));
        if from < to {
            result.push(piece.slice(from..to));
        }
    }
    result
}
