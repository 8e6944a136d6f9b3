//! The shim's table of allocations against a map of the standard library.

use std::collections::HashMap;

/// The memory that the table takes from the kernel in the shim.
pub mod kernel {
    use std::alloc::{Layout, alloc_zeroed, dealloc};

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 4096).unwrap()
    }

    pub fn memory(size: usize) -> *mut u8 {
        // SAFETY: the size is not zero.
        unsafe { alloc_zeroed(layout(size)) }
    }

    pub unsafe fn free(at: *mut u8, size: usize) {
        // SAFETY: memory of `memory` with this size.
        unsafe { dealloc(at, layout(size)) }
    }
}

#[path = "../../front/table.rs"]
mod front;

use front::{Entry, Table};

/// A table without entries, as in new memory of the shim.
fn empty() -> Table {
    // SAFETY: all zeros are an empty table.
    unsafe { std::mem::zeroed() }
}

#[test]
fn a_table_has_the_entries_of_a_map() {
    let mut seed = 88_172_645_463_325_252_u64;
    let mut random = |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    // Few keys collide and wrap around often; many make the table grow.
    for n_keys in [3, 150, 2000] {
        let (mut table, mut map) = (empty(), HashMap::new());
        for step in 0..40_000 {
            // Addresses as of a driver: multiples of its granularity.
            let key = (1 + random(n_keys)) << 21;
            if random(3) == 0 {
                assert_eq!(table.remove(key).map(|it| it.a), map.remove(&key));
            } else {
                table.insert(Entry { key, a: step, b: 0 });
                map.insert(key, step);
            }
            let key = (1 + random(n_keys)) << 21;
            assert_eq!(table.get(key).map(|it| it.a), map.get(&key).copied());
        }
        let mut seen = HashMap::new();
        table.for_each(|entry| assert!(seen.insert(entry.key, entry.a).is_none()));
        assert_eq!(seen, map);
        // As after the end of a context: each entry is visited, also if another one is removed.
        let (mut place, mut n_seen) = (0, 0);
        while let Some((found, entry)) = table.next(place) {
            n_seen += u64::from(entry.a % 2 == 0);
            let gone = entry.a % 2 == 0 && table.remove(entry.key).is_some();
            place = if gone { found } else { found + 1 };
        }
        assert_eq!(n_seen, map.values().filter(|a| **a % 2 == 0).count() as u64);
    }
}

#[test]
fn the_key_of_a_free_place_is_no_entry() {
    let mut table = empty();
    assert!(table.get(0).is_none() && table.get(7).is_none() && table.remove(7).is_none());
    table.insert(Entry { key: 0, a: 1, b: 1 });
    assert!(table.get(0).is_none() && table.remove(0).is_none() && table.next(0).is_none());
}
