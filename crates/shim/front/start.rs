//! The first call: loads the driver, maps the ledger and fills the table.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::entries::{DRIVER, GATE, IS_WORK, OPEN, TABLE};
use crate::{driver, kernel, library};

/// 0: not started; 1: a thread starts; 2: started.
static STAGE: AtomicU32 = AtomicU32::new(0);
/// The thread that starts.
static STARTER: AtomicU32 = AtomicU32::new(0);

/// The target of an entry, for calls before the table is filled and while devices are released.
pub unsafe extern "C" fn enter(ix: u32) -> usize {
    let ix = ix as usize;
    start();
    if IS_WORK.get(ix).copied().unwrap_or(false) {
        library::before_work();
    }
    match TABLE.get(ix).map_or(0, |word| word.load(Acquire)) {
        // The driver calls while it is being loaded.
        0 => library::without_driver(ix),
        target => target,
    }
}

fn start() {
    match STAGE.compare_exchange(0, 1, Acquire, Acquire) {
        Ok(_) => {
            STARTER.store(kernel::thread_id(), Release);
            fill();
            STAGE.store(2, Release);
        }
        Err(1) => {
            while STAGE.load(Acquire) == 1 && STARTER.load(Acquire) != kernel::thread_id() {
                kernel::give_way();
            }
        }
        Err(_) => {}
    }
}

fn fill() {
    let has_driver = driver::find();
    let has_ledger = has_driver && library::prepare();
    for (ix, word) in TABLE.iter().enumerate() {
        let function = DRIVER.get(ix).map_or(0, |word| word.load(Relaxed));
        let replacement = if has_ledger && function != 0 { library::replacement(ix) } else { None };
        let target = match (replacement, function) {
            (Some(replacement), _) => replacement,
            (None, 0) if has_driver => library::without_symbol(ix),
            (None, 0) => library::without_driver(ix),
            (None, function) => function,
        };
        word.store(target, Release);
    }
    let gate = library::gate().filter(|_| has_ledger);
    GATE.store(core::ptr::from_ref(gate.unwrap_or(&OPEN)).cast_mut(), Release);
}
