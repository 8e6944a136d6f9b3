//! Links that sign a user in, and the sessions that follow. They are in memory only: after a
//! restart of the server, users sign in again. Secrets are kept as hashes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ring::rand::{SecureRandom, SystemRandom};
use tokio::sync::watch;

/// How long a link works.
pub const LINK: Duration = Duration::from_secs(30);
/// How long a session lasts.
const SESSION: Duration = Duration::from_secs(12 * 3600);
/// The most open links, and the most sessions, of one user; the oldest go first.
const MOST: usize = 64;

/// The hash of a secret with the label of its host.
type Key = [u8; 32];

/// The label of a host, and on the loopback address the user that runs the browser.
pub type At<'h> = (&'h str, Option<u32>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionKey(Key);

impl SessionKey {
    /// That of a secret, at a host with this label.
    pub fn new(label: &str, secret: &str) -> Self {
        Self(key(label, secret))
    }
}

/// A signed-in user. The account or the token is looked up for each page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignedIn {
    /// A user of this machine, by numbers.
    User { uid: u32, gid: u32 },
    /// The user of a token, by its ID.
    Token(Arc<str>),
}

impl SignedIn {
    /// Whether a process of this user may use the link.
    fn is_of(&self, uid: Option<u32>) -> bool {
        match self {
            Self::User { uid: own, .. } => uid == Some(*own),
            Self::Token(_) => false,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::User { uid, .. }, Self::User { uid: other, .. }) => uid == other,
            (Self::Token(id), Self::Token(other)) => id == other,
            (Self::User { .. }, Self::Token(_)) | (Self::Token(_), Self::User { .. }) => false,
        }
    }
}

/// The right to act as a user, in one browser and for some time.
#[derive(Debug, Clone)]
struct Grant {
    user: SignedIn,
    /// The user that runs the browser, on the loopback address.
    browser: Option<u32>,
    until: Instant,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The host's label below `localhost`.
    pub label: String,
    /// The secret part of the path.
    pub code: String,
}

/// Why a link begins no session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotRedeemed {
    /// It was used already, or too late.
    Over,
    /// It is for another user than that of the browser.
    OtherUser,
}

#[derive(Debug)]
pub struct Sessions {
    random: SystemRandom,
    /// The key of the labels that are made for users.
    label_key: Key,
    links: Mutex<HashMap<Key, Grant>>,
    sessions: Mutex<HashMap<Key, Grant>>,
    endings: watch::Sender<u64>,
}

impl Default for Sessions {
    fn default() -> Self {
        let random = SystemRandom::new();
        let mut label_key = Key::default();
        fill(&random, &mut label_key);
        Self {
            random,
            label_key,
            links: Mutex::default(),
            sessions: Mutex::default(),
            endings: watch::Sender::new(0),
        }
    }
}

impl Sessions {
    /// A new label for a host of a user. Only this user's browser learns it.
    pub fn label(&self, uid: u32) -> String {
        let mut bytes = [0; 8];
        fill(&self.random, &mut bytes);
        self.label_with(hexadecimal(&bytes), uid)
    }

    fn label_with(&self, number: String, uid: u32) -> String {
        let text = format!("{number} {uid}");
        let hash = blake3::keyed_hash(&self.label_key, text.as_bytes());
        number + &hexadecimal(&hash.as_bytes()[..16])
    }

    /// Whether a label was made for this user.
    pub fn is_label_of(&self, label: &str, uid: u32) -> bool {
        label.get(..16).is_some_and(|number| self.label_with(number.to_owned(), uid) == label)
    }

    pub fn invite(&self, user: SignedIn, now: Instant) -> Link {
        let label = self.secret();
        let code = self.invite_at(&label, user, now + LINK, now);
        Link { label, code }
    }

    /// Makes a link at a host with this label; returns the code.
    pub fn invite_at(&self, label: &str, user: SignedIn, until: Instant, now: Instant) -> String {
        let code = self.secret();
        add(&self.links, key(label, &code), Grant { user, browser: None, until }, now);
        code
    }

    /// Uses up a link in a process of this user; returns the secret of the new session.
    ///
    /// # Errors
    /// The link is over, or that of another user; the other user can still use it.
    pub fn redeem(
        &self,
        (label, uid): At<'_>,
        code: &str,
        now: Instant,
    ) -> Result<String, NotRedeemed> {
        self.redeem_if(|grant| grant.user.is_of(uid), (label, uid), code, now)
    }

    /// Uses up a link over the network, where only its code is known; returns the secret of the new
    /// session.
    ///
    /// # Errors
    /// The link is over.
    pub fn redeem_remote(
        &self,
        label: &str,
        code: &str,
        now: Instant,
    ) -> Result<String, NotRedeemed> {
        self.redeem_if(|_| true, (label, None), code, now)
    }

    fn redeem_if(
        &self,
        may_use: impl Fn(&Grant) -> bool,
        (label, uid): At<'_>,
        code: &str,
        now: Instant,
    ) -> Result<String, NotRedeemed> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let key = key(label, code);
        let grant = links.get(&key).filter(|grant| grant.until > now).ok_or(NotRedeemed::Over)?;
        if !may_use(grant) {
            return Err(NotRedeemed::OtherUser);
        }
        let grant = links.remove(&key).ok_or(NotRedeemed::Over)?;
        drop(links);
        Ok(self.begin((label, uid), grant.user, now))
    }

    /// Begins a session at a host in a browser of this user; returns its secret.
    pub fn begin(&self, (label, uid): At<'_>, user: SignedIn, now: Instant) -> String {
        let secret = self.secret();
        let grant = Grant { user, browser: uid, until: now + SESSION };
        add(&self.sessions, key(label, &secret), grant, now);
        secret
    }

    pub fn end(&self, label: &str, secret: &str) {
        let ended = key(label, secret);
        self.end_those(|key, _| *key == ended);
    }

    /// Ends all sessions and links of a user, or of all users; returns how many sessions.
    pub fn end_all(&self, of: Option<u32>) -> usize {
        let is_of = |grant: &Grant| match (of, &grant.user) {
            (None, _) => true,
            (Some(uid), SignedIn::User { uid: own, .. }) => *own == uid,
            (Some(_), SignedIn::Token(_)) => false,
        };
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|_, grant| !is_of(grant));
        drop(links);
        self.end_those(|_, grant| is_of(grant))
    }

    /// Ends the sessions of a token; returns how many.
    pub fn end_of_token(&self, id: &str) -> usize {
        self.end_those(|_, grant| matches!(&grant.user, SignedIn::Token(own) if **own == *id))
    }

    fn end_those(&self, is_ended: impl Fn(&Key, &Grant) -> bool) -> usize {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let n_before = sessions.len();
        sessions.retain(|key, grant| !is_ended(key, grant));
        let n_ended = n_before - sessions.len();
        drop(sessions);
        self.endings.send_modify(|n_endings| *n_endings += 1);
        n_ended
    }

    /// A receiver that changes when sessions were ended.
    pub fn endings(&self) -> watch::Receiver<u64> {
        self.endings.subscribe()
    }

    /// Whether a session is not over.
    pub fn is_open(&self, session: &SessionKey, now: Instant) -> bool {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.get(&session.0).is_some_and(|grant| grant.until > now)
    }

    /// The user of a session, if the browser belongs to the same user as at the start of the
    /// session. Another user of this machine may have got the cookie.
    pub fn user(&self, (label, uid): At<'_>, secret: &str, now: Instant) -> Option<SignedIn> {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let grant = sessions.get(&key(label, secret)).filter(|grant| grant.until > now)?;
        (grant.browser == uid).then(|| grant.user.clone())
    }

    /// The token of a session's forms. It follows from the secret, which pages can't read.
    pub fn csrf(&self, label: &str, secret: &str) -> String {
        blake3::hash(format!("csrf {label}.{secret}").as_bytes()).to_hex().to_string()
    }

    /// 128 random bits in hexadecimal.
    pub(crate) fn secret(&self) -> String {
        let mut bytes = [0; 16];
        fill(&self.random, &mut bytes);
        hexadecimal(&bytes)
    }
}

fn fill(random: &SystemRandom, bytes: &mut [u8]) {
    // The kernel's generator fails only before it has been seeded, early in the boot.
    random.fill(bytes).expect("the kernel has random numbers");
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn key(label: &str, secret: &str) -> Key {
    *blake3::hash(format!("{label}.{secret}").as_bytes()).as_bytes()
}

fn add(to: &Mutex<HashMap<Key, Grant>>, key: Key, grant: Grant, now: Instant) {
    let mut grants = to.lock().unwrap_or_else(PoisonError::into_inner);
    grants.retain(|_, grant| grant.until > now);
    let own = grants.iter().filter(|(_, it)| it.user.is_same(&grant.user));
    let mut own: Vec<(Instant, Key)> = own.map(|(key, it)| (it.until, *key)).collect();
    if own.len() >= MOST {
        own.sort_unstable();
        grants.remove(&own[0].1);
    }
    grants.insert(key, grant);
}
