//! The binary in a package: its version, architecture, and the libraries that it needs.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::output;
use crate::step;

pub struct Program {
    pub path: PathBuf,
    /// As `gpool --version` prints it, without the commit.
    pub version: String,
    /// The name that Debian and OCI have for it.
    pub architecture: &'static str,
    /// The libraries that it is linked to, with the dynamic linker.
    pub libraries: Vec<PathBuf>,
    /// The oldest glibc 2 that has all its symbols: 36 for 2.36.
    pub glibc: u32,
}

impl Program {
    /// Reads a binary of gpool.
    ///
    /// # Errors
    /// It is missing, another program, or of an unknown architecture.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let remedy = "try  cargo build --bin gpool && cargo xtask package --binary \
                      target/debug/gpool";
        let header = match header(path) {
            Ok(header) => header,
            Err(error) => bail!("can't read the binary {shown}: {error}\n  {remedy}"),
        };
        let Some(architecture) = architecture(&header) else {
            bail!("{shown} is no Linux program for x86-64 or Arm with 64 bits\n  {remedy}");
        };
        let said = output(&mut step::command(path, &["--version"])).unwrap_or_default();
        let Some(version) = said.strip_prefix("gpool ").and_then(|it| it.split_whitespace().next())
        else {
            bail!("{shown} is not gpool: --version prints {:?}\n  {remedy}", said.trim());
        };
        let Ok(linked) = output(step::command("ldd", &[]).arg(path)) else {
            bail!("{shown} is not linked to glibc\n  {remedy}");
        };
        // The libraries that the binary holds for jobs count, too.
        let pattern = ["--text", "--only-matching", r"GLIBC_2\.[0-9]*"];
        let glibc = glibc(&output(step::command("grep", &pattern).arg(path))?)?;
        let version = version.to_owned();
        let libraries = libraries(&linked)?;
        Ok(Self { path: path.to_owned(), version, architecture, libraries, glibc })
    }
}

/// The first bytes of a file.
fn header(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(20).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The architecture of an ELF file. Source: elf(5).
fn architecture(header: &[u8]) -> Option<&'static str> {
    // A shorter file is no program.
    let header: &[u8; 20] = header.try_into().ok()?;
    let is_64_bit_little_endian = header[4..6] == [2, 1];
    if !header.starts_with(b"\x7fELF") || !is_64_bit_little_endian {
        return None;
    }
    match u16::from_le_bytes([header[18], header[19]]) {
        62 => Some("amd64"),
        183 => Some("arm64"),
        _ => None,
    }
}

/// The newest of these versions of symbols.
fn glibc(symbols: &str) -> anyhow::Result<u32> {
    let minor = |line: &str| line.strip_prefix("GLIBC_2.")?.parse().ok();
    symbols.lines().filter_map(minor).max().context("the binary needs no symbol of glibc")
}

/// The files in the output of ldd(1).
fn libraries(linked: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for line in linked.lines().map(str::trim).filter(|line| !line.starts_with("linux-vdso")) {
        if line.ends_with("not found") {
            bail!("a library of the binary is missing: {line}");
        }
        let path = line.rsplit_once("=> ").map_or(line, |(_, path)| path);
        let path = path.split(" (").next().unwrap_or(path);
        if path.starts_with('/') {
            found.push(PathBuf::from(path));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_symbols_are_found() {
        let linked = "\tlinux-vdso.so.1 (0x7ffd)\n\
                      \tlibgcc_s.so.1 => /lib/x86_64-linux-gnu/libgcc_s.so.1 (0x7f)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x7f)\n";
        let expected = ["/lib/x86_64-linux-gnu/libgcc_s.so.1", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(libraries(linked).unwrap(), expected.map(PathBuf::from));
        assert!(libraries("\tlibm.so.6 => not found\n").is_err());
        assert_eq!(glibc("GLIBC_2.2\nGLIBC_2.34\nGLIBC_2.4\nGLIBC_2.\n").unwrap(), 34);
        assert!(architecture(b"#!/bin/sh\nexit 0\n\n\n\n").is_none());
    }
}
