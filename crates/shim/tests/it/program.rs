//! A program in Rust: this test binary, started again by [`command`].

use std::ffi::{CString, c_void};
use std::io::BufRead;
use std::process::Command;

const MARK: &str = "GPOOL_SHIM_TEST_PROGRAM";

/// The command that starts this binary as a program.
pub fn command() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "program::main", "--nocapture", "--quiet"]).env(MARK, "1");
    command
}

/// A function of the driver. `F` is its type.
fn function<F: Copy>(library: *mut c_void, name: &str) -> F {
    let name = CString::new(name).unwrap();
    // SAFETY: a loaded library, and callers know the type of the symbol.
    unsafe {
        let found = libc::dlsym(library, name.as_ptr());
        assert!(!found.is_null() && size_of::<F>() == size_of::<usize>());
        std::mem::transmute_copy(&found)
    }
}

#[test]
fn main() {
    if std::env::var_os(MARK).is_none() {
        return;
    }
    // SAFETY: a C string.
    let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
    let init: unsafe extern "C" fn(u32) -> i32 = function(library, "cuInit");
    let retain: unsafe extern "C" fn(&mut u64, i32) -> i32 =
        function(library, "cuDevicePrimaryCtxRetain");
    let select: unsafe extern "C" fn(u64) -> i32 = function(library, "cuCtxSetCurrent");
    let allocate: unsafe extern "C" fn(&mut u64, usize) -> i32 = function(library, "cuMemAlloc_v2");
    // After the words of the test harness.
    println!("\nready");
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let mut words = line.split(' ');
        let (word, number) = (words.next().unwrap(), words.next().and_then(|it| it.parse().ok()));
        let (mut out, number) = (0, number.unwrap_or(0_usize));
        // SAFETY: the driver's functions, with their types.
        let code = unsafe {
            match word {
                "init" => init(0),
                "context" => match retain(&mut out, i32::try_from(number).unwrap()) {
                    0 => select(out),
                    code => code,
                },
                _ => allocate(&mut out, number),
            }
        };
        println!("{code} {out}");
    }
}
