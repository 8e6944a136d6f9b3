//! Connections between the machines of a step.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use gpool_step::remote::{Kind, Remote, new_token};

/// Both ends of a connection, with the tokens that they know.
fn ends(srun: &str, host: &str) -> [std::io::Result<Remote>; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let srun = srun.to_owned();
    let accepting = thread::spawn(move || Remote::accept(listener.accept().unwrap().0, &srun));
    let host = Remote::connect(&address, host);
    [accepting.join().unwrap(), host]
}

#[test]
fn ends_with_one_token_exchange_frames() {
    let token = new_token().unwrap();
    assert_ne!(token, new_token().unwrap());
    let [srun, host] = ends(&token, &token).map(std::result::Result::unwrap);
    srun.say(&"hello").unwrap();
    srun.send(Kind::Input, 7, &[0, 255]).unwrap();
    host.send(Kind::Output, 3, &[]).unwrap();
    let frame = host.receive().unwrap();
    assert_eq!((frame.kind, &frame.content[..]), (Kind::Message, &b"\"hello\""[..]));
    let frame = host.receive().unwrap();
    assert_eq!((frame.kind, frame.rank, &frame.content[..]), (Kind::Input, 7, &[0, 255][..]));
    let frame = srun.receive().unwrap();
    assert_eq!((frame.kind, frame.rank, frame.content.len()), (Kind::Output, 3, 0));
    host.close();
    assert_eq!(srun.receive().unwrap_err().kind(), ErrorKind::UnexpectedEof);
}

#[test]
fn an_end_with_another_token_is_refused() {
    let [srun, host] = ends("one", "two");
    assert_eq!(srun.unwrap_err().kind(), ErrorKind::PermissionDenied);
    assert!(host.is_err());
}

#[test]
fn an_end_cannot_repeat_the_proof_of_the_other() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let accepting = thread::spawn(move || Remote::accept(listener.accept().unwrap().0, "one"));
    let mut stream = TcpStream::connect(address).unwrap();
    // Everything that srun says comes back to it, and it says no proof before it has seen one.
    let mut nonce = [0; 32];
    stream.read_exact(&mut nonce).unwrap();
    stream.write_all(&nonce).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert!(accepting.join().unwrap().is_err());
    assert_eq!(stream.read(&mut nonce).unwrap(), 0);
}

#[test]
fn garbage_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let accepting = thread::spawn(move || Remote::accept(listener.accept().unwrap().0, "one"));
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&[7; 200]).unwrap();
    assert_eq!(accepting.join().unwrap().unwrap_err().kind(), ErrorKind::PermissionDenied);
}
