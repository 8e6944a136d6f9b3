//! The TCP ports that processes listen on, from `/proc`.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use crate::proc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listening {
    pub port: u16,
    /// Whether it is an IPv4 port; otherwise IPv6.
    pub is_v4: bool,
}

/// Returns the ports on which descendants of a process listen, if the loopback address reaches
/// them.
#[must_use]
pub fn below(root: u32) -> Vec<Listening> {
    let mut by_socket = BTreeMap::new();
    for (file, is_v4) in [("/proc/net/tcp", true), ("/proc/net/tcp6", false)] {
        let table = std::fs::read_to_string(file).unwrap_or_default();
        by_socket.extend(parse(&table, is_v4));
    }
    let mut found = Vec::new();
    for pid in proc::descendants(root) {
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        for entry in open {
            let Ok(target) = std::fs::read_link(entry.path()) else { continue };
            let socket =
                target.to_str().and_then(|it| it.strip_prefix("socket:[")?.strip_suffix(']'));
            let Some(inode) = socket.and_then(|it| it.parse::<u64>().ok()) else { continue };
            found.extend(by_socket.get(&inode).copied());
        }
    }
    found.sort_unstable_by_key(|it| (it.port, !it.is_v4));
    found.dedup();
    found
}

/// Listening sockets, by inode, from a table such as `/proc/net/tcp`.
pub fn parse(table: &str, is_v4: bool) -> Vec<(u64, Listening)> {
    /// The kernel's `TCP_LISTEN`.
    const LISTEN: &str = "0A";
    let row = |line: &str| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (address, port) = fields.next()?.split_once(':')?;
        let state = fields.nth(1)?;
        let inode = fields.nth(5)?.parse().ok()?;
        let port = u16::from_str_radix(port, 16).ok()?;
        let is_near = if is_v4 { is_near_v4(address)? } else { is_near_v6(address)? };
        (state == LISTEN && is_near).then_some((inode, Listening { port, is_v4 }))
    };
    table.lines().skip(1).filter_map(row).collect()
}

/// Whether an address is loopback or unspecified. In the kernel's memory format.
fn is_near_v4(address: &str) -> Option<bool> {
    let address = u32::from_str_radix(address, 16).ok()?.to_ne_bytes();
    Some(address == [0, 0, 0, 0] || address == [127, 0, 0, 1])
}

/// The same for an IPv6 address.
pub fn is_near_v6(address: &str) -> Option<bool> {
    let mut bytes = Vec::with_capacity(16);
    for at in 0..4 {
        let word = u32::from_str_radix(address.get(at * 8..at * 8 + 8)?, 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    let address = Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?);
    Some(address.is_unspecified() || address.is_loopback())
}
