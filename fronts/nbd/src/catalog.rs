//! The exports that a client may choose from.
//!
//! The engine's side replaces the list as a whole whenever a volume is created,
//! deleted or resized; each handshake option works on one snapshot of it.

use std::sync::{Arc, PoisonError, RwLock};

/// One export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Name, unique in a catalog; at most 4,096 bytes of UTF-8 without NUL.
    pub name: String,
    /// Text for people; may be empty.
    pub description: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Whether writing commands are refused.
    pub read_only: bool,
    /// Size and alignment in bytes of requests that are cheap: a power of two,
    /// at least 512.
    pub block_size_preferred: u32,
    /// Bytes of the largest request that the store takes, a multiple of the preferred size. Clients get the smaller of
    /// this and the protocol's own limit.
    pub block_size_max: u32,
}

/// An immutable list of exports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exports {
    exports: Vec<Export>,
    default: Option<String>,
}

impl Exports {
    /// A list, in the order in which clients see it. The empty name stands for the export named `default`.
    pub fn new(exports: Vec<Export>, default: Option<String>) -> Exports {
        Exports { exports, default }
    }

    /// All exports, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Export> {
        self.exports.iter()
    }

    /// Finds the export that a client names. Names are compared byte by byte;
    /// the empty name is the default export, unless an export has that name.
    pub fn resolve(&self, name: &str) -> Option<&Export> {
        let named = |name: &str| self.exports.iter().find(|export| export.name == name);
        match (named(name), &self.default) {
            (None, Some(default)) if name.is_empty() => named(default),
            (found, _) => found,
        }
    }
}

/// A shared, replaceable list of exports. Clones are handles to one list.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    current: Arc<RwLock<Arc<Exports>>>,
}

impl Catalog {
    /// A catalog that starts with `exports`.
    pub fn new(exports: Exports) -> Catalog {
        let catalog = Catalog::default();
        catalog.replace(exports);
        catalog
    }

    /// Replaces the list for all later options of all handshakes.
    pub fn replace(&self, exports: Exports) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(exports);
    }

    /// The list as it is now.
    pub fn snapshot(&self) -> Arc<Exports> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&current)
    }
}
