//! The user at the other end of a connection on a loopback address, as the kernel knows it.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The user ID of the process that made a connection `from` there to `at`; `None` if the kernel
/// does not list it. Reads files.
///
/// Source: the Linux kernel's documentation, `networking/proc_net_tcp`.
pub fn user(from: SocketAddr, at: SocketAddr) -> Option<u32> {
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
        is_it.then(|| columns.get(7)?.parse().ok())?
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
