//! The user that asks: the peer of the connection, identified by the kernel. User names in
//! requests and environment variables do not matter.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use gpool_model::{Caller, Owner};
use gpool_wire::Scope;

use super::way::{Origin, Way};
use gpool_identity::pool::RequestSource;
use gpool_server::account::{FindAccount, UserAccount};

/// The user and group ID of callers without a user of the system. No user of the system has it.
/// Source: POSIX.1-2024, `chown()`.
pub const NOBODY: u32 = u32::MAX;

/// The user of a connection: its peer as identified by the kernel, or the user of a token.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    pub uid: u32,
    /// The group of the peer's process; `None` stands for the primary group of the account.
    pub gid: Option<u32>,
    pub pid: Option<u32>,
}

/// Identifies the user of a peer.
pub trait Identify: Send + Sync {
    /// Returns the user of a peer. The system's name service may take its time.
    fn find(&self, peer: Peer) -> Asker;

    /// Returns the user of a peer if it was looked up a short time ago.
    fn recent(&self, _: Peer) -> Option<Asker> {
        None
    }
}

impl<F: Fn(Peer) -> Asker + Send + Sync> Identify for F {
    fn find(&self, peer: Peer) -> Asker {
        self(peer)
    }
}

/// A resource limit: kind by the kernel's number, soft, hard; `None` is unlimited.
pub type Limit = (u32, Option<u64>, Option<u64>);

/// The user of one connection.
#[derive(Debug)]
pub struct Asker {
    pub caller: Caller,
    pub home: String,
    /// The process that connected, if known.
    pub pid: Option<u32>,
    pub way: Way,
    /// Whether the account is a person's.
    pub is_person: bool,
    limits: OnceLock<Vec<Limit>>,
}

impl Asker {
    pub fn new(caller: Caller, home: String, pid: Option<u32>) -> Self {
        let way = Way::local(Origin::Socket);
        Self { caller, home, pid, way, is_person: false, limits: OnceLock::new() }
    }

    /// The same user on another way in. Only scope `admin` has an admin's rights.
    pub fn by(mut self, way: Way) -> Self {
        self.caller.admin &= way.scope == Scope::Admin;
        Self { way, ..self }
    }

    /// Whether it may do all that another one may.
    pub fn has_rights_of(&self, other: &Self) -> bool {
        let (own, its) = (&self.caller, &other.caller);
        own.owner == its.owner
            && own.admin >= its.admin
            && own.groups.is_superset(&its.groups)
            && self.way.scope >= other.way.scope
            && self.way.is_mapped >= other.way.is_mapped
    }

    /// By what its work is limited: its user, or its address if that is not known.
    pub fn source(&self) -> RequestSource {
        match self.way.origin {
            Origin::Network(from) if self.caller.owner.uid == NOBODY => RequestSource::of(from),
            _ => RequestSource::User(self.caller.owner.uid),
        }
    }

    /// Whether the caller may see private data of this user.
    pub fn may_see(&self, uid: u32) -> bool {
        self.caller.admin || self.caller.owner.uid == uid
    }

    /// Returns the resource limits of the calling process; empty if they cannot be read. The job
    /// then gets the node's limits.
    pub fn limits(&self) -> &[Limit] {
        self.limits.get_or_init(|| {
            let uid = self.caller.owner.uid;
            self.pid.and_then(|pid| limits_of(pid, uid)).unwrap_or_default()
        })
    }
}

/// The asker of a request, from its connection.
#[derive(Debug, Clone)]
pub struct Asks(pub Arc<Asker>);

impl<S: Send + Sync> FromRequestParts<S> for Asks {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let asks = parts.extensions.get::<Self>().cloned();
        Ok(asks.expect("every connection is given its asker before its first request"))
    }
}

/// Accounts by user ID, refreshed after some time.
pub struct Accounts {
    find: FindAccount,
    /// The server's user is an admin.
    server_uid: u32,
    /// By user ID: when it was looked up, and the account if there is one.
    accounts: Mutex<HashMap<u32, (Instant, Option<UserAccount>)>>,
}

impl Accounts {
    const CACHE_TTL: Duration = Duration::from_secs(60);

    pub fn new(find: FindAccount, server_uid: u32) -> Self {
        Self { find, server_uid, accounts: Mutex::new(HashMap::new()) }
    }

    fn accounts(&self) -> MutexGuard<'_, HashMap<u32, (Instant, Option<UserAccount>)>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The account of a user, if it was looked up a short time ago; `Some(None)` if there is none.
    fn recent_account(&self, uid: u32) -> Option<Option<UserAccount>> {
        let accounts = self.accounts();
        let (at, account) = accounts.get(&uid)?;
        (at.elapsed() < Self::CACHE_TTL).then(|| account.clone())
    }

    /// The user of a peer. A user without an account is named by the numeric ID.
    fn asker(&self, peer: Peer, account: Option<UserAccount>) -> Asker {
        let Peer { uid, gid, pid } = peer;
        let is_person = account.as_ref().is_some_and(|account| account.is_person);
        let gid = gid.or(account.as_ref().map(|account| account.gid)).unwrap_or(uid);
        let (name, home, groups) = match account {
            Some(account) => (account.name, account.home, account.groups),
            None => (uid.to_string(), String::new(), Vec::new()),
        };
        let home = if home.starts_with('/') { home } else { "/".to_owned() };
        let owner = Owner { uid, gid, user: Arc::from(name) };
        let mut caller = Caller::new(owner, uid == 0 || uid == self.server_uid);
        caller.groups = groups.into_iter().map(Arc::from).collect();
        Asker { is_person, ..Asker::new(caller, home, pid) }
    }
}

impl Identify for Accounts {
    fn find(&self, peer: Peer) -> Asker {
        if let Some(asker) = self.recent(peer) {
            return asker;
        }
        let account = (self.find)(peer.uid);
        self.accounts().insert(peer.uid, (Instant::now(), account.clone()));
        self.asker(peer, account)
    }

    fn recent(&self, peer: Peer) -> Option<Asker> {
        Some(self.asker(peer, self.recent_account(peer.uid)?))
    }
}

/// Names in `/proc/PID/limits` with the kernel's numbers.
/// Source: `lnames` in Linux's `fs/proc/base.c`; `asm-generic/resource.h`.
pub const LIMITS: [(&str, u32); 16] = [
    ("Max cpu time", 0),
    ("Max file size", 1),
    ("Max data size", 2),
    ("Max stack size", 3),
    ("Max core file size", 4),
    ("Max resident set", 5),
    ("Max processes", 6),
    ("Max open files", 7),
    ("Max locked memory", 8),
    ("Max address space", 9),
    ("Max file locks", 10),
    ("Max pending signals", 11),
    ("Max msgqueue size", 12),
    ("Max nice priority", 13),
    ("Max realtime priority", 14),
    ("Max realtime timeout", 15),
];

/// Returns the limits of a process; `None` if it does not run as this user.
pub fn limits_of(pid: u32, uid: u32) -> Option<Vec<Limit>> {
    let folder = format!("/proc/{pid}");
    let limits = fs::read_to_string(format!("{folder}/limits")).ok()?;
    // Check the owner after reading: another user's process may have got the same number in
    // between.
    if fs::metadata(&folder).ok()?.uid() != uid {
        return None;
    }
    Some(parse_limits(&limits))
}

/// Reads the text of `/proc/PID/limits`.
pub fn parse_limits(text: &str) -> Vec<Limit> {
    let number = |word: &str| match word {
        "unlimited" => Some(None),
        digits => digits.parse().ok().map(Some),
    };
    let row = |(name, kind): &(&str, u32)| {
        let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
        let mut words = rest.split_whitespace();
        Some((*kind, number(words.next()?)?, number(words.next()?)?))
    };
    LIMITS.iter().filter_map(row).collect()
}
