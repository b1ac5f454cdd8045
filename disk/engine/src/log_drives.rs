//! The drives of the log: their sheets on disk, and the predictors of their heads.

use crate::error::EngineError;
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_device::Device;
use tonearm_format::{
    FormatError, HeadKind, SECTOR, SkipAxis, SkipTable, Superblock, TrackSheet, sheet_offsets,
};
use tonearm_head::{
    Delta, Deltas, Formula, Grid, Head, Mimic, Online, Sequential, Steps, Table, TrackMap,
};
use tonearm_rt::Data;
use tonearm_trail::{LogGeometry, LogTracks};

/// The log as it lies on its members.
pub(crate) struct LogDrives {
    /// The members with the log, in the order in which they take its tracks.
    pub devices: Vec<Rc<dyn Device>>,
    /// Where the tracks are.
    pub geometry: LogGeometry,
    kind: HeadKind,
    sheets: Vec<TrackSheet>,
    /// Copies of the sheets that are lost: the index of the drive and the offset of the copy.
    lost: Vec<(usize, u64)>,
}

impl LogDrives {
    /// Reads what is needed to use the log of `superblock` on `members`.
    ///
    /// # Errors
    /// When a log member has no sheet where it must have one, or the sheet contradicts the superblock.
    pub async fn load(
        pool: &BufPool,
        superblock: &Superblock,
        members: &[Rc<dyn Device>],
    ) -> Result<Self, EngineError> {
        let kind = superblock.head;
        let indexes: Vec<usize> = superblock.log_members().collect();
        let (mut sheets, mut lost) = (Vec::new(), Vec::new());
        if kind != HeadKind::Sequential {
            for (drive, index) in indexes.iter().enumerate() {
                let (sheet, bad) = load_sheet(pool, superblock, *index, &members[*index]).await?;
                sheets.push(sheet);
                lost.extend(bad.into_iter().map(|offset| (drive, offset)));
            }
        }
        let geometry = LogGeometry::of(superblock, &sheets).map_err(|why| EngineError::Tracks {
            member: members[indexes[0]].name().to_string(),
            why,
        })?;
        for index in &indexes {
            let (device, log) = (&members[*index], geometry.sector);
            if device.block_size() as usize > log {
                return Err(EngineError::Sector {
                    member: device.name().to_string(),
                    drive: device.block_size(),
                    log,
                });
            }
        }
        Ok(Self {
            devices: indexes
                .iter()
                .map(|index| members[*index].clone())
                .collect(),
            geometry,
            kind,
            sheets,
            lost,
        })
    }

    /// Writes the lost copies of the sheets again. The superblocks of the opening make them durable.
    ///
    /// # Errors
    /// When a drive cannot be written.
    pub async fn restore_sheets(&self, pool: &BufPool) -> Result<(), EngineError> {
        for (drive, offset) in &self.lost {
            let device = &self.devices[*drive];
            let data = Data::whole(pool.copy_of(&self.sheets[*drive].encode()));
            let written = device.write(*offset, data).await;
            written.map_err(|error| EngineError::Sheet {
                member: device.name().to_string(),
                what: "writing",
                error,
            })?;
        }
        Ok(())
    }

    /// A predictor for each drive; none when the next sector is as good as any.
    pub fn heads(&self) -> Vec<Box<dyn Head>> {
        let drives = self.geometry.members.iter().zip(&self.sheets);
        drives
            .map(|(tracks, sheet)| self.head(tracks, sheet))
            .collect()
    }

    fn head(&self, tracks: &LogTracks, sheet: &TrackSheet) -> Box<dyn Head> {
        let map = match tracks {
            LogTracks::Physical(map) => Some(TrackMap::clone(map)),
            LogTracks::Even { .. } => None,
        };
        match (self.kind, map) {
            (HeadKind::Formula, Some(map)) if sheet.period_ps > 0 => Box::new(formula(map, sheet)),
            (HeadKind::Online, Some(map)) => Box::new(Online::with_map(map)),
            (HeadKind::Online, None) => Box::new(Online::new()),
            (HeadKind::Mimic, _) => mimic(sheet),
            // Without the prediction the log is slower: no reason not to open the store.
            (HeadKind::Formula | HeadKind::Sequential, _) => Box::new(Sequential),
        }
    }
}

fn formula(map: TrackMap, sheet: &TrackSheet) -> Formula {
    let switch = (sheet.switch_ns > 0).then_some(Nanos(sheet.switch_ns));
    let turn = Nanos(sheet.period_ps.div_ceil(1000));
    Formula::new(map, turn, deltas_of(sheet), switch)
}

fn mimic(sheet: &TrackSheet) -> Box<dyn Head> {
    let Some(table) = &sheet.table else {
        return Box::new(Sequential);
    };
    let axis = |axis: SkipAxis| Steps {
        first: axis.first,
        step: axis.step,
        count: axis.count,
    };
    let [sizes, thinks, skips] = table.axes.map(axis);
    let grid = Grid {
        sizes,
        thinks,
        skips,
        samples: 1,
        turn: (table.turn_ns > 0).then_some(Nanos(table.turn_ns)),
    };
    match Table::of_skips(grid, table.skips.clone()) {
        Ok(table) => Box::new(Mimic::new(grid, table)),
        Err(_) => Box::new(Sequential),
    }
}

/// The table of a predictor as a sheet keeps it.
pub fn sheet_table(table: &Table) -> SkipTable {
    let grid = table.grid();
    let axis = |axis: Steps| SkipAxis {
        first: axis.first,
        step: axis.step,
        count: axis.count,
    };
    SkipTable {
        axes: [grid.sizes, grid.thinks, grid.skips].map(axis),
        turn_ns: grid.turn.map_or(0, |turn| turn.0),
        skips: table.skips().to_vec(),
    }
}

/// Writes into the sheet how far the platter turns between two requests, in sectors of the track of the first delta.
pub(crate) fn note_deltas(sheet: &mut TrackSheet, deltas: &Deltas) {
    let turn_sectors = deltas.write_after_write.turn_sectors;
    let sectors = |delta: Delta| {
        let sectors = u64::from(delta.sectors) * u64::from(turn_sectors);
        sectors.div_ceil(u64::from(delta.turn_sectors.max(1))) as u32
    };
    sheet.leads = [
        deltas.write_after_write,
        deltas.write_after_read,
        deltas.read_after_write,
    ]
    .map(sectors);
    sheet.lead_turn_sectors = turn_sectors;
    sheet.read_lag_ns = deltas.read_lag_ns;
    sheet.read_ahead_sectors = deltas.read_ahead;
}

fn deltas_of(sheet: &TrackSheet) -> Deltas {
    let delta = |sectors| Delta {
        sectors,
        turn_sectors: sheet.lead_turn_sectors.max(1),
    };
    let [write_after_write, write_after_read, read_after_write] = sheet.leads.map(delta);
    Deltas {
        write_after_write,
        write_after_read,
        read_after_write,
        read_lag_ns: sheet.read_lag_ns,
        read_ahead: sheet.read_ahead_sectors,
    }
}

/// Writes the sheet of each log member, if the store has sheets, and makes them durable.
///
/// # Errors
/// When a member cannot be written.
pub(crate) async fn store_sheets(
    pool: &BufPool,
    sheets: &[(usize, TrackSheet)],
    members: &[Rc<dyn Device>],
) -> Result<(), EngineError> {
    for (index, sheet) in sheets {
        let device = &members[*index];
        let failed = |error| EngineError::Sheet {
            member: device.name().to_string(),
            what: "writing",
            error,
        };
        let bytes = sheet.encode();
        for offset in sheet_offsets(device.size_bytes()) {
            let data = Data::whole(pool.copy_of(&bytes));
            device.write(offset, data).await.map_err(failed)?;
        }
        device.flush().await.map_err(failed)?;
    }
    Ok(())
}

/// The sheet of member `index`, and the offsets of its copies that are not there.
async fn load_sheet(
    pool: &BufPool,
    superblock: &Superblock,
    index: usize,
    device: &Rc<dyn Device>,
) -> Result<(TrackSheet, Vec<u64>), EngineError> {
    let mut cause = FormatError::Signature("track sheet");
    let (mut found, mut lost, mut unreadable) = (None, Vec::new(), None);
    let is_own = |sheet: &TrackSheet| {
        sheet.store == superblock.store && usize::from(sheet.member_index) == index
    };
    for offset in sheet_offsets(device.size_bytes()) {
        match read_sheet(pool, device, offset).await {
            Ok(Ok(sheet)) if is_own(&sheet) => {
                found.get_or_insert(sheet);
                continue;
            }
            Ok(Ok(_)) => cause = FormatError::Signature("track sheet of this member"),
            Ok(Err(error)) => cause = error,
            // The other copy is as good as this one.
            Err(error) => {
                unreadable.get_or_insert(error);
            }
        }
        lost.push(offset);
    }
    let sheet = found.ok_or_else(|| {
        unreadable.unwrap_or(EngineError::SheetLost {
            member: device.name().to_string(),
            cause,
        })
    })?;
    Ok((sheet, lost))
}

async fn read_sheet(
    pool: &BufPool,
    device: &Rc<dyn Device>,
    offset: u64,
) -> Result<Result<TrackSheet, FormatError>, EngineError> {
    let failed = |error| EngineError::Sheet {
        member: device.name().to_string(),
        what: "reading",
        error,
    };
    let first = device
        .read(offset, pool.alloc(SECTOR))
        .await
        .map_err(failed)?;
    let length = match TrackSheet::bytes_of(&first) {
        Ok(length) => length,
        Err(error) => return Ok(Err(error)),
    };
    let bytes = device
        .read(offset, pool.alloc(length))
        .await
        .map_err(failed)?;
    Ok(TrackSheet::decode(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonearm_head::TrackRun;

    #[test]
    fn track_sheet_without_period_yields_no_formula() {
        let run = TrackRun {
            first: 2048,
            tracks: 9,
            sectors: 64,
            turn_sectors: 64,
            angle: 0,
            group: 1,
            at: 0,
            short: 0,
            track_skew: 0,
            cylinder_skew: 0,
        };
        let map = TrackMap::new(vec![run]).expect("tracks");
        let drives = LogDrives {
            devices: Vec::new(),
            geometry: LogGeometry {
                members: vec![LogTracks::Physical(Rc::new(map))],
                ..LogGeometry::even([1; 16], 1 << 20, 9, 8, SECTOR)
            },
            kind: HeadKind::Formula,
            sheets: vec![TrackSheet::default()],
            lost: Vec::new(),
        };
        assert_eq!(drives.heads().len(), 1);
    }
}
