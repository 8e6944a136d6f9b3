//! The TCP ports that processes listen on, from `/proc`.

use std::net::TcpListener;

use gpool_sys::listen::{Listening, below, is_near_v6, parse};
use gpool_sys::proc;

#[test]
fn rows_of_the_kernel_are_read() {
    let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   \
                 uid  timeout inode\n   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 \
                 00:00000000 00000000  1000        0 4711 1 0000 100 0 0 10 0\n   1: \
                 0100007F:1F91 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000  \
                 0 4712 1\n   2: 0A0A0A0A:0050 00000000:0000 0A 0:0 0:0 0 1000 0 4713 1\nx\n";
    assert_eq!(parse(table, true), [(4711, Listening { port: 8080, is_v4: true })]);
    assert_eq!(is_near_v6("00000000000000000000000001000000"), Some(true));
    assert_eq!(is_near_v6("00000000000000000000000000000000"), Some(true));
    assert_eq!(is_near_v6("B80D01200000000000000000A0000000"), Some(false));
    assert_eq!(is_near_v6("0"), None);
}

#[test]
fn a_listener_of_this_process_is_not_one_of_its_descendants() {
    let _alone = crate::descriptors();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    assert!(below(std::process::id()).iter().all(|it| it.port != port));
    let parent = proc::stat(std::process::id()).unwrap().parent;
    assert!(below(parent).contains(&Listening { port, is_v4: true }));
}
