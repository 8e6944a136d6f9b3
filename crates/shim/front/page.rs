//! The two files of the ledger, mapped. A page that the agent removes stays mapped.

use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicPtr, AtomicU64};
use core::sync::atomic::Ordering::{Acquire, Release, SeqCst};

use crate::kernel::{Descriptor, variable};
use crate::layout::{
    DEVICES_MAX, Device, FOLDER_VARIABLE, GRANTS_FILE, GRANTS_MAGIC, Grants, SLOTS_MAX, USAGE_FILE,
    USAGE_MAGIC, UsageFile, VERSION,
};

static GRANTS: AtomicPtr<Grants> = AtomicPtr::new(core::ptr::null_mut());
static USAGE: AtomicPtr<UsageFile> = AtomicPtr::new(core::ptr::null_mut());

/// A path of the longest length that a socket can have, and its zero.
pub const PATH_MAX: usize = 108;

/// The limits; `None` without ledger.
pub fn grants() -> Option<&'static Grants> {
    // SAFETY: null, or a mapping of this size that stays.
    unsafe { GRANTS.load(Acquire).as_ref() }
}

/// The memory of the processes; `None` without ledger.
pub fn usage() -> Option<&'static UsageFile> {
    // SAFETY: null, or a mapping of this size that stays.
    unsafe { USAGE.load(Acquire).as_ref() }
}

/// The limits on a device.
pub fn device(ix: usize) -> Option<&'static Device> {
    let grants = grants()?;
    let n_devices = (grants.n_devices.load(Acquire) as usize).min(DEVICES_MAX);
    grants.devices.get(ix).filter(|_| ix < n_devices)
}

/// The place of a device in the ledger.
pub fn find(uuid: [u64; 2]) -> Option<usize> {
    (0..DEVICES_MAX).find(|ix| {
        let words = device(*ix).map(|it| it.uuid.each_ref());
        words.is_some_and(|words| words.map(|word| word.load(Acquire)) == uuid)
    })
}

/// The devices that the environment of the job names, and the devices that they stand for, if the
/// job was moved.
pub fn renamed() -> impl Iterator<Item = ([u64; 2], [u64; 2])> {
    all().filter(|(named, uuid)| named != uuid && *named != [0; 2])
}

/// Whether the job was moved, and left the device with this UUID or never had it.
pub fn is_left(uuid: [u64; 2]) -> bool {
    renamed().next().is_some() && all().all(|(_, it)| it != uuid)
}

/// The names and the UUIDs of the devices, also of those without limits.
fn all() -> impl Iterator<Item = ([u64; 2], [u64; 2])> {
    let words = |words: &[AtomicU64; 2]| words.each_ref().map(|word| word.load(Acquire));
    let of = |grants: &'static Grants| {
        let n = [&grants.n_devices, &grants.n_unlimited].map(|it| it.load(Acquire) as usize);
        grants.devices.iter().take(n[0].saturating_add(n[1]))
    };
    let all = grants().map(of).into_iter().flatten();
    all.map(move |it| (words(&it.named), words(&it.uuid)))
}

/// A UUID as in the ledger.
pub fn words(uuid: &[u8; 16]) -> [u64; 2] {
    let mut words = [0; 2];
    for (to, from) in words.iter_mut().zip(uuid.as_chunks::<8>().0) {
        *to = u64::from_le_bytes(*from);
    }
    words
}

/// Bytes that all processes of the job have on a device.
#[inline]
pub fn total(usage: &UsageFile, device: usize) -> u64 {
    let slots = usage.slots.iter().take(n_slots(usage));
    slots.fold(0, |sum: u64, slot| {
        sum.saturating_add(slot.used.get(device).map_or(0, |used| used.load(SeqCst)))
    })
}

/// Slots that were ever used.
fn n_slots(usage: &UsageFile) -> usize {
    (usage.n_slots.load(Acquire) as usize).min(SLOTS_MAX)
}

/// Maps the files; returns whether there is a usable ledger.
pub fn map(writes: bool) -> bool {
    let grants = file(GRANTS_FILE, size_of::<Grants>(), false).cast::<Grants>();
    let usage = file(USAGE_FILE, size_of::<UsageFile>(), writes).cast::<UsageFile>();
    // SAFETY: null, or mappings of these sizes.
    let (Some(limits), Some(slots)) = (unsafe { (grants.as_ref(), usage.as_ref()) }) else {
        return false;
    };
    let is_usable = limits.magic.load(Acquire) == GRANTS_MAGIC
        && limits.version.load(Acquire) == VERSION
        && slots.magic.load(Acquire) == USAGE_MAGIC
        && slots.version.load(Acquire) == VERSION;
    if is_usable {
        USAGE.store(usage, Release);
        GRANTS.store(grants, Release);
    }
    is_usable
}

/// Maps a file of the ledger; null if it is missing or too short.
fn file(name: &str, size: usize, writes: bool) -> *mut u8 {
    let mut path = [0; PATH_MAX];
    let found = path_of(&mut path, name).and_then(|path| Descriptor::open(path, writes));
    match found {
        Some(file) if file.size() >= size => file.map(size, writes),
        _ => core::ptr::null_mut(),
    }
}

/// The path of a file of the ledger; `None` without ledger, or if the path is too long.
pub fn path_of<'b>(buffer: &'b mut [u8; PATH_MAX], name: &str) -> Option<&'b CStr> {
    // The variable's name is short.
    let mut variable_name = [0_u8; 32];
    for (to, from) in variable_name.iter_mut().zip(FOLDER_VARIABLE.bytes()) {
        *to = from;
    }
    let folder = variable(CStr::from_bytes_until_nul(&variable_name).ok()?)?;
    join(buffer, folder.to_bytes(), name.as_bytes())
}

pub fn join<'b>(buffer: &'b mut [u8], folder: &[u8], name: &[u8]) -> Option<&'b CStr> {
    let n_bytes = folder.len().checked_add(name.len())?.checked_add(2)?;
    if folder.is_empty() || n_bytes > buffer.len() {
        return None;
    }
    let parts = folder.iter().chain(b"/").chain(name).chain(b"\0");
    for (to, from) in buffer.iter_mut().zip(parts) {
        *to = *from;
    }
    // SAFETY: the buffer holds a zero.
    Some(unsafe { CStr::from_ptr(buffer.as_ptr().cast::<c_char>()) })
}
