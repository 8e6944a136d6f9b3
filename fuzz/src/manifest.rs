//! Manifests and bundles of objects, which any user may send, and patterns of results.

use gpool_files::{Kind, Manifest, Patterns, bundle, check_path};

use crate::input::{choose, is_said, text};

/// An accepted manifest stays in its folder, and is read again as it was.
pub fn check(input: &[u8]) {
    match choose(input, 3) {
        Some((0, rest)) => read_manifest(rest),
        Some((1, rest)) => read_bundle(rest),
        Some((_, rest)) => read_patterns(rest),
        None => {}
    }
}

fn read_manifest(bytes: &[u8]) {
    let manifest = match Manifest::read(bytes) {
        Ok(manifest) => manifest,
        Err(error) => return is_said(&error.to_string()),
    };
    assert_eq!(Manifest::read(&manifest.bytes()).as_ref(), Ok(&manifest));
    assert!(manifest.n_files() <= manifest.entries().len());
    for entry in manifest.entries() {
        check_path(&entry.path).expect("an accepted path is allowed");
        if let Kind::Link(target) = &entry.kind {
            let n_up = target.split('/').filter(|part| *part == "..").count();
            assert!(n_up < entry.path.split('/').count(), "{entry:?} leaves the folder");
            assert!(!target.starts_with('/'), "{entry:?} leaves the folder");
        }
    }
}

fn read_bundle(bytes: &[u8]) {
    match bundle::objects(bytes) {
        Ok(objects) => {
            let mut again = Vec::new();
            objects.iter().for_each(|object| bundle::push(&mut again, object));
            assert_eq!(again, bytes);
        }
        Err(error) => is_said(&error.to_string()),
    }
}

fn read_patterns(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let patterns: Vec<String> = text.lines().map(str::to_owned).collect();
    if let Err(why) = Patterns::new(&patterns) {
        is_said(&why);
    }
}
