//! Where messages may go. The server sends them on behalf of users, and it may run as root. So
//! addresses inside the machine or network, and those that hand out credentials in clouds, need an
//! admin's permission. A name is resolved once, here, and the request goes to the checked address,
//! so the name can't change to another address in between (DNS rebinding).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// What users may name although it is inside: a host by its name, or a range of addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allowed {
    /// A host, as it stands in the address, in lower case.
    Host(String),
    /// Addresses that begin with these bits.
    Network {
        /// The first of them.
        address: IpAddr,
        /// How many bits.
        bits: u8,
    },
}

/// It is neither a host nor a range of addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither a host nor a range of addresses; write hooks.example or 127.0.0.0/8")]
pub struct BadAllowed(String);

impl FromStr for Allowed {
    type Err = BadAllowed;

    fn from_str(text: &str) -> Result<Self, BadAllowed> {
        let bad = || BadAllowed(text.to_owned());
        if let Some((address, bits)) = text.split_once('/') {
            let address: IpAddr = address.parse().map_err(|_| bad())?;
            let most = if address.is_ipv4() { 32 } else { 128 };
            let bits = bits.parse().ok().filter(|bits| *bits <= most).ok_or_else(bad)?;
            return Ok(Self::Network { address, bits });
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Network { address, bits: if address.is_ipv4() { 32 } else { 128 } });
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        match !text.is_empty() && text.chars().all(is_name) {
            true => Ok(Self::Host(text.to_ascii_lowercase())),
            false => Err(bad()),
        }
    }
}

impl Allowed {
    fn covers(&self, host: &str, found: IpAddr) -> bool {
        match self {
            Self::Host(name) => host.eq_ignore_ascii_case(name),
            Self::Network { address, bits } => match (address, found) {
                (IpAddr::V4(address), IpAddr::V4(found)) => {
                    let (address, found) = (u32::from(*address), u32::from(found));
                    (address ^ found).checked_shr(32 - u32::from(*bits)).unwrap_or(0) == 0
                }
                (IpAddr::V6(address), IpAddr::V6(found)) => {
                    let (address, found) = (u128::from(*address), u128::from(found));
                    (address ^ found).checked_shr(128 - u32::from(*bits)).unwrap_or(0) == 0
                }
                _ => false,
            },
        }
    }
}

/// Whether only the machine itself, its link or its cloud can answer at an address, or nothing can.
/// Private networks are not inside: hooks there are allowed (`docs/operating/security.md`).
/// Source: IANA, "Special-Purpose Address Registry" of IPv4 and of IPv6, 2026-11.
fn is_inside(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            v4.is_loopback()
                || v4.is_link_local()
                || v4.is_multicast()
                || matches!(v4.octets(), [0 | 240..=255, ..] | [192, 0, 0, _])
                || V4_OF_CLOUDS.contains(&v4)
        }
        IpAddr::V6(v6) => {
            is_inside_itself(v6) || embedded(v6).iter().any(|v4| is_inside(IpAddr::V4(*v4)))
        }
    }
}

/// The same of an IPv6 address, without the IPv4 addresses that it stands for.
fn is_inside_itself(v6: Ipv6Addr) -> bool {
    v6.is_loopback()
        || v6.is_unspecified()
        || v6.is_multicast()
        || v6.is_unicast_link_local()
        // A translator of the network's own, which may stand for any address (RFC 8215).
        || v6.segments()[..3] == [0x64, 0xff9b, 1]
        || V6_OF_CLOUDS.iter().any(|[a, b]| v6.segments()[..2] == [*a, *b])
}

/// Services of clouds that answer only the machine itself, credentials among them, and are not
/// link-local: Alibaba's, Tailscale's and Azure's.
const V4_OF_CLOUDS: [Ipv4Addr; 3] = [
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(100, 100, 100, 100),
    Ipv4Addr::new(168, 63, 129, 16),
];

/// The same in IPv6, by their first 32 bits: Amazon's, Oracle's, Scaleway's and Google's.
const V6_OF_CLOUDS: [[u16; 2]; 4] =
    [[0xfd00, 0xec2], [0xfd00, 0xc1], [0xfd00, 0x42], [0xfd20, 0xce]];

/// The IPv4 addresses that an IPv6 address stands for or is reached through; each follows the rule
/// of its own.
fn embedded(v6: Ipv6Addr) -> Vec<Ipv4Addr> {
    let v4 = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match v6.segments() {
        // The unspecified address and loopback.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Vec::new(),
        // Compatible (RFC 4291), mapped (the same), translated (RFC 2765), NAT64 (RFC 6052).
        [0, 0, 0, 0, 0, 0, high, low]
        | [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => vec![v4(high, low)],
        // 6to4 (RFC 3056).
        [0x2002, high, low, ..] => vec![v4(high, low)],
        // Teredo: its server, and its client with all bits turned (RFC 4380).
        [0x2001, 0, a, b, _, _, high, low] => vec![v4(a, b), v4(!high, !low)],
        // ISATAP below any prefix (RFC 5214).
        [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => vec![v4(high, low)],
        _ => Vec::new(),
    }
}

/// Looks names up, and gives only addresses that may be asked.
#[derive(Debug)]
pub(crate) struct Guarded {
    names: DefaultResolver,
    /// The internal addresses that are allowed; `None` allows all.
    allow: Option<Vec<Allowed>>,
}

impl Guarded {
    pub fn new(allow: Option<Vec<Allowed>>) -> Self {
        Self { names: DefaultResolver::default(), allow }
    }

    fn may_ask(&self, host: &str, address: SocketAddr) -> bool {
        let Some(allow) = &self.allow else { return true };
        let ip = address.ip();
        let is_allowed = |ip: IpAddr| allow.iter().any(|it| it.covers(host, ip));
        let may_ask = |ip: IpAddr| !is_inside(ip) || is_allowed(ip);
        let is_reached = |v6: Ipv6Addr| {
            !is_inside_itself(v6) && embedded(v6).iter().all(|v4| may_ask(IpAddr::V4(*v4)))
        };
        may_ask(ip) || matches!(ip, IpAddr::V6(v6) if is_reached(v6))
    }
}

impl Resolver for Guarded {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.names.resolve(uri, config, timeout)?;
        let host = uri.host().unwrap_or_default();
        let mut open = self.empty();
        found.iter().filter(|it| self.may_ask(host, **it)).for_each(|it| open.push(*it));
        if open.is_empty() {
            let what = format!(
                "{host} is inside the server's machine, where only admins send messages; \
                 notify_allow in gpool.toml opens it"
            );
            let refused = std::io::Error::new(std::io::ErrorKind::PermissionDenied, what);
            return Err(ureq::Error::Io(refused));
        }
        Ok(open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(allow: &[&str]) -> Guarded {
        let allow = allow.iter().map(|it| it.parse().expect("valid")).collect();
        Guarded::new(Some(allow))
    }

    fn asks(guard: &Guarded, host: &str, ip: &str) -> bool {
        guard.may_ask(host, SocketAddr::new(ip.parse().expect("an address"), 80))
    }

    #[test]
    fn users_reach_nothing_inside_the_machine() {
        let guard = guard(&[]);
        for ip in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "100.100.100.200",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "ff02::1",
            "fd00:ec2::254",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b::127.0.0.1",
            "64:ff9b:1::8.8.8.8",
            "64:ff9b:1:7f00:0:100::",
            "2002:7f00:1::",
            "2002:7f00:1::1",
            "2002:a9fe:a9fe::1",
            // Teredo of the client 127.0.0.1, and by the server 127.0.0.1.
            "2001:0:808:808::80ff:fffe",
            "2001:0:7f00:1::f7f7:f7f7",
            "2001:db8::5efe:127.0.0.1",
            "2001:db8::200:5efe:169.254.169.254",
            "fe80::5efe:8.8.8.8",
            "192.0.0.192",
            "240.0.0.1",
            "168.63.129.16",
            "100.100.100.100",
            "fd20:ce::254",
            "fd00:c1::a9fe:a9fe",
            "fd00:42::42",
        ] {
            assert!(!asks(&guard, "x", ip), "{ip}");
        }
        for ip in [
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "198.18.0.1",
            "fd12:3456::1",
            "8.8.8.8",
            "2001:db8::1",
            "2606:4700::1111",
            "::ffff:8.8.8.8",
            "::ffff:10.0.0.1",
            "64:ff9b::808:808",
            "64:ff9b::10.0.0.1",
            "2002:808:808::1",
            "2002:a00:1::1",
            "2001:db8::5efe:10.0.0.1",
            "2001:0:808:808::f7f7:f7f7",
        ] {
            assert!(asks(&guard, "x", ip), "{ip}");
        }
        assert!(asks(&Guarded::new(None), "x", "127.0.0.1"), "admins do");
    }

    #[test]
    fn what_is_allowed_is_a_host_or_a_range() {
        let some = guard(&["127.0.0.0/31", "Hooks.Lab", "fe80::/10"]);
        assert!(asks(&some, "x", "127.0.0.1") && asks(&some, "x", "::ffff:127.0.0.1"));
        assert!(!asks(&some, "x", "127.0.0.2"));
        assert!(asks(&some, "hooks.lab", "127.0.0.2") && asks(&some, "x", "fe80::7"));
        assert!(asks(&guard(&["0.0.0.0/0"]), "x", "169.254.169.254"));
        assert!(asks(&guard(&["::/0"]), "x", "::1"));
        let home = guard(&["127.0.0.1"]);
        assert!(asks(&home, "x", "2002:7f00:1::1"), "it stands for what is allowed");
        assert!(!asks(&home, "x", "2001:0:7f00:1::80ff:fffd"), "each that it stands for counts");
        for text in ["", "a b", "127.0.0.1/33", "::1/129", "a/8", "127.0.0.0/x", "http://x"] {
            assert!(text.parse::<Allowed>().is_err(), "{text}");
        }
    }
}
