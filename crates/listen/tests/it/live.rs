//! The liveness check: a socket beside that of the API on which a thread of its own answers. It
//! reads nothing and waits for nothing, so it answers while the core or the API is stuck, and is
//! silent only if the whole process is.

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;

use gpool_listen::testing::{Live, Pulse, of};
use gpool_model::Revision;
use gpool_wire::live::{Liveness, SUFFIX};
use std::io::Read as _;

fn asked(api: &Path) -> std::io::Result<Liveness> {
    let mut path = api.as_os_str().to_owned();
    path.push(SUFFIX);
    let mut text = String::new();
    UnixStream::connect(path)?.read_to_string(&mut text)?;
    serde_json::from_str(&text).map_err(std::io::Error::other)
}

#[test]
fn it_answers_while_the_core_is_stuck_and_ends_with_the_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let api = folder.path().join("api.sock");
    let pulse = Arc::new(Pulse::default());
    let live = Live::listen_near(&api, of(Arc::clone(&pulse))).expect("it listens");
    let idle = asked(&api).expect("it answers");
    assert_eq!(idle, Liveness { pid: std::process::id(), core_ms: 0, store_ms: 0 });
    let at_least = |what: &dyn Fn(&Liveness) -> u64| {
        while what(&asked(&api).expect("it answers")) < 2 {
            std::thread::yield_now();
        }
    };
    pulse.step(|| at_least(&|it| it.core_ms));
    pulse.commits(Revision(3), Revision(2));
    at_least(&|it| it.store_ms);
    pulse.commits(Revision(3), Revision(3));
    assert_eq!(asked(&api).expect("it answers"), idle);
    drop(live);
    assert!(asked(&api).is_err());
    // One that was killed leaves its socket, which the next one replaces.
    drop(UnixListener::bind(folder.path().join("api.sock.live")).expect("a socket"));
    let live = Live::listen_near(&api, of(Arc::clone(&pulse))).expect("it listens");
    assert_eq!(asked(&api).expect("it answers"), idle);
    drop(live);
    // A file of the user's is left alone.
    let file = folder.path().join("api.sock.live");
    std::fs::write(&file, "mine").expect("a file");
    assert!(Live::listen_near(&api, of(pulse)).is_err());
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "mine");
}
