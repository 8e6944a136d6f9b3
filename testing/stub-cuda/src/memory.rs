//! The objects in device memory: mappings, physical allocations, pools, arrays and graphs.

use std::collections::BTreeMap;
use std::io;

use crate::heap::Heap;

/// The objects of a process. Handles are numbers, never addresses.
pub(crate) struct Memory {
    pub(crate) heap: Heap,
    /// By device address.
    pub(crate) mappings: BTreeMap<u64, Mapping>,
    /// Reserved addresses without memory of their own: sizes by address.
    pub(crate) reserved: BTreeMap<u64, u64>,
    pub(crate) physical: BTreeMap<u64, Physical>,
    pub(crate) pools: BTreeMap<u64, Pool>,
    pub(crate) arrays: BTreeMap<u64, Array>,
    /// Bytes that the allocations of each graph need at its launch.
    pub(crate) graphs: BTreeMap<u64, Graph>,
    next_handle: u64,
}

/// Memory at a device address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mapping {
    pub(crate) size: u64,
    pub(crate) source: Source,
}

/// The owner of the memory at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// An allocation of its own in a context, at this offset of the heap.
    Own { device: usize, offset: u64, context: u64 },
    /// An allocation of a pool.
    Pool(u64),
    /// A part of a physical allocation.
    Physical(u64),
    /// Memory of another process; not counted here.
    Foreign,
}

/// `CUmemGenericAllocationHandle`: exists while it has references or mappings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Physical {
    /// Absent if the memory is on the host, or belongs to another process.
    pub(crate) device: Option<usize>,
    pub(crate) size: u64,
    pub(crate) offset: u64,
    pub(crate) n_references: u32,
    pub(crate) n_mappings: u32,
}

/// `CUmemoryPool`.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    pub(crate) device: usize,
    /// Bytes that the pool holds, used or not.
    pub(crate) reserved: u64,
    pub(crate) used: u64,
    /// Unused bytes above this go back at a synchronisation.
    pub(crate) threshold: u64,
    /// Addresses and sizes of unused parts.
    pub(crate) unused: Vec<(u64, u64)>,
}

/// `CUarray` or `CUmipmappedArray`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Array {
    pub(crate) device: usize,
    pub(crate) size: u64,
    pub(crate) context: u64,
}

/// `CUgraph`.
#[derive(Debug, Default, Clone)]
pub(crate) struct Graph {
    /// Device and bytes of each allocation.
    pub(crate) allocations: Vec<(usize, u64)>,
}

impl Memory {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            heap: Heap::new()?,
            mappings: BTreeMap::new(),
            reserved: BTreeMap::new(),
            physical: BTreeMap::new(),
            pools: BTreeMap::new(),
            arrays: BTreeMap::new(),
            graphs: BTreeMap::new(),
            next_handle: 0x1000,
        })
    }

    /// A handle that was never given before.
    pub(crate) fn handle(&mut self) -> u64 {
        self.next_handle += 1;
        self.next_handle
    }

    /// Whether all of a range is device memory.
    pub(crate) fn contains(&self, address: u64, size: u64) -> bool {
        let Some(end) = address.checked_add(size) else { return false };
        let mut at = address;
        while at < end {
            let below = self.mappings.range(..=at).next_back();
            match below.map(|(start, mapping)| start + mapping.size) {
                Some(stop) if stop > at => at = stop,
                _ => return false,
            }
        }
        true
    }
}
