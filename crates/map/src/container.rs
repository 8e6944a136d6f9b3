//! Workers in containers. The image has no gpool, and perhaps another C library: the container gets
//! the program with the libraries that it is linked to, read-only, and starts it by their loader.
//! The user's program uses the libraries of the image.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The folder in the container.
const FOLDER: &str = "/.gpool";
/// Libraries that the program may need, by the names in its header. The last three are part of the
/// first one since glibc 2.34.
const LIBRARIES: &[&str] =
    &["libc.so.6", "libm.so.6", "libgcc_s.so.1", "libdl.so.2", "libpthread.so.0", "librt.so.1"];

/// What a container needs to run this program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carried {
    /// Mounts, as of `--mount`.
    pub mounts: Vec<String>,
    /// The command that starts the program.
    pub words: Vec<String>,
}

/// Finds the libraries of this process.
///
/// # Errors
/// They can't be listed.
pub fn carried(program: &str) -> io::Result<Carried> {
    Ok(carried_with(program, &fs::read_to_string("/proc/self/maps")?))
}

/// The same, with the mappings of the process.
/// Source: proc_pid_maps(5); ld.so(8), `--library-path`.
#[must_use]
pub fn carried_with(program: &str, mappings: &str) -> Carried {
    let files: BTreeSet<&Path> =
        mappings.lines().filter_map(|line| Some(Path::new(&line[line.find('/')?..]))).collect();
    let is_loader = |path: &&&Path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("ld-") && name.contains(".so")
    };
    let mount = |source: &Path, name: &str| format!("{}:{FOLDER}/{name}:ro", source.display());
    let own = format!("{FOLDER}/gpool");
    let mut mounts = vec![mount(Path::new(program), "gpool")];
    let Some(loader) = files.iter().find(is_loader) else {
        return Carried { mounts, words: vec![own] };
    };
    mounts.push(mount(loader, "ld.so"));
    // The mappings have the files behind symbolic links, such as `libc-2.31.so`.
    let folders: BTreeSet<&Path> = files.iter().filter_map(|path| path.parent()).collect();
    for name in LIBRARIES {
        let places = folders.iter().map(|folder| folder.join(name));
        let found: Option<PathBuf> = places.into_iter().find_map(|path| path.canonicalize().ok());
        mounts.extend(found.map(|path| mount(&path, name)));
    }
    let loader = [&format!("{FOLDER}/ld.so"), "--library-path", FOLDER].map(str::to_owned);
    Carried { mounts, words: loader.into_iter().chain([own]).collect() }
}
