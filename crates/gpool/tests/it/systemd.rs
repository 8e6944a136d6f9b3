//! The server as a systemd service: its unit, and the notifications to systemd. Nothing here is
//! needed without systemd.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use gpool::systemd::{Daemon, ServiceScope, unit};

use crate::place::{Place, stderr};

#[test]
fn units_leave_jobs_alone_and_quote_the_program() {
    let flags = ["--devices".to_owned(), "50%.toml".to_owned()];
    let server = (Daemon::Server, "up --foreground");
    let agent = (Daemon::Agent(&flags), r#"agent "--devices" "50%%.toml""#);
    let scopes = [ServiceScope::User, ServiceScope::System];
    for (scope, (daemon, words)) in scopes.into_iter().flat_map(|it| [(it, server), (it, agent)]) {
        let unit = unit(daemon, scope, "/opt/my \"tools\"/100%/gpool".as_ref());
        assert!(unit.contains("KillMode=process") && unit.contains("Delegate=yes"));
        let start = format!(r#"ExecStart="/opt/my \"tools\"/100%%/gpool" {words}"#);
        assert!(unit.contains(&start), "{unit}");
        for confines in ["ProtectSystem", "PrivateTmp", "NoNewPrivileges", "SystemCallFilter"] {
            assert!(!unit.contains(confines), "jobs inherit {confines}");
        }
    }
}

#[test]
fn without_a_running_systemd_no_unit_is_written() {
    let (place, folder) = (Place::new(), tempfile::tempdir().unwrap());
    let (program, config) = (folder.path().join("systemctl"), folder.path().join("config"));
    let says = "#!/bin/sh\nprintf 'not booted with systemd.\\nCan not operate.\\n' >&2\nexit 1\n";
    fs::write(&program, says).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut up = place.command(&["up", "--systemd", "--user", "--now"]);
    let output = up.env("PATH", folder.path()).env("XDG_CONFIG_HOME", &config).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("not booted with systemd. Can not operate."));
    assert!(!config.exists());
}

#[test]
fn the_unit_of_an_agent_is_printed_before_the_machine_has_joined() {
    let place = Place::new();
    let output = place.command(&["agent", "--systemd", "--system", "--print"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("gpool\" agent\n"));
}
