//! Contents that identify their writer. A block has eight cells, each filled from a stamp.

/// Cells of a block.
pub const CELLS: usize = 8;

/// The stamps of a block's cells. Stamp 0 means zeroes.
pub type Block = [u64; CELLS];

/// Writes the content of `stamp` into `cell`.
pub fn fill(stamp: u64, cell: &mut [u8]) {
    if stamp == 0 {
        cell.fill(0);
        return;
    }
    for (index, word) in cell.chunks_exact_mut(8).enumerate() {
        let value = match index {
            0 => stamp,
            _ => stamp
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(index as u32 % 64)
                .wrapping_add(index as u64),
        };
        word.copy_from_slice(&value.to_le_bytes());
    }
}

/// The content of `stamps` in cells of `cell_bytes`.
pub fn bytes_of(stamps: &[u64], cell_bytes: usize) -> Vec<u8> {
    let mut bytes = vec![0; stamps.len() * cell_bytes];
    for (stamp, cell) in stamps.iter().zip(bytes.chunks_exact_mut(cell_bytes)) {
        fill(*stamp, cell);
    }
    bytes
}

/// The stamps of the cells in `bytes`.
///
/// # Errors
/// When a cell does not have the content of one stamp.
pub fn stamps_of(bytes: &[u8], cell_bytes: usize) -> Result<Vec<u64>, String> {
    let mut expected = vec![0; cell_bytes];
    let cells = bytes.chunks(cell_bytes).enumerate();
    cells
        .map(|(index, cell)| {
            let first = cell.first_chunk().ok_or("a cell is cut off")?;
            let stamp = u64::from_le_bytes(*first);
            fill(stamp, &mut expected);
            match cell == &expected[..cell.len()] {
                true => Ok(stamp),
                false => Err(format!("cell {index} is torn (stamp {stamp:x})")),
            }
        })
        .collect()
}
