//! Where the dashboard listens, and its signed-in users.

pub mod connected;
mod loopback;
mod sessions;
pub mod sites;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use self::loopback::Loopback;
use self::sessions::Link;
pub use self::sessions::{At, NotRedeemed, SessionKey, Sessions, SignedIn};
pub use self::sites::{Site, Sites};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WebAddress {
    /// On the usual port of the loopback address, or on a free one if that is taken.
    #[default]
    Usual,
    /// Only on this loopback address.
    At(SocketAddr),
    None,
}

impl FromStr for WebAddress {
    type Err = String;

    /// Reads `none`, or a loopback address with port.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self::None);
        }
        match text.parse::<SocketAddr>() {
            // The addresses that browsers take for names below `localhost`.
            Ok(at)
                if [Ipv4Addr::LOCALHOST.into(), IpAddr::from(Ipv6Addr::LOCALHOST)]
                    .contains(&at.ip()) =>
            {
                Ok(Self::At(at))
            }
            Ok(_) => {
                Err("it must be the loopback address 127.0.0.1 or [::1]: 127.0.0.1:7478".to_owned())
            }
            Err(_) => Err("it must be an address with port, or none: 127.0.0.1:7478".to_owned()),
        }
    }
}

/// The dashboard's address and its signed-in users.
#[derive(Debug)]
pub struct Web {
    at: SocketAddr,
    pub sessions: Arc<Sessions>,
}

impl Web {
    /// A dashboard at an address, with the sessions of its users.
    pub fn new(at: SocketAddr, sessions: Arc<Sessions>) -> Self {
        Self { at, sessions }
    }

    pub fn url(&self) -> String {
        format!("http://{}/", self.at)
    }

    /// A link that signs a user in, and how long it works.
    pub fn invite(&self, user: SignedIn, now: Instant) -> (String, Duration) {
        let Link { label, code } = self.sessions.invite(user, now);
        (format!("{}login/{code}", self.url_of(&label)), sessions::LINK)
    }

    /// The address of a host below `localhost`.
    pub fn url_of(&self, label: &str) -> String {
        format!("http://{label}.localhost:{}/", self.at.port())
    }

    /// The label below `localhost` in the host of a request; empty for the address itself. `None`
    /// for a name of another site: DNS can point any name at this machine.
    pub fn label<'h>(&self, host: &'h str) -> Option<&'h str> {
        let name = host.strip_suffix(&format!(":{}", self.at.port()))?;
        match name.strip_suffix(".localhost") {
            Some(label) => Some(label),
            None if name == "localhost" => Some(""),
            None => {
                let ip = name.trim_start_matches('[').trim_end_matches(']');
                ip.parse::<IpAddr>().ok().filter(IpAddr::is_loopback).map(|_| "")
            }
        }
    }
}
