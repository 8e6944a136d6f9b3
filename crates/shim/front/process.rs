//! The state of this process: its slot in the ledger, and its allocations. A child process begins
//! with an empty one, because the kernel clears this memory at a fork: the driver does not work in
//! a forked child, and the child's calls must not change the parent's slot.

use core::cell::UnsafeCell;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicPtr, AtomicU32};

use crate::kernel::{self, Descriptor};
use crate::layout::{FLAG_NO_SLOT, SLOTS_MAX, Slot, UsageFile, identity};
use crate::page;
use crate::table::Table;

/// The device numbers with a cached place in the ledger.
const ORDINALS: usize = 64;
/// A device that is not in the ledger.
const NONE: u32 = u32::MAX;
/// Attempts to take the lock before the thread gives way.
const SPINS: u32 = 100;

static PROCESS: AtomicPtr<Process> = AtomicPtr::new(core::ptr::null_mut());

/// The state. All zeros are a new process.
#[repr(C)]
pub struct Process {
    /// The slot's position + 1; 0 before the first use, and while no slot is free.
    slot: AtomicU32,
    /// 1 while a thread uses the tables.
    lock: AtomicU32,
    /// Devices of the ledger on which a context was charged, as bits.
    pub contexts: AtomicU32,
    /// The place in the ledger + 1, or [`NONE`], by device number.
    devices: [AtomicU32; ORDINALS],
    tables: UnsafeCell<Tables>,
}

/// The allocations of this process.
#[repr(C)]
pub struct Tables {
    /// Addresses of plain allocations: size and device.
    pub pointers: Table,
    /// Arrays: size and device.
    pub arrays: Table,
    /// Physical allocations: size, and [`crate::hooks::physical::Handle`].
    pub handles: Table,
    /// Addresses of mappings: size and handle.
    pub mappings: Table,
    /// Pools: charged bytes and device.
    pub pools: Table,
}

/// Creates the state; returns whether there is memory for it.
pub fn create() -> bool {
    let memory = kernel::memory(size_of::<Process>());
    if memory.is_null() {
        return false;
    }
    // SAFETY: the new memory.
    unsafe { kernel::forget_on_fork(memory, size_of::<Process>()) };
    PROCESS.store(memory.cast(), Release);
    true
}

/// The state; `None` without ledger.
pub fn process() -> Option<&'static Process> {
    // SAFETY: null, or memory of this size that stays.
    unsafe { PROCESS.load(Acquire).as_ref() }
}

impl Process {
    /// Uses the tables while no other thread does. `work` must not call the driver.
    pub fn with_tables<T>(&self, work: impl FnOnce(&mut Tables) -> T) -> T {
        let mut n_spins = 0;
        while self.lock.compare_exchange_weak(0, 1, Acquire, Relaxed).is_err() {
            n_spins += 1;
            if n_spins % SPINS == 0 {
                kernel::give_way();
            }
            core::hint::spin_loop();
        }
        // SAFETY: the lock is taken.
        let result = work(unsafe { &mut *self.tables.get() });
        self.lock.store(0, Release);
        result
    }

    /// The cached place of a device number in the ledger, if it is known.
    pub fn cached(&self, ordinal: usize) -> Option<Option<usize>> {
        match self.devices.get(ordinal)?.load(Relaxed) {
            0 => None,
            NONE => Some(None),
            place => Some(Some(place as usize - 1)),
        }
    }

    pub fn cache(&self, ordinal: usize, place: Option<usize>) {
        if let Some(word) = self.devices.get(ordinal) {
            word.store(place.map_or(NONE, |place| place as u32 + 1), Relaxed);
        }
    }
}

/// The slot of this process in the ledger; claims one at the first call.
#[inline]
pub fn slot() -> Option<&'static Slot> {
    let process = process()?;
    let usage = page::usage()?;
    match process.slot.load(Acquire) {
        0 => claim(process, usage),
        place => usage.slots.get(place as usize - 1),
    }
}

#[cold]
fn claim(process: &Process, usage: &'static UsageFile) -> Option<&'static Slot> {
    let own = identity(kernel::process_id(), start_time());
    process.with_tables(|_| {
        let place = match process.slot.load(Acquire) {
            0 => find(usage, own),
            place => place,
        };
        process.slot.store(place, Release);
        usage.slots.get((place as usize).wrapping_sub(1))
    })
}

/// Claims a slot; its position + 1, or 0 if none is free.
fn find(usage: &UsageFile, own: u64) -> u32 {
    let slots = usage.slots.iter().take(SLOTS_MAX);
    // The program before `exec` was the same process. The driver has freed its memory.
    let before = slots.clone().position(|slot| slot.identity.load(SeqCst) == own);
    if let Some(ix) = before {
        if let Some(slot) = usage.slots.get(ix) {
            clear(slot);
        }
        return ix as u32 + 1;
    }
    for (ix, slot) in slots.enumerate() {
        if slot.identity.load(Relaxed) == 0
            && slot.identity.compare_exchange(0, own, SeqCst, Relaxed).is_ok()
        {
            usage.n_slots.fetch_max(ix as u32 + 1, SeqCst);
            return ix as u32 + 1;
        }
    }
    usage.flags.fetch_or(FLAG_NO_SLOT, SeqCst);
    0
}

fn clear(slot: &Slot) {
    for word in [&slot.flags, &slot.in_flight, &slot.waiting] {
        word.store(0, SeqCst);
    }
    for word in &slot.used {
        word.store(0, SeqCst);
    }
}

/// The start time of this process in clock ticks since boot; field 22 of its `stat`.
fn start_time() -> u64 {
    let mut text = [0; 1024];
    let n_bytes = Descriptor::open(c"/proc/self/stat", false).map_or(0, |it| it.read(&mut text));
    let text = text.get(..n_bytes).unwrap_or(&[]);
    // The name is in parentheses and may contain anything.
    let Some(end) = text.iter().rposition(|byte| *byte == b')') else { return 0 };
    let rest = text.get(end..).unwrap_or(&[]);
    let field = rest.split(|byte| *byte == b' ').nth(20).unwrap_or(&[]);
    let digits = field.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |sum: u64, digit| {
        sum.wrapping_mul(10).wrapping_add(u64::from(digit.wrapping_sub(b'0')))
    })
}
