//! `gpool forward`: forwards local ports to ports of a job.

use gpool_verbs::forward::Forwarded;
use gpool_wire::ForwardToJob;

#[test]
fn ports_are_read_as_people_write_them() {
    let read = |text: &str| text.parse::<Forwarded>();
    let port = |local, port| Forwarded {
        local,
        to: ForwardToJob { port: Some(port), ..ForwardToJob::default() },
    };
    assert_eq!(read("8888"), Ok(port(None, 8888)));
    assert_eq!(read("9000:8888"), Ok(port(Some(9000), 8888)));
    assert_eq!(read("0:1"), Ok(port(Some(0), 1)));
    let socket = read("9000:/tmp/a:b").expect("a socket");
    assert_eq!(socket.to.socket.as_deref(), Some("/tmp/a:b"));
    for text in ["", "0", "x", "65536", "1:0", "1:2:3", ":1", "-1", "1:x"] {
        assert!(read(text).is_err(), "{text}");
    }
}
