//! The start of the driver in a process, which then reads the devices that the process may see.
//! After a move of the job they are others than its environment names, and a running process hands
//! that environment on to its children. So the variable has the new UUIDs during this call only:
//! each child inherits the first ones again, and the ledger has the devices for these. If several
//! threads start the driver at once, the first changes the variable for all.

use core::ffi::CStr;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::SeqCst;

use crate::cuda::NO_DEVICE;
use crate::driver::function;
use crate::entries::ix;
use crate::{kernel, page};

const VARIABLE: &CStr = c"CUDA_VISIBLE_DEVICES";
/// Room for more UUIDs than a ledger has devices.
const LENGTH_MAX: usize = 1024;
/// A shorter word is no UUID, and no beginning of one.
const PREFIX: usize = "GPU-".len();
/// Attempts to see that the variable is changed. A process that was forked in between never sees
/// it.
const LOOKS_MAX: u32 = 100_000;

/// Whether a thread changes the variable, or has changed it.
static CHANGE: AtomicU32 = AtomicU32::new(NONE);
const NONE: u32 = 0;
const BEGUN: u32 = 1;
const DONE: u32 = 2;

type Init = unsafe extern "C" fn(u32) -> u32;

pub unsafe extern "C" fn init(flags: u32) -> u32 {
    let Some(call) = function::<Init>(ix::cuInit) else { return NO_DEVICE };
    if page::renamed().next().is_none() {
        return call(flags);
    }
    if CHANGE.compare_exchange(NONE, BEGUN, SeqCst, SeqCst).is_err() {
        for _ in 0..LOOKS_MAX {
            if CHANGE.load(SeqCst) != BEGUN {
                break;
            }
            core::hint::spin_loop();
        }
        return call(flags);
    }
    let result = init_renamed(call, flags);
    CHANGE.store(NONE, SeqCst);
    result
}

/// Starts the driver with the present names in the variable.
unsafe fn init_renamed(call: Init, flags: u32) -> u32 {
    let value = kernel::variable(VARIABLE).map(CStr::to_bytes);
    let mut before = [0; LENGTH_MAX];
    for (to, from) in before.iter_mut().zip(value.unwrap_or(&[])) {
        *to = *from;
    }
    let mut now = before;
    now.split_mut(|byte| matches!(byte, b',' | 0)).for_each(rename);
    let values = (CStr::from_bytes_until_nul(&before), CStr::from_bytes_until_nul(&now));
    // A value without a zero is too long.
    let (Some(_), (Ok(before), Ok(now))) = (value, values) else { return call(flags) };
    kernel::set_variable(VARIABLE, now);
    CHANGE.store(DONE, SeqCst);
    let result = call(flags);
    kernel::set_variable(VARIABLE, before);
    result
}

/// Replaces the name of a device that the job left, or its beginning, by that of its device now.
fn rename(name: &mut [u8]) {
    let mut all = page::renamed().map(|(named, uuid)| (text(named), uuid));
    let own = all.find(|(named, _)| name.len() > PREFIX && named.starts_with(name));
    if let Some((_, uuid)) = own {
        for (to, from) in name.iter_mut().zip(text(uuid)) {
            *to = from;
        }
    }
}

/// A UUID as the driver writes it.
fn text(uuid: [u64; 2]) -> [u8; 40] {
    let mut text = *b"GPU-00000000-0000-0000-0000-000000000000";
    let digits = uuid.into_iter().flat_map(u64::to_le_bytes).flat_map(|it| [it >> 4, it & 15]);
    let places = text.iter_mut().filter(|byte| **byte == b'0');
    for (to, digit) in places.zip(digits) {
        *to = if digit < 10 { b'0' + digit } else { b'a' + digit - 10 };
    }
    text
}
