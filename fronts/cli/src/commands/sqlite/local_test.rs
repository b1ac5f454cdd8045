use super::{HEADER_BYTES, Header, LocalDatabase};
use std::path::PathBuf;
use tempfile::TempDir;

/// A header of 4 pages of 4096 bytes, as SQLite writes it, and so many bytes in all.
fn database(bytes: usize) -> Vec<u8> {
    let mut file = vec![0; bytes.max(HEADER_BYTES)];
    file[..16].copy_from_slice(b"SQLite format 3\0");
    file[16..18].copy_from_slice(&4096u16.to_be_bytes());
    file[24..28].copy_from_slice(&7u32.to_be_bytes());
    file[28..32].copy_from_slice(&4u32.to_be_bytes());
    file[92..96].copy_from_slice(&7u32.to_be_bytes());
    file
}

struct Beside(TempDir);

impl Beside {
    fn new(database: &[u8]) -> Self {
        let beside = Self(TempDir::new().unwrap());
        beside.write("", database);
        beside
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("app.db")
    }

    fn write(&self, suffix: &str, bytes: &[u8]) {
        let mut path = self.path().into_os_string();
        path.push(suffix);
        std::fs::write(path, bytes).unwrap();
    }

    fn refused(&self) -> String {
        match LocalDatabase::open(&self.path()) {
            Ok(_) => panic!("it was opened"),
            Err(error) => error.to_string(),
        }
    }
}

#[test]
fn a_database_at_rest_is_opened_with_all_its_bytes() {
    let beside = Beside::new(&database(16384));
    // What SQLite leaves behind with journal_mode=PERSIST and after a checkpoint.
    beside.write("-journal", &[0; 512]);
    beside.write("-wal", b"");
    let opened = LocalDatabase::open(&beside.path()).unwrap();
    let mut content = Vec::new();
    std::io::Read::read_to_end(&mut opened.content(), &mut content).unwrap();
    assert_eq!(content, database(16384));
}

#[test]
fn non_database_is_distinguished_from_a_damaged_one() {
    assert!(Beside::new(b"hello").0.path().exists());
    for (content, text) in [
        (vec![b'x'; 8192], "is no SQLite database"),
        (database(8192), "header tells of 4 pages"),
        (database(16385), "it has 16385 bytes"),
    ] {
        let refused = Beside::new(&content).refused();
        assert!(refused.contains(text), "{refused}");
    }
    let refused = Beside::new(&database(0)[..40]).refused();
    assert!(refused.contains("is no SQLite database"), "{refused}");
    let empty = Beside::new(b"");
    std::fs::write(empty.path(), b"").unwrap();
    assert!(empty.refused().contains("is empty"));
    let mut odd = database(16384);
    odd[16..18].copy_from_slice(&600u16.to_be_bytes());
    assert!(Header::parse(&odd[..HEADER_BYTES]).is_err());
}

#[test]
fn pending_wal_or_journal_is_reported_with_advice() {
    let beside = Beside::new(&database(16384));
    beside.write("-wal", &[1; 32]);
    let refused = beside.refused();
    assert!(refused.contains("app.db-wal holds changes"), "{refused}");
    assert!(refused.contains("wal_checkpoint"), "{refused}");
    beside.write("-wal", b"");
    beside.write("-journal", &[0xd9, 0xd5]);
    let refused = beside.refused();
    assert!(refused.contains("hot journal"), "{refused}");
}
