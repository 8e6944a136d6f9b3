//! One decision with everything that it was made from, to be made again elsewhere: records, moment
//! and plan, under a checksum. Environments and scripts are in no record; what else users wrote is
//! left out before the plan is made, so that it can be given to others.

use gpool_journal::case::{Case, CaseError, VERSION, difference};
use gpool_model::{Policy, Revision, Timestamp};
use gpool_world::World;

fn case() -> Case {
    let world = World::new(Policy::fair());
    Case::of(Revision(0), world.records(), Timestamp::new(5)).unwrap()
}

#[test]
fn what_is_written_is_read_and_makes_the_same_plan() {
    let case = case();
    let read = Case::read(&case.file()).unwrap();
    assert_eq!(read, case);
    let made = read.decide().unwrap();
    assert_eq!(difference(read.plan.as_ref().unwrap(), made.plan.as_ref().unwrap()), None);
    assert_eq!(read.judge().unwrap(), Vec::<String>::new());
}

#[test]
fn what_is_cut_or_changed_or_of_others_is_refused() {
    let file = case().file();
    assert_eq!(Case::read(&file[..file.len() / 2]), Err(CaseError::Truncated));
    let text = String::from_utf8(file).unwrap();
    let other = text.replace("\"now\":5", "\"now\":6");
    assert_eq!(Case::read(other.as_bytes()), Err(CaseError::Damaged));
    let made_by = "0.0.1".to_owned();
    let older = text.replace(&format!("\"gpool\":\"{VERSION}\""), "\"gpool\":\"0.0.1\"");
    assert_eq!(Case::read(older.as_bytes()), Err(CaseError::OtherVersion { made_by }));
    for text in ["", "x", "{}", "[1]", "{\"kind\":\"job\"}", "\u{0}"] {
        assert_eq!(Case::read(text.as_bytes()), Err(CaseError::NoDump), "{text:?}");
    }
    let empty = format!("{{\"kind\":\"dump\",\"gpool\":\"{VERSION}\"}}");
    assert_eq!(Case::read(empty.as_bytes()), Err(CaseError::NoCase));
}

#[test]
fn every_byte_counts() {
    let file = case().file();
    for at in 0..file.len() {
        let mut other = file.clone();
        other[at] ^= 1;
        // The lines before the case only name the kind of file.
        if let Ok(read) = Case::read(&other) {
            assert_eq!(read, case(), "byte {at}");
        }
    }
}
