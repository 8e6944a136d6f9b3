//! What a container gets to run a worker.

use std::fs;
use std::os::unix::fs::symlink;

use gpool_map::container::{carried, carried_with};

#[test]
fn libraries_have_the_names_that_the_loader_looks_for() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    for (file, name) in [("libc-2.31.so", "libc.so.6"), ("libm-2.31.so", "libm.so.6")] {
        fs::write(folder.join(file), "").unwrap();
        symlink(file, folder.join(name)).unwrap();
    }
    let folder = folder.display().to_string();
    let mappings = format!(
        "7f0 r--p 0 08:01 1    {folder}/libc-2.31.so\n7f1 r--p 0 08:01 2    \
         {folder}/ld-2.31.so\n7f2 rw-p 0 00:00 0\n7f3 rw-p 0 00:00 0    [heap]\n"
    );
    let carried = carried_with("/usr/bin/gpool", &mappings);
    let mounts = [
        "/usr/bin/gpool:/.gpool/gpool:ro".to_owned(),
        format!("{folder}/ld-2.31.so:/.gpool/ld.so:ro"),
        format!("{folder}/libc-2.31.so:/.gpool/libc.so.6:ro"),
        format!("{folder}/libm-2.31.so:/.gpool/libm.so.6:ro"),
    ];
    assert_eq!(carried.mounts, mounts);
    assert_eq!(carried.words, ["/.gpool/ld.so", "--library-path", "/.gpool", "/.gpool/gpool"]);
}

#[test]
fn a_program_without_libraries_needs_no_loader() {
    let carried = carried_with("/bin/gpool", "400000 r-xp 0 08:01 1    /bin/gpool\n");
    assert_eq!(carried.words, ["/.gpool/gpool"]);
    assert_eq!(carried.mounts, ["/bin/gpool:/.gpool/gpool:ro"]);
}

#[test]
fn the_libraries_of_this_process_are_found() {
    let carried = carried("/bin/gpool").unwrap();
    let has_libc = carried.mounts.iter().any(|it| it.contains(":/.gpool/libc.so.6:ro"));
    assert_eq!(carried.words.len() > 1, has_libc, "{carried:?}");
}
