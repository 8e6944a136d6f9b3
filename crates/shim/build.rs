//! Compiles the shim, two C libraries without dependencies, so that `src/lib.rs` can embed them.
//! Cargo can't embed a library that it builds itself.

#![allow(clippy::unwrap_used)] // A failure ends the build.

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Calls that use a device, by the beginning of their names. They wait while it is released.
const WORK: &[&str] = &[
    "cuArray3DCreate",
    "cuArrayCreate",
    "cuCtxCreate",
    "cuCtxSynchronize",
    "cuDevicePrimaryCtxRetain",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuGraphLaunch",
    "cuGraphUpload",
    "cuInit",
    "cuLaunch",
    "cuLibraryLoad",
    "cuMemAlloc",
    "cuMemCreate",
    "cuMemFree",
    "cuMemMap",
    "cuMemPrefetch",
    "cuMemUnmap",
    "cuMemcpy",
    "cuMemset",
    "cuMipmappedArrayCreate",
    "cuModuleLoad",
    "cuStreamBatchMemOp",
    "cuStreamSynchronize",
    "cuStreamWait",
    "cuStreamWrite",
];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(has_shim)");
    for input in ["build.rs", "front", "../ledger/src/layout.rs"] {
        println!("cargo::rerun-if-changed={input}");
    }
    let target = env::var("TARGET").unwrap();
    // The entry points are assembly, and the driver's library exists for glibc only.
    if target != "x86_64-unknown-linux-gnu" {
        return;
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    compile(&out.join("cuda"), &target, "front/lib.rs", "libcuda.so.1", "cuda");
    compile(&out.join("nvml"), &target, "front/nvml.rs", "libnvidia-ml.so.1", "nvml");
    println!("cargo::rustc-cfg=has_shim");
}

/// The tables of all symbols as Rust source.
fn symbols(list: &str) -> String {
    let names: Vec<&str> = list.lines().collect();
    let mut source = String::new();
    let n = names.len();
    writeln!(source, "pub const N: usize = {n};\npub static NAMES: [&CStr; N] = [").unwrap();
    for name in &names {
        writeln!(source, "    c\"{name}\",").unwrap();
    }
    writeln!(source, "];\npub static IS_WORK: [bool; N] = [").unwrap();
    for name in &names {
        let is_work = WORK.iter().any(|beginning| name.starts_with(beginning));
        writeln!(source, "    {is_work},").unwrap();
    }
    writeln!(source, "];\npub static ENTRIES: [unsafe extern \"C\" fn(); N] = [").unwrap();
    for name in &names {
        writeln!(source, "    {name},").unwrap();
    }
    writeln!(source, "];\n#[allow(dead_code)]\npub mod ix {{").unwrap();
    for (ix, name) in names.iter().enumerate() {
        writeln!(source, "    pub const {name}: usize = {ix};").unwrap();
    }
    writeln!(source, "}}").unwrap();
    for (ix, name) in names.iter().enumerate() {
        writeln!(source, "entry!({name}, {ix});").unwrap();
    }
    source
}

/// Compiles with the compiler of this build, but none of its flags: they are for another program.
fn compile(out: &Path, target: &str, root: &str, name: &str, driver: &str) {
    let list = fs::read_to_string(format!("front/{driver}-symbols.txt")).unwrap();
    fs::create_dir_all(out).unwrap();
    fs::write(out.join("symbols.rs"), symbols(&list)).unwrap();
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap());
    rustc.arg(format!("--crate-name=gpool_{driver}_front"));
    rustc.args(["--crate-type=cdylib", "--edition=2024"]);
    rustc.args(["--target", target, "-Copt-level=3", "-Cpanic=abort", "-Ccodegen-units=1"]);
    rustc.args(["-Cstrip=debuginfo", "--cap-lints=warn"]);
    // The program may close the library and still hold functions of it.
    for argument in [&format!("-Wl,-soname,{name}"), "-Wl,-z,nodelete", "-Wl,-z,defs"] {
        rustc.arg(format!("-Clink-arg={argument}"));
    }
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut argument = std::ffi::OsString::from("-Clinker=");
        argument.push(linker);
        rustc.arg(argument);
    }
    rustc.env("OUT_DIR", out).arg("-o").arg(out.join(name)).arg(root);
    assert!(rustc.status().unwrap().success(), "the shim can't be compiled");
}
