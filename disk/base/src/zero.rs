//! Recognises zeroes.

/// True when all of `bytes` are zero. It compares 64 bytes at a time, because slots and blocks of zeroes are common.
pub fn is_zero(bytes: &[u8]) -> bool {
    let mut chunks = bytes.chunks_exact(64);
    chunks.all(|chunk| chunk.iter().fold(0, |all, byte| all | byte) == 0)
        && chunks.remainder().iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::is_zero;

    #[test]
    fn one_byte_anywhere_is_noticed() {
        let mut bytes = [0; 1000];
        assert!(is_zero(&bytes) && is_zero(&[]));
        for at in 0..bytes.len() {
            bytes[at] = 1;
            assert!(!is_zero(&bytes), "byte {at}");
            bytes[at] = 0;
        }
    }
}
