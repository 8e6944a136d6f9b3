//! `gpool sim`: changes simulated devices. It edits the control file of the server's simulated
//! devices, which can also be edited by hand; real devices are not affected.

use std::io::ErrorKind;

use gpool::verbs::sim::refused;
use gpool_device::ControlError;

#[test]
fn a_file_that_may_not_be_edited_is_a_matter_of_rights() {
    let of = |kind: ErrorKind| {
        let (file, error) = ("/x/control.toml".into(), kind.into());
        refused(&ControlError::File { action: "lock", file, error })
    };
    assert_eq!(of(ErrorKind::PermissionDenied).exit().0, 5);
    assert_eq!(of(ErrorKind::StorageFull).exit().0, 1);
    let failure = refused(&ControlError::Content("there is no device 9".to_owned()));
    assert_eq!(failure.exit().0, 2);
}
