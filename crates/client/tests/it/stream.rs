//! Streams to running jobs: a request that is upgraded to a byte stream. Implemented here, since
//! the HTTP library has no upgrades.

use gpool_client::testing::ResponseHead;

#[test]
fn the_head_of_an_answer_is_read() {
    let head = b"HTTP/1.1 409 Conflict\r\ncontent-type: x\r\nContent-Length: 12\r\n\r\n";
    assert_eq!(ResponseHead::read(head), Some(ResponseHead { status: 409, length: 12 }));
    let head = b"HTTP/1.1 101 Switching Protocols\r\n\r\n";
    assert_eq!(ResponseHead::read(head), Some(ResponseHead { status: 101, length: 0 }));
    for head in [&b""[..], b"HTTP/1.1 \r\n\r\n", b"SSH-2.0\r\n\r\n", b"HTTP/1.1 \xff01"] {
        assert_eq!(ResponseHead::read(head), None, "{head:?}");
    }
}
