//! Symbols about contexts, and synchronisation.

use std::sync::atomic::Ordering;

use gpool_stub_state::State;

use crate::allocate::free_all;
use crate::code::{Code, INVALID_CONTEXT, INVALID_VALUE, SUCCESS, give};
use crate::context::{CURRENT, Context, contexts, current};
use crate::driver::{BARE, Session, ask, call, synchronize};
use crate::pool_calls;

fn primary(ordinal: i32) -> u64 {
    u64::try_from(ordinal).map_or(0, |ix| ix + 1)
}

/// Takes the memory that a context needs.
fn overhead(session: &mut Session, state: &State, ordinal: i32) -> Result<(), Code> {
    let device = session.device(ordinal)?;
    session.take(state, device, state.cuda.context)
}

fn give_overhead_back(session: &mut Session, state: &State, ordinal: i32) -> Result<(), Code> {
    let device = session.device(ordinal)?;
    session.give_back(device, state.cuda.context)
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRetain(context: Option<&mut u64>, device: i32) -> Code {
    call("cuDevicePrimaryCtxRetain", |session, state| {
        let handle = primary(device);
        let n_retained = contexts().get(&handle).map_or(0, |context| context.n_retained);
        if n_retained == 0 {
            overhead(session, state, device)?;
        }
        contexts().insert(handle, Context { ordinal: device, n_retained: n_retained + 1 });
        give(context, handle)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(device: i32) -> Code {
    call("cuDevicePrimaryCtxRelease_v2", |session, state| {
        let mut contexts = contexts();
        let context = contexts.get_mut(&primary(device)).ok_or(INVALID_CONTEXT)?;
        context.n_retained -= 1;
        if context.n_retained == 0 {
            contexts.remove(&primary(device));
            free_all(session, primary(device))?;
            give_overhead_back(session, state, device)?;
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxReset_v2(device: i32) -> Code {
    call("cuDevicePrimaryCtxReset_v2", |session, _| free_all(session, primary(device)))
}

#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxGetState(
    device: i32,
    flags: Option<&mut u32>,
    active: Option<&mut i32>,
) -> Code {
    ask("cuDevicePrimaryCtxGetState", |_, _| {
        give(flags, 0)?;
        give(active, i32::from(contexts().contains_key(&primary(device))))
    })
}

/// Creates a context and makes it current.
fn create(symbol: &str, context: Option<&mut u64>, device: i32) -> Code {
    call(symbol, |session, state| {
        overhead(session, state, device)?;
        let handle = session.memory.handle();
        contexts().insert(handle, Context { ordinal: device, n_retained: 0 });
        CURRENT.set(handle);
        give(context, handle)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxCreate_v2(context: Option<&mut u64>, _flags: u32, device: i32) -> Code {
    create("cuCtxCreate_v2", context, device)
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxCreate_v4(
    context: Option<&mut u64>,
    _parameters: usize,
    _flags: u32,
    device: i32,
) -> Code {
    create("cuCtxCreate_v4", context, device)
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxDestroy_v2(context: u64) -> Code {
    call("cuCtxDestroy_v2", |session, state| {
        let it = contexts().remove(&context).ok_or(INVALID_CONTEXT)?;
        free_all(session, context)?;
        give_overhead_back(session, state, it.ordinal)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(context: u64) -> Code {
    ask("cuCtxSetCurrent", |_, _| {
        if context != 0 && !contexts().contains_key(&context) {
            return Err(INVALID_CONTEXT);
        }
        CURRENT.set(context);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetCurrent(context: Option<&mut u64>) -> Code {
    ask("cuCtxGetCurrent", |_, _| give(context, CURRENT.get()))
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxGetDevice(device: Option<&mut i32>) -> Code {
    // As cheap as the real one, with primary contexts only.
    let bare = BARE.load(Ordering::Relaxed).then(|| i32::try_from(CURRENT.get()).ok()).flatten();
    let ordinal = bare.map_or_else(current, |handle| Ok(handle - 1));
    match (ordinal, device) {
        (Ok(ordinal), Some(device)) => {
            *device = ordinal;
            SUCCESS
        }
        (Err(code), _) => code,
        (Ok(_), None) => INVALID_VALUE,
    }
}

#[unsafe(no_mangle)]
extern "C" fn cuCtxSynchronize() -> Code {
    if BARE.load(Ordering::Relaxed) {
        return SUCCESS;
    }
    synchronize("cuCtxSynchronize", |session, _| pool_calls::trim_all(session))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize(_stream: usize) -> Code {
    if BARE.load(Ordering::Relaxed) {
        return SUCCESS;
    }
    synchronize("cuStreamSynchronize", |session, _| pool_calls::trim_all(session))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamSynchronize_ptsz(stream: usize) -> Code {
    cuStreamSynchronize(stream)
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamQuery(_stream: usize) -> Code {
    synchronize("cuStreamQuery", |_, _| Ok(()))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamQuery_ptsz(stream: usize) -> Code {
    cuStreamQuery(stream)
}

#[unsafe(no_mangle)]
extern "C" fn cuEventQuery(_event: usize) -> Code {
    synchronize("cuEventQuery", |_, _| Ok(()))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamCreate(stream: Option<&mut u64>, _flags: u32) -> Code {
    call("cuStreamCreate", |session, _| give(stream, session.memory.handle()))
}

#[unsafe(no_mangle)]
extern "C" fn cuStreamDestroy_v2(_stream: u64) -> Code {
    call("cuStreamDestroy_v2", |_, _| Ok(()))
}
