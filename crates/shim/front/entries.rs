//! The exported symbols. In the usual state, an entry reads one word and jumps through the table.
//! The word says that the table is not filled yet, or that the devices are released; then the entry
//! goes through [`start::enter`].

use core::arch::naked_asm;
use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize};

use crate::layout::GATE_RELEASED;
use crate::start;

/// The target of each entry.
pub static TABLE: [AtomicUsize; N] = [const { AtomicUsize::new(0) }; N];
/// The driver's functions; 0 if the driver does not have one.
pub static DRIVER: [AtomicUsize; N] = [const { AtomicUsize::new(0) }; N];

/// Points to the word with [`GATE_RELEASED`].
pub static GATE: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const NOT_STARTED).cast_mut());
/// The word before the table is filled.
static NOT_STARTED: AtomicU32 = AtomicU32::new(GATE_RELEASED);
/// The word of a program without ledger.
pub static OPEN: AtomicU32 = AtomicU32::new(0);

macro_rules! entry {
    ($name:ident, $ix:literal) => {
        #[allow(non_snake_case)]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            naked_asm!(
                "endbr64",
                "mov r11, qword ptr [rip + {gate}]",
                "test byte ptr [r11], {released}",
                "jne 2f",
                "jmp qword ptr [rip + {table} + {offset}]",
                "2:",
                "mov r11d, {ix}",
                "jmp {slow}",
                gate = sym GATE,
                released = const GATE_RELEASED,
                table = sym TABLE,
                offset = const $ix * 8,
                ix = const $ix,
                slow = sym slow,
            )
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/symbols.rs"));

/// Saves the arguments of a call, asks for its target, and jumps there. The number of the entry is
/// in `r11`.
#[unsafe(naked)]
unsafe extern "C" fn slow() {
    naked_asm!(
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "push rax",
        "sub rsp, 128",
        "movups [rsp], xmm0",
        "movups [rsp + 16], xmm1",
        "movups [rsp + 32], xmm2",
        "movups [rsp + 48], xmm3",
        "movups [rsp + 64], xmm4",
        "movups [rsp + 80], xmm5",
        "movups [rsp + 96], xmm6",
        "movups [rsp + 112], xmm7",
        "mov edi, r11d",
        "call {enter}",
        "mov r11, rax",
        "movups xmm0, [rsp]",
        "movups xmm1, [rsp + 16]",
        "movups xmm2, [rsp + 32]",
        "movups xmm3, [rsp + 48]",
        "movups xmm4, [rsp + 64]",
        "movups xmm5, [rsp + 80]",
        "movups xmm6, [rsp + 96]",
        "movups xmm7, [rsp + 112]",
        "add rsp, 128",
        "pop rax",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "jmp r11",
        enter = sym start::enter,
    )
}
