//! Finding a server, and the error if there is none.

#![allow(clippy::unwrap_used, reason = "a test that fails panics anyway")]

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use gpool_client::contexts::{Context, Contexts};
use gpool_client::socket::{Surroundings, check_folder, check_length, stranger_on};
use gpool_client::{Address, Client, Error, Remote, ServerLocation, Trust};

fn of_ana() -> Surroundings {
    Surroundings { uid: 1001, ..Surroundings::default() }
}

fn named(path: &str) -> ServerLocation {
    ServerLocation::Named(PathBuf::from(path))
}

#[test]
fn the_most_specific_setting_wins() {
    let mut around = of_ana();
    around.runtime_dir = Some("/run/user/1001".into());
    let usual = ServerLocation::Usual {
        own: "/run/user/1001/gpool/api.sock".into(),
        machine: "/run/gpool/api.sock".into(),
    };
    assert_eq!(around.place(None).unwrap(), usual);
    around.socket = Some("/tmp/a.sock".into());
    assert_eq!(around.place(None).unwrap(), named("/tmp/a.sock"));
    around.server = Some("unix:/tmp/b.sock".into());
    assert_eq!(around.place(None).unwrap(), named("/tmp/b.sock"));
    assert_eq!(around.place(Some("/tmp/c.sock")).unwrap(), named("/tmp/c.sock"));
    assert_eq!(around.place(Some("unix:///tmp/c.sock")).unwrap(), named("/tmp/c.sock"));
}

fn with_contexts(folder: &Path) -> Surroundings {
    let path = folder.join("gpool/contexts.toml");
    let remote = |host: &str, token: &str| {
        Remote::new(Address::read(host).unwrap(), token.to_owned(), Trust::pinned(b"authority"))
    };
    let mut contexts = Contexts::default();
    let (one, two) = (remote("lab1", "gp_1"), remote("https://lab2:8000", "gp_2"));
    contexts.contexts.insert("one".to_owned(), Context::new(&one));
    contexts.contexts.insert("two".to_owned(), Context::new(&two));
    contexts.current = Some("one".to_owned());
    contexts.write(&path).unwrap();
    assert_eq!(Contexts::read(&path).unwrap(), contexts);
    Surroundings { contexts: Some(path), ..of_ana() }
}

/// The token that the environment leads to; `None` on this machine.
fn token(around: &Surroundings, flag: Option<&str>) -> Option<String> {
    match around.place(flag).unwrap() {
        ServerLocation::Remote(remote) => Some(remote.token),
        ServerLocation::Named(_) | ServerLocation::Usual { .. } => None,
    }
}

#[test]
fn a_context_is_chosen_by_flag_variable_or_the_last_login() {
    let folder = tempfile::tempdir().unwrap();
    let mut around = with_contexts(folder.path());
    assert_eq!(token(&around, None).as_deref(), Some("gp_1"));
    assert_eq!(token(&around, Some("/tmp/a.sock")), None);
    assert_eq!(token(&around, Some("https://lab2:8000")).as_deref(), Some("gp_2"));
    around.socket = Some("/tmp/a.sock".into());
    assert_eq!(token(&around, None), None, "in a job, the job's server");
    around.context = Some("two".to_owned());
    assert_eq!(token(&around, None).as_deref(), Some("gp_2"));
    around.context_flag = Some("local".to_owned());
    assert_eq!(token(&around, None), None);
    around.context_flag = Some("three".to_owned());
    assert_eq!(around.place(None).unwrap_err().problem().code, "GP0310");
    let unknown = around.place(Some("https://lab3")).unwrap_err();
    assert!(unknown.to_string().contains("https://lab3:7443"), "{unknown}");
    around.token = Some("gp_3".to_owned());
    assert_eq!(token(&around, Some("https://lab3")).as_deref(), Some("gp_3"));
}

#[test]
fn contexts_that_others_can_read_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let around = with_contexts(folder.path());
    let path = around.contexts.clone().unwrap();
    let mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    mode(0o640);
    let refused = around.place(None).unwrap_err();
    assert!(refused.to_string().contains("chmod 600"), "{refused}");
    mode(0o600);
    assert!(around.place(None).is_ok());
}

#[test]
fn addresses_of_servers_have_a_host_and_a_port() {
    for (text, shown) in [
        ("lab1", "https://lab1:7443"),
        ("https://lab1.example.org/", "https://lab1.example.org:7443"),
        ("10.0.0.7:80", "https://10.0.0.7:80"),
        ("https://[::1]:7443", "https://[::1]:7443"),
    ] {
        assert_eq!(Address::read(text).unwrap().to_string(), shown);
    }
    for text in ["http://lab1", "https://", "https://ana@lab1", "lab1/path", "a b", ""] {
        assert!(Address::read(text).is_err(), "{text:?}");
    }
}

#[test]
fn own_sockets_are_in_private_folders() {
    assert_eq!(of_ana().own_socket(), Path::new("/tmp/gpool-1001/api.sock"));
    let relative = Surroundings { runtime_dir: Some("run".into()), ..of_ana() };
    assert_eq!(relative.own_socket(), Path::new("/tmp/gpool-1001/api.sock"));
    let root = Surroundings { uid: 0, runtime_dir: Some("/run/user/0".into()), ..of_ana() };
    assert_eq!(root.own_socket(), Path::new("/run/gpool/api.sock"));
}

#[test]
fn a_server_that_is_no_socket_is_refused_with_a_remedy() {
    for server in ["lab1", "http://[::1]/", ""] {
        let error = of_ana().place(Some(server)).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{server}");
        assert!(error.to_string().contains("unix:/path"), "{error}");
    }
    let long = PathBuf::from(format!("/tmp/{}", "x".repeat(103)));
    let error = check_length(&long).unwrap_err();
    assert!(error.to_string().contains("108 bytes"), "{error}");
    assert!(error.to_string().contains("GPOOL_SOCKET"), "{error}");
    assert!(check_length(&PathBuf::from(format!("/tmp/{}", "x".repeat(102)))).is_ok());
}

#[test]
fn a_folder_of_another_user_is_not_trusted() {
    let place = tempfile::tempdir().unwrap();
    let uid = rustix::process::geteuid().as_raw();
    let folder = place.path().join("gpool");
    assert!(check_folder(&folder, uid).is_ok(), "a missing folder has no socket");
    std::fs::create_dir(&folder).unwrap();
    let mode = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(&folder, mode(0o700)).unwrap();
    assert!(check_folder(&folder, uid).is_ok());
    assert!(matches!(check_folder(&folder, uid + 1), Err(Error::SocketNotOurs { .. })));
    std::fs::set_permissions(&folder, mode(0o770)).unwrap();
    assert!(check_folder(&folder, uid).unwrap_err().to_string().contains("770"));
    std::fs::set_permissions(&folder, mode(0o700)).unwrap();
    let link = place.path().join("link");
    symlink(&folder, &link).unwrap();
    assert!(check_folder(&link, uid).is_err(), "another user may have made it");
}

#[test]
fn a_path_of_another_user_in_an_open_folder_is_a_strangers() {
    let place = tempfile::tempdir().unwrap();
    let uid = rustix::process::geteuid().as_raw();
    let open = place.path().join("open");
    let folder = open.join("gpool-1001");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::set_permissions(&open, PermissionsExt::from_mode(0o1777)).unwrap();
    let inside = folder.join("api.sock");
    assert_eq!(stranger_on(&inside, uid), None);
    if uid != 0 {
        return;
    }
    // Paths of root and of the user are trusted.
    assert_eq!(stranger_on(&inside, 1001), None);
    std::os::unix::fs::chown(&folder, Some(1002), None).unwrap();
    assert_eq!(stranger_on(&inside, 1002), None);
    let found = stranger_on(&inside, 1001).unwrap();
    assert_eq!((found.path, found.uid), (folder.clone(), 1002));
    assert!(stranger_on(&inside, 0).is_some(), "root does not trust it either");
    // The user's own link to it does not help.
    let link = place.path().join("link");
    symlink(&folder, &link).unwrap();
    assert!(stranger_on(&link.join("api.sock"), 1001).is_some());
    // Neither does the other user's link to a folder of the user.
    let own = place.path().join("own");
    std::fs::create_dir(&own).unwrap();
    symlink(&own, open.join("theirs")).unwrap();
    std::os::unix::fs::lchown(open.join("theirs"), Some(1002), None).unwrap();
    assert!(stranger_on(&open.join("theirs"), 1001).is_some());
}

#[test]
fn a_missing_server_is_named() {
    let place = tempfile::tempdir().unwrap();
    let socket = place.path().join("api.sock");
    let error = Client::at(&socket).version().unwrap_err();
    let problem = error.problem();
    assert_eq!((error.exit_code(), problem.code.as_str()), (3, "GP0301"));
    assert_eq!(problem.why, [format!("{}: there is no such socket", socket.display())]);
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let problem = Client::at(&socket).version().unwrap_err().problem();
    assert!(problem.why[0].contains("no process listens"), "{problem:?}");
}
