//! Changes an array: whole stripes without reads, parts of stripes with the fewest operations.
//!
//! An update of a part of a stripe reads as its plan says (`plan.rs`). Requests that wait for the same stripe share one
//! update (`pending.rs`).
//!
//! An unreadable sector that cannot be computed either is given up: it is lost, and an update that reads it would fail for
//! ever, and with it the store.

use super::array::{Array, Raid5, UnloggedUpdate};
use super::cut::{Band, Payload, Piece, Source, bands};
use super::geometry::Unit;
use super::io::{JOINED_BYTES_MAX, Transfer, run};
use super::pending::Pending;
use super::plan::{BandPlan, Method, StripeNow};
use super::read::Unreadable;
use super::state::is_refusal;
use super::xor::{xor_into, xor_slices};
use crate::device::DeviceIo;
use std::ops::Range;
use tonearm_base::{Buf, Slice};
use tonearm_rt::{IoError, Op};

/// Operations on members that have been started.
type UnderWay = Vec<(usize, DeviceIo)>;

impl Raid5 {
    /// Changes `len` bytes at `offset`.
    pub(super) async fn change(
        self,
        offset: u64,
        len: u64,
        source: Source,
        durable: bool,
    ) -> Result<(), IoError> {
        self.begin_write().await?;
        if let Some(records) = &self.records
            && records.are_scarce()
        {
            self.repair_rows(records.torn_rows()).await?;
        }
        let failures = self.failures();
        let mut source = source;
        let (mut at, end, row_bytes) = (offset, offset + len, self.stripes.row_bytes());
        let mut jobs = Vec::new();
        while at < end {
            let (row, within) = (at / row_bytes, at % row_bytes);
            let whole = (end - at) / row_bytes;
            // The permit comes before the lock, so that no lock holder waits for a permit.
            let permit = self.jobs.acquire(1).await;
            if within == 0 && whole > 0 {
                let most = match source {
                    Source::Zeroes(_) => whole,
                    Source::Bytes(_) => (JOINED_BYTES_MAX / self.stripes.unit).clamp(1, whole),
                };
                let payload = source.take(most * row_bytes);
                let (array, rows) = (self.clone(), row..row + most);
                jobs.push(self.rt.spawn(async move {
                    let result = array.write_rows(rows, payload, durable).await;
                    drop(permit);
                    result
                }));
                at += most * row_bytes;
            } else {
                let stop = end.min((row + 1) * row_bytes);
                let pieces = self.stripes.parts(at..stop).map(|part| Piece {
                    column: part.column,
                    payload: source.take(part.range.end - part.range.start),
                    range: part.range,
                });
                let (array, pieces) = (self.clone(), pieces.collect());
                jobs.push(self.rt.spawn(async move {
                    let result = array.write_part(row, pieces, durable).await;
                    drop(permit);
                    result
                }));
                at = stop;
            }
        }
        let mut result = Ok(());
        for job in jobs {
            result = result.and(job.await);
        }
        result?;
        if self.failures() != failures {
            // The write began with all members and without a record, so it must not stay in caches.
            self.flush_members().await;
        }
        self.publish().await?;
        self.check_lost()
    }

    fn failures(&self) -> Option<usize> {
        let missing = self.health.borrow().state.missing;
        missing.map(|missing| missing.member)
    }

    /// Writes a part of a stripe, together with other requests that wait for the same stripe.
    async fn write_part(self, row: u64, pieces: Vec<Piece>, durable: bool) -> Result<(), IoError> {
        let own = Pending::new(pieces, durable);
        self.pending.push(row, own.clone());
        let _lock = self.locks.lock(row..row + 1).await;
        // Lets requests that are ready now join this update.
        self.rt.yield_now().await;
        loop {
            if let Some(result) = *own.result.borrow() {
                return result;
            }
            let batch = self.pending.take_batch(row);
            let durable = batch.iter().any(|one| one.durable);
            let pieces = batch.iter().flat_map(|one| one.pieces.take()).collect();
            let coalesced = batch.len() as u64 - 1;
            self.count(|stats| stats.coalesced += coalesced);
            let result = self.write_pieces(row, pieces, durable).await;
            for one in batch {
                *one.result.borrow_mut() = Some(result);
            }
        }
    }

    /// Updates a stripe. The caller holds its lock.
    async fn write_pieces(
        &self,
        row: u64,
        pieces: Vec<Piece>,
        durable: bool,
    ) -> Result<(), IoError> {
        self.begin_write().await?;
        if self.health.borrow().torn.contains(row) {
            let _note = self.unguarded();
            self.repair_row(row).await?;
        }
        let missing = self.absent(row);
        let note = || missing.is_none().then(|| self.unguarded());
        let apart = match missing {
            Some(Unit::Column(column)) => Some(column),
            _ => None,
        };
        let mut bands = bands(pieces, apart);
        if bands.len() == 1 {
            let band = bands.remove(0);
            return self
                .clone()
                .write_band(row, band, missing, note(), durable)
                .await;
        }
        let updates: Vec<_> = bands
            .into_iter()
            .map(|band| {
                self.rt
                    .spawn(self.clone().write_band(row, band, missing, note(), durable))
            })
            .collect();
        let mut result = Ok(());
        for update in updates {
            result = result.and(update.await);
        }
        result
    }

    async fn write_band(
        self,
        row: u64,
        band: Band,
        missing: Option<Unit>,
        mut unguarded: Option<UnloggedUpdate>,
        durable: bool,
    ) -> Result<(), IoError> {
        if let Some(records) = &self.records {
            records
                .prepare(&self, row..row + 1, band.range.clone())
                .await?;
        }
        let now = StripeNow {
            is_suspect: self.is_suspect_row(row),
            is_recorded: self.record_always || self.is_unsaved_row(row),
        };
        let BandPlan {
            method,
            reads,
            endangers,
        } = BandPlan::new(&band, self.stripes.columns(), missing, now);
        if method == Method::DataAlone {
            let under_way = self.start_data(row, band, missing, durable);
            return self.end_writes(row, under_way, None, true).await;
        }
        let mut parity = self.xor_of(row, &band, reads).await?;
        self.count(|stats| method.count(stats));
        let record = match (&self.records, endangers) {
            (Some(records), true) => {
                // Others may wait for the save before they give a slot back.
                unguarded = None;
                Some(records.record(&self, row, &band, &parity).await?)
            }
            (None, true) => {
                self.count(|stats| stats.unprotected += 1);
                None
            }
            _ => None,
        };
        band.xor_into(&mut parity);
        let makes_durable = durable && band.is_of_bytes();
        let of_parity = Transfer::new(
            self.stripes.parity_member(row),
            row * self.stripes.unit + band.range.start,
            band.len(),
            Payload::Bytes(vec![parity.share()]),
        );
        let mut under_way = self.start_data(row, band, missing, durable);
        under_way.extend(self.start(of_parity, row, durable));
        let endangers_none = missing.is_some() && !endangers;
        let can_repair = record.is_some() || endangers_none;
        let result = self.end_writes(row, under_way, unguarded, can_repair).await;
        if let (Some(index), Some(records)) = (record, &self.records) {
            let torn = self.health.borrow().torn.contains(row);
            records.ended(index, makes_durable && result.is_ok(), torn);
        }
        result?;
        let is_missing = match missing {
            Some(Unit::Column(_)) => !endangers,
            _ => self.is_unsaved_row(row),
        };
        if durable && is_missing {
            // Its data exists only as the XOR of units, some of which may be in caches.
            self.flush_members().await;
        }
        Ok(())
    }

    /// Writes whole stripes, without reads.
    async fn write_rows(
        self,
        rows: Range<u64>,
        payload: Payload,
        durable: bool,
    ) -> Result<(), IoError> {
        let _lock = self.locks.lock(rows.clone()).await;
        self.begin_write().await?;
        let unit = self.stripes.unit;
        if let Some(records) = &self.records {
            records.prepare(&self, rows.clone(), 0..unit).await?;
        }
        let under_way = match payload {
            Payload::Zeroes(op) => self.start_zeroes(rows.clone(), op),
            Payload::Bytes(slices) => self.start_rows(rows.clone(), slices, durable),
        };
        self.count(|stats| stats.full_writes += rows.end - rows.start);
        // The log has all of the data, so nothing else is endangered.
        let result = self.end_writes(rows.start, under_way, None, true).await;
        self.note_rows(&rows, result.is_ok());
        result?;
        if durable && (self.absent(rows.end - 1).is_some() || self.is_unsaved_row(rows.end - 1)) {
            self.flush_members().await;
        }
        Ok(())
    }

    /// Notes that stripes were written as a whole, or that a refused write changed them in part.
    pub(super) fn note_rows(&self, rows: &Range<u64>, whole: bool) {
        let mut health = self.health.borrow_mut();
        if whole {
            health.suspect.remove(rows.clone());
            health.torn.remove(rows.clone());
        } else {
            health.torn.insert(rows.clone())
        }
    }

    fn start_zeroes(&self, rows: Range<u64>, op: Op) -> UnderWay {
        let mut under_way = Vec::new();
        for member in 0..self.stripes.members {
            // A replacement has only the rows below the rebuild's watermark.
            let alive = rows.clone().take_while(|row| self.alive(member, *row));
            let count = if self.alive(member, rows.end - 1) {
                rows.end - rows.start
            } else {
                alive.count() as u64
            };
            if let (true, Some(device)) = (count > 0, self.member(member)) {
                let unit = self.stripes.unit;
                let transfer =
                    Transfer::new(member, rows.start * unit, count * unit, Payload::Zeroes(op));
                under_way.extend(run(&*device, transfer, false));
            }
        }
        under_way
    }

    fn start_rows(&self, rows: Range<u64>, slices: Vec<Slice>, durable: bool) -> UnderWay {
        let (unit, mut source) = (self.stripes.unit, Source::from(Payload::Bytes(slices)));
        let count = (rows.end - rows.start) as usize;
        let mut parities = self.pool.alloc_zeroed(count * unit as usize);
        let mut open: Vec<Option<Transfer>> = (0..self.stripes.members).map(|_| None).collect();
        let mut data = Vec::new();
        for (row, parity) in rows.clone().zip(parities.chunks_exact_mut(unit as usize)) {
            for column in 0..self.stripes.columns() {
                let payload = source.take(unit);
                if let Payload::Bytes(slices) = &payload {
                    xor_slices(parity, slices);
                }
                data.push((row, self.stripes.member(row, column), payload));
            }
        }
        let parities = parities.share();
        let mut under_way = Vec::new();
        let mut data = data.into_iter().peekable();
        for (index, row) in rows.enumerate() {
            let from = index * unit as usize;
            let parity = parities.slice(from..from + unit as usize);
            let own = (
                row,
                self.stripes.parity_member(row),
                Payload::Bytes(vec![parity]),
            );
            let columns = std::iter::from_fn(|| data.next_if(|(other, ..)| *other == row));
            for (row, member, payload) in columns.chain([own]) {
                if !self.alive(member, row) {
                    continue;
                }
                let next = Transfer::new(member, row * unit, unit, payload);
                if let Some(full) = Transfer::join(&mut open[member], next) {
                    under_way.extend(self.start(full, row, durable));
                }
            }
        }
        for transfer in open.into_iter().flatten() {
            let row = transfer.offset / unit;
            under_way.extend(self.start(transfer, row, durable));
        }
        under_way
    }
}

impl Array {
    /// The XOR of what the plan of an update of `band` reads.
    async fn xor_of(
        &self,
        row: u64,
        band: &Band,
        wanted: Vec<(Unit, Range<u64>)>,
    ) -> Result<Buf, IoError> {
        let mut xor = self.pool.alloc_zeroed(band.len() as usize);
        let start = |(unit, range): (Unit, Range<u64>)| {
            let member = self.stripes.member_of(row, unit);
            let read = self.start_reads(row, &[member], range.clone()).remove(0);
            (member, range, read)
        };
        let under_way: Vec<_> = wanted.into_iter().map(start).collect();
        for (member, range, read) in under_way {
            let len = (range.end - range.start) as usize;
            let bytes = match read.await {
                (Ok(got), data) if got == len => data.into_buf(),
                _ => {
                    let read = self.read_cell(row, member, range.clone(), Unreadable::GivenUp);
                    read.await.map_err(|failed| failed.error)?
                }
            };
            let from = (range.start - band.range.start) as usize;
            xor_into(&mut xor[from..from + len], &bytes);
        }
        Ok(xor)
    }

    /// Starts to write the band's data.
    fn start_data(&self, row: u64, band: Band, missing: Option<Unit>, durable: bool) -> UnderWay {
        let mut under_way = Vec::new();
        let mut open = None;
        for piece in band.pieces {
            if missing == Some(Unit::Column(piece.column)) {
                continue;
            }
            let offset = row * self.stripes.unit + piece.range.start;
            let len = piece.range.end - piece.range.start;
            let member = self.stripes.member(row, piece.column);
            let next = Transfer::new(member, offset, len, piece.payload);
            if let Some(full) = Transfer::join(&mut open, next) {
                under_way.extend(self.start(full, row, durable));
            }
        }
        if let Some(last) = open {
            under_way.extend(self.start(last, row, durable));
        }
        under_way
    }

    /// Starts `transfer` of `row`, unless its member has failed meanwhile.
    fn start(&self, transfer: Transfer, row: u64, durable: bool) -> UnderWay {
        let device = self
            .member(transfer.member)
            .filter(|_| self.alive(transfer.member, row));
        device.map_or(Vec::new(), |device| run(&*device, transfer, durable))
    }

    /// Waits for writes. A member that fails is marked so, and the others make the write good.
    ///
    /// A member that refuses a write leaves the stripe torn until [`Array::repair_row`]. In a stripe without one of its units
    /// that is possible only if `can_repair`: the update has a parity record, or leaves nothing of the missing unit as it was.
    async fn end_writes(
        &self,
        row: u64,
        under_way: UnderWay,
        unguarded: Option<UnloggedUpdate>,
        can_repair: bool,
    ) -> Result<(), IoError> {
        let mut refused = None;
        for (member, io) in under_way {
            let Err(error) = io.await.0 else { continue };
            if is_refusal(error) && (can_repair || self.absent(row).is_none()) {
                refused = Some(error)
            } else {
                self.mark_failed(member, error)
            }
        }
        if let Some(error) = refused {
            self.health.borrow_mut().torn.insert(row..row + 1);
            return Err(error);
        }
        drop(unguarded);
        self.publish().await?;
        self.check_lost()
    }
}
