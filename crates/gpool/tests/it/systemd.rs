//! The server as a systemd service: its unit, and the notifications to systemd. Nothing here is
//! needed without systemd.

use gpool::systemd::{Scope, unit};

#[test]
fn units_leave_jobs_alone_and_quote_the_program() {
    for scope in [Scope::User, Scope::System] {
        let unit = unit(scope, "/opt/my \"tools\"/100%/gpool".as_ref());
        assert!(unit.contains("KillMode=process") && unit.contains("Delegate=yes"));
        let start = r#"ExecStart="/opt/my \"tools\"/100%%/gpool" up --foreground"#;
        assert!(unit.contains(start), "{unit}");
        for confines in ["ProtectSystem", "PrivateTmp", "NoNewPrivileges", "SystemCallFilter"] {
            assert!(!unit.contains(confines), "jobs inherit {confines}");
        }
    }
}
