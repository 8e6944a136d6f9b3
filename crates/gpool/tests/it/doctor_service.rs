//! The checks of `gpool doctor` beside jobs: notifications and the systemd unit.

use std::path::Path;

use gpool::systemd::{Daemon, ServiceScope};
use gpool::verbs::doctor::service::program_of;

#[test]
fn a_unit_says_what_it_starts() {
    let unit =
        gpool::systemd::unit(Daemon::Server, ServiceScope::User, Path::new("/opt/my gpool/gpool"));
    assert_eq!(program_of(&unit).as_deref(), Some("/opt/my gpool/gpool"));
    assert_eq!(program_of("ExecStart=/bin/x up").as_deref(), Some("/bin/x"));
    assert_eq!(program_of("[Unit]\n"), None);
}
