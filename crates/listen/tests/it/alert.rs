//! Writes a file about each plan that broke an invariant, to find the fault later.

use std::os::unix::fs::MetadataExt;

use gpool_model::{Policy, Revision, Timestamp};
use gpool_world::World;

use std::path::Path;

use gpool_journal::case::Case;
use gpool_listen::testing::{KEPT_MOST, dump};

#[test]
fn the_state_of_a_bad_plan_is_kept_where_only_its_owner_reads_it() {
    let dir = tempfile::tempdir().expect("there is room");
    let folder = dir.path().join("alerts");
    let world = World::new(Policy::fair());
    let case = Case::refused(gpool_model::Alert {
        now: Timestamp::ZERO,
        basis: world.revision(),
        records: world.records(),
        plan: None,
        violations: vec!["bad".to_owned()],
        set_aside: None,
    });
    dump(&folder, &case).expect("there is room");
    let mode = |path: &Path| path.metadata().expect("it was made").mode() & 0o777;
    let file = folder.join(format!("{}.json", Revision(0)));
    assert_eq!((mode(&folder), mode(&file)), (0o700, 0o600));
    for n in 0..2 * KEPT_MOST {
        std::fs::write(folder.join(format!("other-{n}")), "").expect("there is room");
    }
    std::fs::remove_file(&file).expect("it is there");
    dump(&folder, &case).expect("there is nothing to do");
    assert!(!file.exists(), "there are many already");
}
