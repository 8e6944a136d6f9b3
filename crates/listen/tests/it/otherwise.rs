//! Hypothetical changes written as text: `project red guaranteed=8`, `drain n3`. Each becomes the
//! command that a user would send, so it is refused for the same reasons.

use gpool_listen::testing::{FORMS, added, read};
use gpool_model::{Bytes, Refusal};

fn why(text: &str) -> String {
    match read(&[text.to_owned()]) {
        Err(Refusal::Invalid { why, .. }) => why,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn every_example_is_understood() {
    for (verb, example) in FORMS {
        let read = read(&[example.to_owned()]);
        assert!(read.is_ok(), "{verb}: {read:?}");
    }
}

#[test]
fn what_is_none_is_refused_with_what_there_is_and_the_nearest() {
    let said = why("projct red gpus=1");
    assert!(said.contains("the choices are project, drain"), "{said}");
    assert!(said.contains("did you mean \"project red guaranteed=8\"?"), "{said}");
    for text in ["", "  ", "explode", "drain", "cancel x", "priority 7", "add 2 nodes"] {
        assert!(!why(text).is_empty(), "{text}");
    }
    assert!(why("add 0 nodes x 8 h100").contains("not a number from 1 to"));
    assert!(why("submit n=0").contains("not a number"));
    let read = read(&["project red guaranted=8".to_owned()]);
    assert!(format!("{read:?}").contains("guarant") || read.is_err(), "{read:?}");
}

#[test]
fn added_nodes_have_devices_like_those_there_are_or_say_their_memory() {
    let like = added(&[], 1, 2, "h100-80G").unwrap();
    assert_eq!((like.devices.len(), like.devices[0].memory), (2, Bytes::from_gib(80)));
    assert!(added(&[], 1, 2, "h100").is_err());
    let more = added(std::slice::from_ref(&like), 1, 1, "h100").unwrap();
    assert_eq!(more.devices[0].memory, Bytes::from_gib(80));
    assert_ne!(more.name, like.name);
}
