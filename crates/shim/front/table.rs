//! Hash tables from addresses and handles to the facts of an allocation. Their memory comes from
//! the kernel in doubling steps. The lock of [`crate::process`] protects them.

use crate::kernel;

/// The key of a free place.
const FREE: u64 = 0;
const FIRST_CAPACITY: usize = 256;

/// A table. All zeros are an empty table. An entry lies at its own place or behind it, with no free
/// place between.
#[repr(C)]
pub struct Table {
    places: *mut Entry,
    /// A power of two, or 0.
    capacity: usize,
    n_entries: usize,
}

/// An entry. The meaning of `a` and `b` depends on the table.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Entry {
    pub key: u64,
    pub a: u64,
    pub b: u64,
}

impl Table {
    /// The own place of a key.
    fn home(&self, key: u64) -> usize {
        // Fibonacci hashing: the low bits of addresses are equal.
        (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize & self.mask()
    }

    fn mask(&self) -> usize {
        self.capacity.wrapping_sub(1)
    }

    fn at(&self, ix: usize) -> *mut Entry {
        // SAFETY: the mask keeps the place in the table. No caller has an empty table.
        unsafe { self.places.add(ix & self.mask()) }
    }

    /// The place of a key, or the free place where its search ends.
    fn search(&self, key: u64) -> usize {
        let mut ix = self.home(key);
        loop {
            // SAFETY: a place of the table. A free one ends each search: a third of them is free.
            let found = unsafe { (*self.at(ix)).key };
            if found == key || found == FREE {
                return ix & self.mask();
            }
            ix = ix.wrapping_add(1);
        }
    }

    pub fn get(&mut self, key: u64) -> Option<&mut Entry> {
        if self.capacity == 0 || key == FREE {
            return None;
        }
        // SAFETY: a place of the table, borrowed with it.
        let entry = unsafe { &mut *self.at(self.search(key)) };
        (entry.key == key).then_some(entry)
    }

    pub fn remove(&mut self, key: u64) -> Option<Entry> {
        let found = self.get(key).map(|entry| *entry)?;
        let mut hole = self.search(key);
        let mut ix = hole;
        loop {
            ix = ix.wrapping_add(1) & self.mask();
            // SAFETY: places of the table.
            let entry = unsafe { *self.at(ix) };
            if entry.key == FREE {
                break;
            }
            // An entry moves into the hole, unless its own place lies behind the hole.
            let from_home = ix.wrapping_sub(self.home(entry.key)) & self.mask();
            if from_home >= ix.wrapping_sub(hole) & self.mask() {
                // SAFETY: as above.
                unsafe { *self.at(hole) = entry };
                hole = ix;
            }
        }
        // SAFETY: as above.
        unsafe { (*self.at(hole)).key = FREE };
        self.n_entries = self.n_entries.wrapping_sub(1);
        Some(found)
    }

    /// Adds or replaces an entry. Without memory for it, the entry is lost: its allocation stays
    /// charged until the process ends.
    pub fn insert(&mut self, entry: Entry) {
        if entry.key == FREE {
            return;
        }
        if let Some(found) = self.get(entry.key) {
            *found = entry;
        } else if self.n_entries < self.capacity / 8 * 5 || self.grow() {
            self.add(entry);
        }
    }

    /// Adds an entry that is not in the table. The table has room.
    fn add(&mut self, entry: Entry) {
        // SAFETY: a place of the table.
        unsafe { *self.at(self.search(entry.key)) = entry };
        self.n_entries = self.n_entries.wrapping_add(1);
    }

    /// Moves all entries to a table of twice the size.
    #[cold]
    fn grow(&mut self) -> bool {
        let capacity = self.capacity.saturating_mul(2).max(FIRST_CAPACITY);
        let Some(size) = capacity.checked_mul(size_of::<Entry>()) else { return false };
        let places = kernel::memory(size).cast::<Entry>();
        if places.is_null() {
            return false;
        }
        let old = core::mem::replace(self, Self { places, capacity, n_entries: 0 });
        old.for_each(|entry| self.add(*entry));
        if !old.places.is_null() {
            // SAFETY: the old memory, which nothing uses any more.
            unsafe { kernel::free(old.places.cast(), old.capacity * size_of::<Entry>()) };
        }
        true
    }

    /// The first entry at or behind a place, and its place. A removal of this entry may bring
    /// another one to the same place.
    pub fn next(&self, from: usize) -> Option<(usize, Entry)> {
        // SAFETY: a place of the table.
        let mut places = (from..self.capacity).map(|ix| (ix, unsafe { *self.at(ix) }));
        places.find(|(_, entry)| entry.key != FREE)
    }

    /// Visits all entries.
    pub fn for_each(&self, mut visit: impl FnMut(&mut Entry)) {
        for ix in 0..self.capacity {
            // SAFETY: a place of the table.
            let entry = unsafe { &mut *self.at(ix) };
            if entry.key != FREE {
                visit(entry);
            }
        }
    }
}
