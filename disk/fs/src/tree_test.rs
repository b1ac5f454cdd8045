use crate::tree::{Key, OWNER_WORDS, Pages, Tree, TreeError, Wait, format, max_value};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use tonearm_format::{TreeFreePage, TreeHeader, TreeNode};

const OWNER: [u64; OWNER_WORDS] = [1, 2, 3, 4, 5, 6, 7, 8];
type Model = BTreeMap<Key, Vec<u8>>;

/// Numbers that look random (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Pages in memory. A page that was never used has bytes that mean nothing.
#[derive(Clone, PartialEq)]
struct Space {
    pages: Vec<Vec<u8>>,
    /// Accesses that are left before a test fails because an operation does not end.
    accesses: u64,
}

impl Space {
    fn new(page_len: usize, count: usize) -> Self {
        let mut space = Self {
            pages: vec![vec![0xa5; page_len]; count],
            accesses: u64::MAX,
        };
        format(&mut space, OWNER).unwrap();
        space
    }

    fn tree(&mut self) -> Tree<'_, Self> {
        Tree(self)
    }

    /// Puts an item, with more pages when there are too few.
    fn put(&mut self, key: Key, value: &[u8]) {
        let (page_len, free) = (self.pages[0].len(), 64);
        let header = self.tree().header().unwrap();
        if header.used + free > self.count() + header.free_count {
            let count = self.pages.len() + free as usize;
            self.pages.resize(count, vec![0xa5; page_len]);
        }
        self.tree().put(key, value).unwrap();
    }

    /// 8-byte words that differ from those of an older state.
    fn changed_words(&self, old: &Self) -> usize {
        let pages = self.pages.iter().zip(&old.pages);
        let pages = pages.filter(|(new, old)| new != old);
        let words = pages.flat_map(|(new, old)| new.chunks(8).zip(old.chunks(8)));
        words.filter(|(new, old)| new != old).count()
    }
}

impl Pages for Space {
    fn page(&mut self, page: u64) -> Result<&[u8], Wait> {
        self.page_mut(page).map(|page| &*page)
    }

    fn page_mut(&mut self, page: u64) -> Result<&mut [u8], Wait> {
        self.accesses = self.accesses.checked_sub(1).expect("an operation ends");
        Ok(&mut self.pages[page as usize])
    }

    fn count(&self) -> u64 {
        self.pages.len() as u64
    }
}

/// Pages of which some are not in memory, and that keep the changes of an operation apart until it has ended.
struct Waiting {
    space: Space,
    changed: BTreeMap<u64, Vec<u8>>,
    loaded: BTreeSet<u64>,
    limit: u64,
    random: Random,
}

impl Waiting {
    fn run<T>(&mut self, operation: impl Fn(&mut Tree<Self>) -> Result<T, TreeError>) -> T {
        loop {
            self.changed.clear();
            match operation(&mut Tree(self)) {
                Err(TreeError::Wait(Wait::Missing(page))) => {
                    self.loaded.insert(page);
                }
                Err(TreeError::Wait(Wait::Full)) => self.limit += 1,
                result => {
                    for (page, bytes) in std::mem::take(&mut self.changed) {
                        self.space.pages[page as usize] = bytes;
                    }
                    let random = &mut self.random;
                    self.loaded.retain(|_| random.below(3) > 0);
                    return result.unwrap();
                }
            }
        }
    }
}

impl Pages for Waiting {
    fn page(&mut self, page: u64) -> Result<&[u8], Wait> {
        self.page_mut(page)?;
        let changed = self.changed.get(&page);
        Ok(changed.unwrap_or(&self.space.pages[page as usize]))
    }

    fn page_mut(&mut self, page: u64) -> Result<&mut [u8], Wait> {
        assert!(page < self.limit, "a page beyond the space");
        if !self.loaded.contains(&page) {
            return Err(Wait::Missing(page));
        }
        let bytes = &self.space.pages[page as usize];
        Ok(self.changed.entry(page).or_insert_with(|| bytes.clone()))
    }

    fn count(&self) -> u64 {
        self.limit
    }
}

#[derive(Clone, Copy, Debug)]
enum Pattern {
    Ascending,
    Descending,
    Random,
    FewInodes,
}

const PATTERNS: [Pattern; 4] = [
    Pattern::Ascending,
    Pattern::Descending,
    Pattern::Random,
    Pattern::FewInodes,
];

impl Pattern {
    fn key(self, number: u64, random: &mut Random) -> Key {
        let (ino, kind, at) = match self {
            Pattern::Ascending => (number / 3, (number % 3) as u8, 0),
            Pattern::Descending => (u64::MAX - number / 3, 255 - (number % 3) as u8, 5),
            Pattern::Random => (random.next(), random.next() as u8, random.next()),
            Pattern::FewInodes => (random.below(3), random.below(2) as u8, random.below(400)),
        };
        Key { ino, kind, at }
    }
}

/// A key near those of the model, or anywhere.
fn some_key(model: &Model, random: &mut Random) -> Key {
    if model.is_empty() || random.below(8) == 0 {
        return Pattern::Random.key(0, random);
    }
    let (key, _) = model
        .iter()
        .nth(random.below(model.len() as u64) as usize)
        .unwrap();
    let at = key.at.wrapping_add(random.below(3)).wrapping_sub(1);
    Key { at, ..*key }
}

fn some_value(most: usize, random: &mut Random) -> Vec<u8> {
    vec![random.next() as u8; random.below(most as u64 + 1) as usize]
}

/// The tree has exactly the items of the model, and says so in each way.
fn compare(space: &mut Space, model: &Model, random: &mut Random) {
    let header = space.tree().header().unwrap();
    assert_eq!(header.owner, OWNER);
    let report = space.tree().check().unwrap();
    assert_eq!(report.items, model.len() as u64);
    assert_eq!(report.free, header.free_count);
    assert_eq!(1 + report.inner + report.leaves + report.free, header.used);
    let mut items = model.iter();
    let each = |key, value: &[u8]| items.next() == Some((&key, &value.to_vec()));
    space.tree().scan(Key::default(), each).unwrap();
    assert_eq!(items.next(), None, "the scan met all items, in order");
    for _ in 0..20 {
        let key = some_key(model, random);
        let owned = |item: Option<(&Key, &Vec<u8>)>| item.map(|(key, value)| (*key, value.clone()));
        assert_eq!(space.tree().get(key), Ok(model.get(&key).cloned()));
        let next = owned(model.range(key..).next());
        assert_eq!(space.tree().next(key), Ok(next));
        let previous = owned(model.range(..=key).next_back());
        assert_eq!(space.tree().previous(key), Ok(previous));
    }
}

/// A tree of `count` items, and its model.
fn filled(page_len: usize, pattern: Pattern, count: u64, most: usize) -> (Space, Model) {
    let (mut space, mut model) = (Space::new(page_len, 2), Model::new());
    let mut random = Random(count);
    for number in 0..count {
        let key = pattern.key(number, &mut random);
        let value = some_value(most, &mut random);
        space.put(key, &value);
        model.insert(key, value);
    }
    (space, model)
}

fn cases(count: u32) -> ProptestConfig {
    ProptestConfig::with_cases(count)
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn a_tree_is_an_ordered_map(
        large: bool,
        pattern in prop::sample::select(&PATTERNS[..]),
        batches in prop::collection::vec((1u64..300, 0u64..10), 1..6),
        small_values: bool,
        seed: u64,
    ) {
        let page_len = if large { 65536 } else { 4096 };
        let most = if small_values { 100 } else { max_value(page_len) };
        let (mut space, mut model) = (Space::new(page_len, 2), Model::new());
        let mut random = Random(seed);
        let mut number = 0;
        for (operations, removals) in batches {
            for _ in 0..operations {
                if random.below(10) < removals {
                    let key = some_key(&model, &mut random);
                    let removed = space.tree().remove(key);
                    prop_assert_eq!(removed, Ok(model.remove(&key).is_some()));
                } else {
                    number += 1;
                    let key = match random.below(4) {
                        0 => some_key(&model, &mut random),
                        _ => pattern.key(number, &mut random),
                    };
                    let value = some_value(most, &mut random);
                    space.put(key, &value);
                    model.insert(key, value);
                }
            }
            compare(&mut space, &model, &mut random);
        }
    }

    #[test]
    fn an_emptied_tree_has_given_its_pages_back(
        large: bool,
        pattern in prop::sample::select(&PATTERNS[..]),
        order in 0..3,
        count in 1u64..800,
        seed: u64,
    ) {
        let page_len = if large { 65536 } else { 4096 };
        let (mut space, mut model) = filled(page_len, pattern, count, max_value(page_len) / 2);
        let mut random = Random(seed);
        while !model.is_empty() {
            let key = match order {
                0 => model.keys().next(),
                1 => model.keys().next_back(),
                _ => model.keys().nth(random.below(model.len() as u64) as usize),
            };
            let key = *key.unwrap();
            model.remove(&key);
            prop_assert_eq!(space.tree().remove(key), Ok(true));
            if model.len().is_multiple_of(50) {
                compare(&mut space, &model, &mut random);
            }
        }
        let header = space.tree().header().unwrap();
        prop_assert_eq!((header.levels, header.items), (1, 0));
        prop_assert_eq!(header.free_count, header.used - 2);
        // The same items fit into the same pages again.
        space.pages.truncate(header.used as usize);
        for number in 0..count {
            space.tree().put(Pattern::Ascending.key(number, &mut random), &[1; 50]).unwrap();
        }
        space.tree().check().unwrap();
    }

    #[test]
    fn an_operation_that_waited_has_the_same_effect(
        pattern in prop::sample::select(&PATTERNS[..]),
        seed: u64,
    ) {
        let mut direct = Space::new(4096, 1000);
        let mut waiting = Waiting {
            space: direct.clone(),
            changed: BTreeMap::new(),
            loaded: BTreeSet::new(),
            limit: 2,
            random: Random(seed),
        };
        let (mut random, mut model) = (Random(seed), Model::new());
        for number in 0..400 {
            let key = pattern.key(number, &mut random);
            let value = some_value(max_value(4096), &mut random);
            waiting.run(|tree| tree.put(key, &value));
            direct.tree().put(key, &value).unwrap();
            model.insert(key, value);
            if random.below(2) == 0 {
                let key = some_key(&model, &mut random);
                model.remove(&key);
                let removed = waiting.run(|tree| tree.remove(key));
                prop_assert_eq!(direct.tree().remove(key), Ok(removed));
            }
            let key = some_key(&model, &mut random);
            let previous = waiting.run(|tree| tree.previous(key));
            prop_assert_eq!(direct.tree().previous(key), Ok(previous));
        }
        let report = waiting.run(|tree| tree.check());
        prop_assert_eq!(direct.tree().check(), Ok(report));
        prop_assert!(direct.pages == waiting.space.pages);
    }
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn damaged_pages_are_refused_or_used_without_a_panic(
        pattern in prop::sample::select(&PATTERNS[..]),
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0..16, any::<u16>()), 1..8),
        seed: u64,
    ) {
        let (mut space, mut model) = filled(4096, pattern, 300, 400);
        // Some free pages.
        for key in model.keys().skip(100).take(100) {
            space.tree().remove(*key).unwrap();
        }
        model = model.into_iter().take(100).collect();
        let header = space.tree().header().unwrap();
        for (page, place, value) in damage {
            let page = if place == 0 { 0 } else { page.index(header.used as usize) };
            let at = match place {
                0 => usize::from(value) % 64,
                1..=7 => usize::from(value) % 60,
                _ => usize::from(value) % 4096,
            };
            // Small numbers are those of other pages.
            space.pages[page][at] = match seed % 2 {
                0 => (value >> 8) as u8,
                _ => (value >> 8) as u8 % header.used as u8,
            };
        }
        let mut random = Random(seed);
        let accesses = 20 * header.used + 100;
        let space = Space { accesses, ..space };
        for _ in 0..20 {
            let key = some_key(&model, &mut random);
            let value = some_value(max_value(4096), &mut random);
            let results = [
                space.clone().tree().get(key).err(),
                space.clone().tree().put(key, &value).err(),
                space.clone().tree().remove(key).err(),
                space.clone().tree().next(key).err(),
                space.clone().tree().previous(key).err(),
                space.clone().tree().scan(key, |_, _| true).err(),
                space.clone().tree().check().err(),
            ];
            for result in results {
                let expected = matches!(
                    result,
                    None | Some(TreeError::Damaged(_) | TreeError::Wait(Wait::Full))
                );
                prop_assert!(expected, "{:?}", result);
            }
        }
        // Damage adds up while operations go on.
        let mut space = Space { accesses: 200 * accesses, ..space };
        for _ in 0..100 {
            let key = some_key(&model, &mut random);
            let _ = space.tree().put(key, &some_value(max_value(4096), &mut random));
            let _ = space.tree().remove(some_key(&model, &mut random));
        }
    }
}

fn key(at: u64) -> Key {
    Key {
        ino: 1,
        kind: 2,
        at,
    }
}

#[test]
fn values_have_a_limit_and_a_full_space_waits() {
    let mut space = Space::new(4096, 2);
    let most = max_value(4096);
    assert_eq!(
        space.tree().put(key(0), &vec![0; most + 1]),
        Err(TreeError::TooLarge)
    );
    for at in 0..4 {
        assert_eq!(space.tree().put(key(at), &vec![0; most]), Ok(()));
    }
    let full = Err(TreeError::Wait(Wait::Full));
    assert_eq!(space.clone().tree().put(key(4), &[]), full);
    space.tree().put(key(3), &vec![1; most]).unwrap();
    let refused = format(
        &mut Space {
            pages: vec![vec![0; 4096]],
            accesses: 9,
        },
        OWNER,
    );
    assert_eq!(refused, full);
}

#[test]
fn the_owner_has_words_in_the_header() {
    let mut space = Space::new(4096, 2);
    space.tree().put(key(1), b"one").unwrap();
    let before = space.tree().header().unwrap();
    space.tree().set_header([9; OWNER_WORDS]).unwrap();
    let owner = [9; OWNER_WORDS];
    assert_eq!(space.tree().header(), Ok(TreeHeader { owner, ..before }));
}

#[test]
fn a_value_of_the_same_length_changes_in_place() {
    let (mut space, model) = filled(4096, Pattern::Random, 300, 300);
    let (key, value) = model.iter().nth(150).unwrap();
    let old = space.clone();
    let value: Vec<u8> = value.iter().map(|byte| byte ^ 1).collect();
    space.tree().put(*key, &value).unwrap();
    assert!(space.changed_words(&old) <= value.len() / 8 + 2);
    assert_eq!(space.tree().get(*key), Ok(Some(value)));
}

#[test]
fn merged_inner_node_keeps_its_separator_key() {
    // Values of 900 bytes: four items in a leaf, some 120 leaves below an inner node.
    let (mut space, mut random) = (Space::new(4096, 2), Random(5));
    let mut model = Model::new();
    for at in 0..2000 {
        space.put(key(at * 10), &[1; 900]);
        model.insert(key(at * 10), vec![1; 900]);
    }
    assert_eq!(space.tree().header().unwrap().levels, 3);
    // The first leaves below each inner node go, smaller keys come, and then most of the rest goes.
    for round in 0..3 {
        for at in 0..2000 {
            let keep = at % 97 == round;
            if !keep {
                space.tree().remove(key(at * 10)).unwrap();
                model.remove(&key(at * 10));
            }
            if at % 7 == 0 {
                space.put(key(at * 10 + 5 + round), &[2; 900]);
                model.insert(key(at * 10 + 5 + round), vec![2; 900]);
            }
        }
        compare(&mut space, &model, &mut random);
    }
}

/// The tree of a root over leaves, with what `change` makes of it.
fn damaged(change: impl Fn(&mut Space, &mut TreeHeader)) -> String {
    let (mut space, _) = filled(4096, Pattern::Ascending, 100, 400);
    let mut header = space.tree().header().unwrap();
    assert_eq!((header.levels, header.free_count), (2, 0));
    change(&mut space, &mut header);
    header.encode(&mut space.pages[0]);
    match space.tree().check() {
        Err(TreeError::Damaged(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_check_finds_what_no_page_alone_shows() {
    let why = damaged(|_, header| header.items += 1);
    assert!(why.contains("items"), "{why}");
    let why = damaged(|_, header| header.used += 1);
    assert!(why.contains("neither in the tree nor free"), "{why}");
    let why = damaged(|space, header| {
        TreeFreePage { next: 0 }.encode(&mut space.pages[header.used as usize]);
        (header.free_head, header.free_count) = (header.used, 2);
        header.used += 1;
    });
    assert!(why.contains("pages are free"), "{why}");
    let why = damaged(|space, header| {
        let page = header.used;
        TreeFreePage { next: page }.encode(&mut space.pages[page as usize]);
        (header.free_head, header.free_count) = (page, 1);
        header.used += 1;
    });
    assert!(why.contains("used twice"), "{why}");
    let why = damaged(|space, header| {
        let mut root = TreeNode::open(&mut space.pages[header.root as usize][..]).unwrap();
        let child = root.child(1).unwrap();
        root.replace(2, &child.to_le_bytes()).unwrap();
    });
    assert!(why.contains("used twice"), "{why}");
    let why = damaged(|space, header| {
        let mut root = TreeNode::open(&mut space.pages[header.root as usize][..]).unwrap();
        let (one, two) = (root.child(1).unwrap(), root.child(2).unwrap());
        root.replace(1, &two.to_le_bytes()).unwrap();
        root.replace(2, &one.to_le_bytes()).unwrap();
    });
    assert!(why.contains("do not belong there"), "{why}");
    let why = damaged(|space, header| {
        let leaf = TreeNode::open(&space.pages[header.root as usize][..])
            .unwrap()
            .child(1)
            .unwrap();
        let mut leaf = TreeNode::open(&mut space.pages[leaf as usize][..]).unwrap();
        let end = leaf.count();
        leaf.insert(
            end,
            Key {
                ino: u64::MAX,
                ..key(0)
            },
            &[],
        )
        .unwrap();
        header.items += 1;
    });
    assert!(why.contains("do not belong there"), "{why}");
}

#[test]
fn a_scan_ends_when_a_leaf_is_met_again() {
    let (mut space, _) = filled(4096, Pattern::Ascending, 100, 400);
    let header = space.tree().header().unwrap();
    let mut root = TreeNode::open(&mut space.pages[header.root as usize][..]).unwrap();
    let child = root.child(1).unwrap().to_le_bytes();
    for index in 0..root.count() {
        root.replace(index, &child).unwrap();
    }
    let mut items = 0;
    let ended = space.tree().scan(Key::default(), |_, _| {
        items += 1;
        true
    });
    assert!(matches!(ended, Err(TreeError::Damaged(_))));
    assert!(items < 40, "{items}");
}

/// Share of the leaves' bytes that items take, and words that an insert changes on average, for values of 120 bytes.
fn cost(page_len: usize, pages: usize, pattern: Pattern, count: u64) -> (f64, f64) {
    let (mut space, mut random) = (Space::new(page_len, pages), Random(1));
    let mut words = 0;
    for number in 0..count {
        let old = space.clone();
        let value: Vec<u8> = (0..120).map(|_| random.next() as u8).collect();
        let key = pattern.key(number, &mut random);
        space.tree().put(key, &value).unwrap();
        words += space.changed_words(&old);
    }
    let report = space.tree().check().unwrap();
    let fill = report.used_bytes as f64 / (report.leaves * page_len as u64) as f64;
    let words = words as f64 / count as f64;
    println!("{pattern:?} in {page_len}: {fill:.3} {words:.1} {report:?}");
    (fill, words)
}

#[test]
fn inserts_fill_pages_and_change_few_words() {
    let (fill, words) = cost(4096, 400, Pattern::Ascending, 3000);
    assert!(fill > 0.95 && words < 25.0, "{fill} {words}");
    let (fill, words) = cost(4096, 400, Pattern::Random, 3000);
    assert!(fill > 0.6 && words < 45.0, "{fill} {words}");
    // Descending keys split each page in the middle.
    let (fill, words) = cost(4096, 400, Pattern::Descending, 3000);
    assert!(fill > 0.45 && words < 55.0, "{fill} {words}");
}
