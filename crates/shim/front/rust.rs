//! Functions that the language requires of a library without its standard library.

// The compiled `core` refers to this function of unwinding, which never happens here. Hidden, so
// that it replaces no program's own.
core::arch::global_asm!(
    ".hidden rust_eh_personality",
    ".globl rust_eh_personality",
    "rust_eh_personality: ud2",
);

/// The text that the test looks for: it is only in the library if a panic is.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    crate::kernel::die(b"gpool shim: panic\n")
}
