//! Lists of blocks.

use crate::status::{Failure, guarded, invalid};
use crate::{TonearmAru, TonearmStore, check_place, data_of, give, store_of, with_unit};
use std::ffi::{c_int, c_void};
use tonearm_store::{BlockId, ListId};

/// See the header.
///
/// # Safety
/// `size` is NULL or a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tonearm_block_size(store: *mut TonearmStore, size: *mut usize) -> c_int {
    guarded(|| {
        check_place(size, "size")?;
        let bytes = store_of(store)?.block_size()?;
        // SAFETY: the caller's promise; it is not NULL.
        unsafe { size.write(bytes as usize) };
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// `list` is NULL or a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tonearm_new_list(aru: *mut TonearmAru, list: *mut u64) -> c_int {
    guarded(|| {
        check_place(list, "list")?;
        let made = with_unit(aru, |unit| unit.new_list())?;
        // SAFETY: the caller's promise; it is not NULL.
        unsafe { list.write(made.0) };
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tonearm_delete_list(aru: *mut TonearmAru, list: u64) -> c_int {
    guarded(|| with_unit(aru, |unit| unit.delete_list(ListId(list))))
}

/// See the header.
///
/// # Safety
/// `block` is NULL or a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tonearm_new_block(
    aru: *mut TonearmAru,
    list: u64,
    after: u64,
    block: *mut u64,
) -> c_int {
    guarded(|| {
        check_place(block, "block")?;
        let after = (after != 0).then_some(BlockId(after));
        let made = with_unit(aru, |unit| unit.new_block(ListId(list), after))?;
        // SAFETY: the caller's promise; it is not NULL.
        unsafe { block.write(made.0) };
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tonearm_delete_block(aru: *mut TonearmAru, block: u64) -> c_int {
    guarded(|| with_unit(aru, |unit| unit.delete_block(BlockId(block))))
}

/// See the header.
///
/// # Safety
/// `buf` is NULL or a place for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tonearm_read_block(
    aru: *mut TonearmAru,
    block: u64,
    buf: *mut c_void,
    len: usize,
) -> c_int {
    guarded(|| {
        check_place(buf, "buf")?;
        let bytes = with_unit(aru, |unit| unit.read_block(BlockId(block)))?;
        if bytes.len() != len {
            return Err(wrong_len(len, bytes.len()));
        }
        // SAFETY: `buf` is not NULL and has room for `len` bytes, as many as were read.
        unsafe { give(&bytes, buf.cast()) };
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// `data` is NULL or has `len` bytes, which do not change meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tonearm_write_block(
    aru: *mut TonearmAru,
    block: u64,
    data: *const c_void,
    len: usize,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let data = unsafe { data_of(data, len) }?;
        with_unit(aru, |unit| unit.write_block(BlockId(block), data))
    })
}

/// See the header.
///
/// # Safety
/// `blocks` is NULL or a place for `max` numbers; `count` is NULL or a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tonearm_list_blocks(
    aru: *mut TonearmAru,
    list: u64,
    blocks: *mut u64,
    max: usize,
    count: *mut usize,
) -> c_int {
    guarded(|| {
        check_place(count, "count")?;
        if max > 0 {
            check_place(blocks, "blocks")?;
        }
        let found = with_unit(aru, |unit| unit.list_blocks(ListId(list)))?;
        let given: Vec<u64> = found.iter().take(max).map(|block| block.0).collect();
        if !given.is_empty() {
            // SAFETY: `blocks` is not NULL and has room for `max` numbers, at least as many as are given.
            unsafe { give(&given, blocks) };
        }
        // SAFETY: the caller's promise; it is not NULL.
        unsafe { count.write(found.len()) };
        Ok(())
    })
}

fn wrong_len(len: usize, block_size: usize) -> Failure {
    invalid(format!(
        "{len} bytes were given for a block of {block_size}"
    ))
}
