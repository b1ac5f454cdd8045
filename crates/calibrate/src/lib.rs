//! What a drive is like, seen only through timed reads and writes.
