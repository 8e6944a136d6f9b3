//! Where messages may go. The server asks on behalf of users, and it may be root's: what only the
//! machine itself can reach, and the addresses by which clouds hand out credentials, are for those
//! whom an admin lets there. Names are looked up here and the addresses that were found are the
//! ones that are asked, so a name can't become another address in between.

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

/// Whether an address is inside the machine, or of those that only it can reach.
fn is_inside(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            v4.is_loopback()
                || v4.is_link_local()
                || v4.is_unspecified()
                || v4.is_broadcast()
                || v4.is_multicast()
                || v4.octets()[0] == 0
                // Credentials in Alibaba's cloud; other clouds' are link-local.
                || v4 == Ipv4Addr::new(100, 100, 100, 200)
        }
        IpAddr::V6(v6) => match embedded(v6) {
            Some(v4) => is_inside(IpAddr::V4(v4)),
            None => {
                v6.is_loopback()
                    || v6.is_unspecified()
                    || v6.is_multicast()
                    || v6.is_unicast_link_local()
                    // Credentials in Amazon's cloud.
                    || v6 == Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)
            }
        },
    }
}

/// The older address that a newer one stands for: mapped, compatible, or by a translator (NAT64).
fn embedded(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, ..] = v6.segments();
    let is_compatible = [a, b, c, d, e, f] == [0; 6] && !v6.is_loopback() && !v6.is_unspecified();
    let is_translated = [a, b, c, d, e, f] == [0x64, 0xff9b, 0, 0, 0, 0];
    let low = (is_compatible || is_translated).then(|| {
        let bytes = v6.octets();
        Ipv4Addr::new(bytes[12], bytes[13], bytes[14], bytes[15])
    });
    v6.to_ipv4_mapped().or(low)
}

/// Looks names up, and gives only addresses that may be asked.
#[derive(Debug)]
pub(crate) struct Guarded {
    names: DefaultResolver,
    /// What is allowed of what is inside; `None` is all of it.
    allow: Option<Vec<Allowed>>,
}

impl Guarded {
    pub fn new(allow: Option<Vec<Allowed>>) -> Self {
        Self { names: DefaultResolver::default(), allow }
    }

    fn may_ask(&self, host: &str, address: SocketAddr) -> bool {
        let Some(allow) = &self.allow else { return true };
        let ip = address.ip();
        let as_v4 = match ip {
            IpAddr::V6(v6) => embedded(v6).map(IpAddr::V4),
            IpAddr::V4(_) => None,
        };
        !is_inside(ip)
            || allow.iter().any(|it| it.covers(host, ip))
            || as_v4.is_some_and(|v4| allow.iter().any(|it| it.covers(host, v4)))
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
            "64:ff9b::a9fe:a9fe",
        ] {
            assert!(!asks(&guard, "x", ip), "{ip}");
        }
        for ip in ["10.0.0.1", "192.168.1.1", "8.8.8.8", "2001:db8::1", "::ffff:8.8.8.8"] {
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
        for text in ["", "a b", "127.0.0.1/33", "::1/129", "a/8", "127.0.0.0/x", "http://x"] {
            assert!(text.parse::<Allowed>().is_err(), "{text}");
        }
    }
}
