//! Where messages may go. The server sends them on behalf of users, and it may run as root. So
//! addresses inside the machine or network, and those that hand out credentials in clouds, need an
//! admin's permission. A name is resolved once, here, and the request goes to the checked address,
//! so the name can't change to another address in between (DNS rebinding).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::str::FromStr;

use gpool_wire::notify::CHAT;
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
        bits: u8,
    },
}

/// It is neither a host nor a range of addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a host or a range of addresses; write hooks.example or 127.0.0.0/8")]
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
pub struct Guarded {
    names: DefaultResolver,
    /// The internal addresses that are allowed; `None` allows all.
    allow: Option<Vec<Allowed>>,
}

impl Guarded {
    /// Gives no address of this machine except the allowed ones; `None` allows all addresses.
    pub fn new(allow: Option<Vec<Allowed>>) -> Self {
        Self { names: DefaultResolver::default(), allow }
    }

    /// Whether a message to this host may go to this address.
    pub fn may_ask(&self, host: &str, address: SocketAddr) -> bool {
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

/// Why a user's message may not go to this host.
fn refusal(host: &str) -> String {
    format!(
        "{host} is inside the server's machine, and only admins may send messages there; \
         notify_allow in gpool.toml allows others"
    )
}

/// Checks the address of a rule before any message: hosts that are addresses or names of this
/// machine. Other names are looked up, and checked, for each message.
///
/// # Errors
/// Users may not name it; the text says why.
pub fn check(url: &str, allow: &[Allowed]) -> Result<(), String> {
    let Ok(uri) = url.strip_prefix(CHAT).unwrap_or(url).parse::<Uri>() else { return Ok(()) };
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let found: Vec<SocketAddr> = match own_address(host) {
        Some(ip) => vec![(ip, 0).into()],
        // Forms such as 127.1 and 2130706433; the system reads them without a name server.
        None if is_numeric(host) => (host, 0).to_socket_addrs().into_iter().flatten().collect(),
        None => return Ok(()),
    };
    let guarded = Guarded::new(Some(allow.to_vec()));
    let is_open = found.is_empty() || found.iter().any(|it| guarded.may_ask(host, *it));
    if is_open { Ok(()) } else { Err(refusal(host)) }
}

/// The address of a host that is an address itself, or a name that always is this machine.
fn own_address(host: &str) -> Option<IpAddr> {
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    // RFC 6761, section 6.3.
    let is_own = name == "localhost" || name.ends_with(".localhost");
    host.parse().ok().or_else(|| is_own.then_some(IpAddr::V4(Ipv4Addr::LOCALHOST)))
}

/// Whether each part is a number: decimal, octal or hexadecimal.
fn is_numeric(host: &str) -> bool {
    let is_number = |part: &str| match part.strip_prefix("0x").or(part.strip_prefix("0X")) {
        Some(hex) => hex.chars().all(|c| c.is_ascii_hexdigit()),
        None => !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()),
    };
    host.split('.').all(is_number)
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
            let refused = std::io::Error::new(std::io::ErrorKind::PermissionDenied, refusal(host));
            return Err(ureq::Error::Io(refused));
        }
        Ok(open)
    }
}
