//! The user at the other end of a connection on a loopback address, as the kernel knows it.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

/// The states of a socket that its process has not closed: `TCP_ESTABLISHED` and `TCP_CLOSE_WAIT`.
/// For a closed one the kernel names user 0.
const OPEN: [u8; 2] = [1, 8];

/// The user ID of the process that made a connection `from` there to `at`, and has not closed it;
/// `None` if the kernel does not know.
pub fn user(from: SocketAddr, at: SocketAddr) -> Option<u32> {
    // A kernel may be built without answers about sockets. Its tables list all of them, which takes
    // long on a machine with many.
    by_question(from, at).unwrap_or_else(|_| by_table(from, at))
}

/// Asks the kernel about one socket.
///
/// Source: sock_diag(7), and `struct inet_diag_req_v2` and `inet_diag_msg` of Linux.
fn by_question(own: SocketAddr, other: SocketAddr) -> io::Result<Option<u32>> {
    const HEAD: usize = 16;
    const LENGTH: u32 = 72;
    const BY_FAMILY: u16 = 20;
    const ERROR: u16 = 2;
    const REQUEST: u16 = 1;
    const TCP: u8 = 6;
    const NO_COOKIE: [u8; 8] = [0xFF; 8];
    /// `AF_INET` and `AF_INET6`.
    const FAMILIES: (u8, u8) = (2, 10);
    /// Positions in the answer.
    const STATE: usize = HEAD + 1;
    const SOCKET: usize = HEAD + 4;
    const UID: usize = SOCKET + 48 + 12;

    let family = if own.is_ipv4() { FAMILIES.0 } else { FAMILIES.1 };
    let mut question = Vec::new();
    question.extend(LENGTH.to_ne_bytes());
    question.extend(BY_FAMILY.to_ne_bytes());
    question.extend(REQUEST.to_ne_bytes());
    question.extend([0; 8]);
    question.extend([family, TCP, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF]);
    let ends = [own.port().to_be_bytes(), other.port().to_be_bytes()].concat();
    question.extend(&ends);
    let addresses = [bytes(own.ip()), bytes(other.ip())].concat();
    question.extend(&addresses);
    question.extend([0; 4]);
    question.extend(NO_COOKIE);

    let (kind, flags) = (SocketType::DGRAM, SocketFlags::CLOEXEC);
    let kernel = socket_with(AddressFamily::NETLINK, kind, flags, Some(netlink::SOCK_DIAG))?;
    send(&kernel, &question, SendFlags::empty())?;
    let mut answer = [0; 512];
    // The kernel answers before `send` returns.
    let (_, length) = recv(&kernel, &mut answer[..], RecvFlags::DONTWAIT)?;
    let word = |at: usize| -> u32 {
        u32::from_ne_bytes([answer[at], answer[at + 1], answer[at + 2], answer[at + 3]])
    };
    match u16::from_ne_bytes([answer[4], answer[5]]) {
        BY_FAMILY if length >= UID + 4 => {
            // A listener on the port is another socket.
            let is_it = answer[SOCKET..].starts_with(&[ends, addresses].concat());
            Ok((is_it && OPEN.contains(&answer[STATE])).then(|| word(UID)))
        }
        // The negative number of the error: there is no such socket.
        ERROR if word(HEAD) == (-rustix::io::Errno::NOENT.raw_os_error()).cast_unsigned() => {
            Ok(None)
        }
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// An address in 16 bytes; of IPv4, the first four.
fn bytes(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => [&ip.octets()[..], &[0; 12]].concat(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// Looks a socket up in the tables of all sockets. Reads files.
///
/// Source: the Linux kernel's documentation, `networking/proc_net_tcp`.
fn by_table(from: SocketAddr, at: SocketAddr) -> Option<u32> {
    // A socket for IPv6 may have made a connection to an IPv4 address.
    let mapped = |it: SocketAddr| SocketAddr::new(mapped(it.ip()), it.port());
    find("/proc/net/tcp", from, at).or_else(|| find("/proc/net/tcp6", mapped(from), mapped(at)))
}

fn mapped(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().into(),
        IpAddr::V6(_) => ip,
    }
}

/// The user in the row of a table of sockets. The columns are a number, the own address, the other
/// one, the state, two queues as one column, two timers as one, retransmits, and the user ID.
fn find(path: &str, own: SocketAddr, other: SocketAddr) -> Option<u32> {
    let table = fs::read_to_string(path).ok()?;
    let (own, other) = (table_text(own), table_text(other));
    table.lines().find_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let is_it = columns.get(1) == Some(&&*own) && columns.get(2) == Some(&&*other);
        let state = u8::from_str_radix(columns.get(3)?, 16).ok()?;
        (is_it && OPEN.contains(&state)).then(|| columns.get(7)?.parse().ok())?
    })
}

/// An address as in those tables: words of 32 bits in the byte order of the machine.
fn table_text(address: SocketAddr) -> String {
    let word = |octets: &[u8]| match *octets {
        [a, b, c, d] => format!("{:08X}", u32::from_ne_bytes([a, b, c, d])),
        _ => String::new(),
    };
    let ip: String = match address.ip() {
        IpAddr::V4(ip) => Ipv4Addr::octets(&ip).chunks(4).map(word).collect(),
        IpAddr::V6(ip) => Ipv6Addr::octets(&ip).chunks(4).map(word).collect(),
    };
    format!("{ip}:{:04X}", address.port())
}

/// Both ways to find a user, for the tests.
#[cfg(feature = "fuzzing")]
pub fn users(from: SocketAddr, at: SocketAddr) -> (Option<Option<u32>>, Option<u32>) {
    (by_question(from, at).ok(), by_table(from, at))
}
