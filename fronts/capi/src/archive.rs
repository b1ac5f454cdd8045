//! The archive of an open store.

use super::{TonearmStore, check_place, give_lsn, store_of, text_of};
use crate::status::guarded;
use std::ffi::{c_char, c_int};
use tonearm_bucket::{RealBucket, Writer};
use tonearm_store::{ArchiveInfo, ArchiverOptions, Lsn, Nanos, StoreError};

/// `tonearm_archive_options` of the header.
#[repr(C)]
pub struct ArchiveOptions {
    interval_ms: u64,
    keep_ms: u64,
    keep_every_commit_ms: u64,
    base_bytes_per_second: u64,
    recipient: *const c_char,
}

/// Bytes of a reason with its zero byte.
const WHY_BYTES: usize = 256;

/// `tonearm_archive_info` of the header.
#[repr(C)]
pub struct ArchiveState {
    state: c_int,
    restorable: c_int,
    archived_lsn: u64,
    lag: u64,
    gaps: u64,
    objects: u64,
    stored_bytes: u64,
    why: [u8; WHY_BYTES],
}

impl ArchiveState {
    fn of(info: Option<ArchiveInfo>) -> Self {
        let state = info.as_ref().map_or(0, |info| info.state.number());
        let info = info.unwrap_or_default();
        let text = info.why.unwrap_or_default().replace('\0', " ");
        let text = &text[..text.floor_char_boundary(WHY_BYTES - 1)];
        let mut why = [0; WHY_BYTES];
        why[..text.len()].copy_from_slice(text.as_bytes());
        Self {
            state: state as c_int,
            restorable: c_int::from(info.restorable),
            archived_lsn: info.archived_lsn,
            lag: info.lag_commits,
            gaps: info.gaps,
            objects: info.objects,
            stored_bytes: info.stored_bytes,
            why,
        }
    }
}

/// See the header.
///
/// # Safety
/// `url` is NULL or a string that ends with a zero byte; `options` is NULL or points to options, whose `recipient` is so, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tonearm_archive_start(
    store: *mut TonearmStore,
    url: *const c_char,
    options: *const ArchiveOptions,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let url = unsafe { text_of(url, "url") }?;
        // SAFETY: the caller's promise.
        let wanted = unsafe { options.as_ref() };
        let (mut options, mut recipients) = (ArchiverOptions::default(), Vec::new());
        if let Some(wanted) = wanted {
            if wanted.interval_ms > 0 {
                options.interval = Nanos(wanted.interval_ms.saturating_mul(1_000_000));
            }
            options.keep_ms = wanted.keep_ms;
            options.keep_every_commit_ms = wanted.keep_every_commit_ms;
            options.base_bytes_per_second = wanted.base_bytes_per_second;
            if !wanted.recipient.is_null() {
                // SAFETY: the caller's promise; it is not NULL.
                recipients.push(unsafe { text_of(wanted.recipient, "recipient") }?.to_string());
            }
        }
        let store = store_of(store)?;
        let bucket = RealBucket::open_to_write(url, Writer::of_store(store.path()));
        let bucket = bucket.and_then(|bucket| bucket.with_recipients(&recipients));
        let bucket = bucket.map_err(|error| StoreError::Archive(error.to_string()))?;
        Ok(store.start_archive(bucket, options)?)
    })
}

/// See the header.
///
/// # Safety
/// `info` is NULL or a place for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tonearm_archive_status(
    store: *mut TonearmStore,
    info: *mut ArchiveState,
) -> c_int {
    guarded(|| {
        check_place(info, "info")?;
        let state = ArchiveState::of(store_of(store)?.archive()?);
        // SAFETY: the caller's promise; it is not NULL.
        unsafe { info.write(state) };
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// `name` is NULL or a string that ends with a zero byte; `lsn` is NULL or a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tonearm_archive_mark(
    store: *mut TonearmStore,
    name: *const c_char,
    lsn: *mut u64,
) -> c_int {
    guarded(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { text_of(name, "name") }?;
        let Lsn(number) = store_of(store)?.mark(name)?;
        if !lsn.is_null() {
            // SAFETY: the caller's promise; it is not NULL.
            unsafe { lsn.write(number) };
        }
        Ok(())
    })
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tonearm_archive_stop(store: *mut TonearmStore) -> c_int {
    guarded(|| Ok(store_of(store)?.stop_archive()?))
}

/// See the header.
///
/// # Safety
/// `lsn` is NULL or a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tonearm_archived(store: *mut TonearmStore, lsn: *mut u64) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { give_lsn(store, lsn, |store| store.archived()) }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn tonearm_wait_archived(store: *mut TonearmStore, lsn: u64) -> c_int {
    guarded(|| Ok(store_of(store)?.wait_archived(Lsn(lsn))?))
}
