//! How a request came in, and the most that it may do there. The kernel or a token identifies the
//! user; the way only narrows their rights.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use gpool_wire::{Problem, Scope, catalogue};

use super::routes::{Least, Route};

/// Where a request came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    Socket,
    /// The dashboard on a loopback address.
    Dashboard,
    Network(IpAddr),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket => f.write_str("socket"),
            Self::Dashboard => f.write_str("dashboard"),
            Self::Network(from) => from.fmt(f),
        }
    }
}

/// How a request came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    pub origin: Origin,
    /// The most that it may do.
    pub scope: Scope,
    /// ID of the token, if there is one.
    pub token: Option<Arc<str>>,
    /// The network user, if the token is for one.
    pub network_user: Option<Arc<str>>,
    /// Whether a system user belongs to the caller.
    pub is_mapped: bool,
}

impl Way {
    /// A way on this machine, where the kernel identifies the user.
    pub fn local(origin: Origin) -> Self {
        Self { origin, scope: Scope::Admin, token: None, network_user: None, is_mapped: true }
    }

    /// Whether the request came over the network.
    pub fn is_remote(&self) -> bool {
        matches!(self.origin, Origin::Network(_))
    }

    /// Checks that a route may be used.
    pub fn check(&self, route: &Route) -> Result<(), Problem> {
        if !self.is_remote() {
            return Ok(());
        }
        let least = match route.least {
            Least::Anyone => return Ok(()),
            Least::Local => {
                let what = "this works only on the machine of the server, not over the network";
                return Err(Problem::new(catalogue::SCOPE_TOO_SMALL, what));
            }
            Least::Scope(least) => least,
        };
        if self.scope < least {
            let has = if self.token.is_some() { "the token has" } else { "jobs on a node have" };
            let what = format!("{has} scope {}, and this needs {least}", self.scope);
            return Err(Problem::new(catalogue::SCOPE_TOO_SMALL, what).try_this(format!(
                "gpool token create --scope {least}   (on the machine of the server)"
            )));
        }
        if let (true, false, Some(name)) =
            (least >= Scope::User, self.is_mapped, &self.network_user)
        {
            let what = format!("no system user belongs to network user {name}");
            return Err(Problem::new(catalogue::NOT_MAPPED, what)
                .because("an admin decides as which system user the jobs run")
                .try_this(format!("gpool user map {name} USER   (as an admin, on the server)")));
        }
        Ok(())
    }
}
