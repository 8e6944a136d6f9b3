//! The dashboard's listeners on the loopback addresses.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::{TcpListener, TcpStream};

/// The address without another one in the settings.
const USUAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7478);
/// Attempts to find a port that is free on both addresses.
const ATTEMPTS: usize = 16;

/// Listeners on one port of `127.0.0.1` and `::1`. A browser takes either address for a name below
/// `localhost`: a page of another user's program on the other address would be of the same origin.
#[derive(Debug)]
pub struct Loopback {
    listener: TcpListener,
    /// On the address of the other family; `None` if the machine has none.
    other: Option<TcpListener>,
}

impl Loopback {
    /// Listens on an address, and on the same port of the other one.
    ///
    /// # Errors
    /// One of the two can't be used.
    pub async fn bind(at: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(at).await?;
        let ip: IpAddr = match at.ip() {
            IpAddr::V4(_) => Ipv6Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv4Addr::LOCALHOST.into(),
        };
        let other = SocketAddr::new(ip, listener.local_addr()?.port());
        let other = match TcpListener::bind(other).await {
            Ok(other) => Some(other),
            // Then no other program can listen there.
            Err(error) if is_absent(&error) => None,
            Err(error) => {
                let why = format!("browsers may take {other} for it: {error}");
                return Err(io::Error::new(error.kind(), why));
            }
        };
        Ok(Self { listener, other })
    }

    /// Listens on the usual port, or else on a free one. `None` if neither works: jobs do not need
    /// a dashboard.
    pub async fn usual() -> Option<Self> {
        let mut bound = Self::bind(USUAL).await;
        for _ in 0..ATTEMPTS {
            if bound.is_ok() {
                break;
            }
            bound = Self::bind(SocketAddr::new(USUAL.ip(), 0)).await;
        }
        if let Err(error) = &bound {
            tracing::warn!(%error, "there is no dashboard: can't listen on 127.0.0.1");
        }
        bound.ok()
    }

    /// The address of the settings, with its port.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Accepts a connection on either address.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let Some(other) = &self.other else { return self.listener.accept().await };
        tokio::select! {
            accepted = self.listener.accept() => accepted,
            accepted = other.accept() => accepted,
        }
    }
}

/// Whether the machine has no such address.
fn is_absent(error: &io::Error) -> bool {
    let no_family = rustix::io::Errno::AFNOSUPPORT.raw_os_error();
    error.kind() == ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(no_family)
}
