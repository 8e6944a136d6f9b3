//! Builds the wheel: the program and the Python client, for any Linux of this processor with glibc
//! 2.17 or newer. maturin builds it, with zig as the compiler and linker, which knows old versions
//! of glibc.

use crate::{need, step};

/// Where the wheel is afterwards.
const FOLDER: &str = "target/wheels";

/// Builds the wheel and prints its folder; returns whether it succeeded.
///
/// # Errors
/// If maturin cannot be installed or started.
pub fn run() -> anyhow::Result<bool> {
    let bin = need::provide_maturin()?;
    let words = ["build", "--release", "--locked", "--zig", "--compatibility", "manylinux2014"];
    let mut build = step::command(bin.join("maturin"), &words);
    build.args(["--out", "../target/wheels"]).current_dir(step::root().join("python"));
    // maturin finds zig as a module of the Python beside it.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [bin].into_iter().chain(std::env::split_paths(&path));
    build.env("PATH", std::env::join_paths(folders)?);
    let is_built = step::succeeds("maturin build", build)?;
    if is_built {
        println!("{FOLDER} has the wheel: pip install {FOLDER}/gpool-*.whl");
    }
    Ok(is_built)
}
