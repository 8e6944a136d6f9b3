//! The user at the other end of a connection of this machine.

use std::net::{TcpListener, TcpStream};

use gpool_listen::testing::users;

use crate::rig::me;

/// Both ways name the user of an open connection, and none of a closed one: for that the kernel
/// names root.
#[test]
fn the_kernel_names_the_user_of_an_open_connection_only() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(listener) = TcpListener::bind(address) else { continue };
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, from) = listener.accept().unwrap();
        let at = accepted.local_addr().unwrap();
        let (asked, listed) = users(from, at);
        assert!(asked.is_none_or(|uid| uid == Some(me())), "{address} {asked:?}");
        assert_eq!(listed, Some(me()), "{address}");
        drop(stream);
        let (asked, listed) = users(from, at);
        assert!(asked.is_none_or(|uid| uid.is_none()), "{address} {asked:?}");
        assert_eq!(listed, None, "{address}");
        drop(accepted);
        // A listener on the port of a connection that is gone is another socket.
        let (asked, listed) = users(listener.local_addr().unwrap(), at);
        assert_eq!((asked.flatten(), listed), (None, None), "{address}");
    }
}
