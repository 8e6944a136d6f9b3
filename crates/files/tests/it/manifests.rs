//! Hostile manifests are refused, and good ones are read again as they were.

use gpool_files::{Entry, Kind, MANIFEST_MAX, Manifest, ObjectId, bundle, check_path};
use proptest::prelude::*;
use serde_json::json;

fn read(entries: &serde_json::Value) -> Result<Manifest, String> {
    let text = json!({"version": 1, "entries": entries}).to_string();
    Manifest::read(text.as_bytes()).map_err(|error| error.to_string())
}

#[track_caller]
fn refused(entries: &serde_json::Value, why: &str) {
    let error = read(entries).unwrap_err();
    assert!(error.contains(why), "{error}");
}

fn file(path: &str) -> serde_json::Value {
    json!({"path": path, "kind": {"file": {"mode": 0o644, "size": 0, "parts": []}}})
}

fn link(path: &str, target: &str) -> serde_json::Value {
    json!({"path": path, "kind": {"link": target}})
}

fn folder(path: &str) -> serde_json::Value {
    json!({"path": path, "kind": {"folder": 0o755}})
}

#[test]
fn a_path_that_leaves_its_folder_is_refused() {
    for path in ["/etc/passwd", "../x", "a/../b", "a/./b", "a//b", "", "a/", ".", "..", "a\0b"] {
        refused(&json!([file(path)]), "not allowed");
        assert!(check_path(path).is_err(), "{path:?}");
    }
    refused(&json!([file(&"a".repeat(256))]), "255 bytes");
    refused(&json!([file(&"a/".repeat(3000))]), "bytes");
    assert!(read(&json!([file("a"), file("a-b"), folder("c"), file("c/..d")])).is_ok());
}

#[test]
fn a_link_that_leaves_its_folder_is_refused() {
    let out = ["/etc", "..", "../x", "", "a/../../..", "./../x", "//x", "x/.."];
    for target in out {
        refused(&json!([link("l", target)]), "leaves the folder");
    }
    // Inside a folder, one step up is inside too; after a name it may be elsewhere.
    assert!(read(&json!([folder("d"), link("d/l", "../x")])).is_ok());
    refused(&json!([folder("d"), link("d/l", "../../x")]), "leaves the folder");
    refused(&json!([folder("d"), link("d/l", "x/../..")]), "leaves the folder");
    assert!(read(&json!([link("l", "a/b/c"), link("m", "./a")])).is_ok());
}

#[test]
fn nothing_is_inside_a_link_or_a_file() {
    refused(&json!([link("l", "x"), file("l/passwd")]), "which is no folder");
    refused(&json!([file("f"), file("f/x")]), "which is no folder");
    refused(&json!([folder("d"), link("d/l", "x"), file("d/l/a/b")]), "which is no folder");
}

#[test]
fn other_forms_are_refused() {
    refused(&json!([file("b"), file("a")]), "not in order");
    refused(&json!([file("a"), file("a")]), "twice");
    let kind = |kind: serde_json::Value| json!([{"path": "a", "kind": kind}]);
    refused(&kind(json!({"file": {"mode": 0o4755, "size": 0, "parts": []}})), "permissions");
    refused(&kind(json!({"folder": 0o1777})), "permissions");
    refused(&kind(json!({"file": {"mode": 0, "size": 1, "parts": []}})), "in 0 parts");
    refused(&kind(json!({"file": {"mode": 0, "size": u64::MAX, "parts": []}})), "in 0 parts");
    refused(&kind(json!({"file": {"mode": 0, "size": 1, "parts": ["../../etc"]}})), "object");
    refused(&kind(json!({"device": "/dev/sda"})), "can't be read");
    let newer = json!({"version": 2, "entries": []}).to_string();
    assert!(Manifest::read(newer.as_bytes()).is_err());
    assert!(Manifest::read(&vec![b' '; MANIFEST_MAX + 1]).is_err());
    assert!(Manifest::read(b"[").is_err());
}

#[test]
fn sizes_add_up_without_overflow() {
    let part = ObjectId::of(b"x").to_string();
    let entries = json!([
        {"path": "a", "kind": {"file": {"mode": 0, "size": 1, "parts": [part]}}},
        {"path": "b", "kind": {"file": {"mode": 0, "size": 1, "parts": [part]}}},
    ]);
    let manifest = read(&entries).unwrap();
    assert_eq!((manifest.n_bytes(), manifest.n_files(), manifest.parts().count()), (2, 2, 2));
}

fn any_entries() -> impl Strategy<Value = Vec<Entry>> {
    let name = "[a-c.]{1,3}(/[a-c.]{1,3}){0,2}";
    let kind = prop_oneof![
        (0_u32..0o1000).prop_map(Kind::Folder),
        (0_u32..0o1000).prop_map(|mode| Kind::File { mode, size: 0, parts: Vec::new() }),
        "[a-c./]{0,6}".prop_map(Kind::Link),
    ];
    let entry = (name, kind).prop_map(|(path, kind)| Entry { path, kind });
    proptest::collection::vec(entry, 0..6)
}

proptest! {
    #[test]
    fn an_accepted_manifest_stays_in_its_folder(entries in any_entries()) {
        let Ok(manifest) = Manifest::new(entries, Vec::new()) else { return Ok(()) };
        prop_assert_eq!(&Manifest::read(&manifest.bytes()).unwrap(), &manifest);
        let folder = tempfile::tempdir().unwrap();
        let into = folder.path().join("inside");
        let mut fetch = |_: &ObjectId| Err(std::io::ErrorKind::NotFound.into());
        gpool_files::tree::build(&manifest, &into, None, &mut fetch).unwrap();
        // Every link that leads to something leads into the folder.
        let root = into.canonicalize().unwrap();
        for entry in manifest.entries() {
            if let Ok(real) = into.join(&entry.path).canonicalize() {
                prop_assert!(real.starts_with(&root), "{:?} leads to {:?}", entry, real);
            }
        }
        let outside = std::fs::read_dir(folder.path()).unwrap().count();
        prop_assert_eq!(outside, 1);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        drop(Manifest::read(&bytes));
        drop(bundle::objects(&bytes));
    }

    #[test]
    fn a_bundle_has_its_objects(objects in proptest::collection::vec(any::<Vec<u8>>(), 0..5)) {
        let mut bytes = Vec::new();
        objects.iter().for_each(|object| bundle::push(&mut bytes, object));
        prop_assert_eq!(bundle::objects(&bytes).unwrap(), objects.clone());
        if !objects.is_empty() {
            prop_assert!(bundle::objects(&bytes[..bytes.len() - 1]).is_err());
        }
    }
}
