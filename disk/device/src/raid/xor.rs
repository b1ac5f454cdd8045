//! XOR of byte ranges. The compiler turns the plain loop into vector instructions.

use tonearm_base::Slice;

/// `to ^= from`, byte by byte.
///
/// # Panics
/// When the lengths differ.
pub(crate) fn xor_into(to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len(), "XOR of equal lengths");
    for (to, from) in to.iter_mut().zip(from) {
        *to ^= *from;
    }
}

/// `to ^= from` for parts that follow each other and together are as long as `to`.
pub(crate) fn xor_slices(to: &mut [u8], from: &[Slice]) {
    let mut at = 0;
    for slice in from {
        xor_into(&mut to[at..at + slice.len()], slice);
        at += slice.len();
    }
    assert_eq!(at, to.len(), "XOR of equal lengths");
}
