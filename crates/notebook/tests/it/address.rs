//! The address of a web server, its line of output, and its answers.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use gpool_notebook::Address;

#[test]
fn the_line_with_an_address_is_read_and_no_other() {
    for address in [Address::Port(8888), Address::Socket("/run/a \"b\".sock".to_owned())] {
        let line = address.line();
        assert!(line.starts_with("{\"gpool\":{\"notebook\":"), "{line}");
        assert_eq!(Address::of_line(line.as_bytes()), Some(address));
    }
    for line in
        ["", "x", "{\"gpool\": {\"busy\": true}}", "{\"gpool\": {\"notebook\": {\"port\": 70000}}}"]
    {
        assert_eq!(Address::of_line(line.as_bytes()), None, "{line}");
    }
}

#[test]
fn an_answer_is_read_to_its_end_and_other_bytes_are_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::Port(listener.local_addr().unwrap().port());
    let answers = ["HTTP/1.1 404 Not Found\r\na: b\r\n\r\nbody", "SSH-2.0", ""];
    let server = std::thread::spawn(move || {
        for answer in answers {
            let mut stream = listener.accept().unwrap().0;
            let mut head = [0; 1024];
            let n_read = stream.read(&mut head).unwrap();
            assert!(head[..n_read].starts_with(b"GET /x HTTP/1.0\r\n"));
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    assert_eq!(address.get("/x").unwrap(), (404, b"body".to_vec()));
    assert!(address.get("/x").is_err());
    assert!(address.get("/x").is_err());
    server.join().unwrap();
    assert!(!address.is_open() && address.get("/").is_err());
}
