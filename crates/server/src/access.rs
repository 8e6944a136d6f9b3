//! Access tokens and the system users of network users, in a file of the state folder. Only hashes
//! of the secrets are stored: these are random and long, so a plain hash suffices.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use gpool_model::Timestamp;
use gpool_wire::Scope;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// The file in the state folder.
pub const FILE: &str = "access.json";
/// Begins each secret, so that scanners of published files recognize one.
const PREFIX: &str = "gp_";
/// The most valid tokens of one user.
pub const TOKENS_MAX: usize = 100;

/// The user that requests with a token act as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// A user of the system. The account is looked up for each connection.
    System {
        /// The user ID.
        uid: u32,
        /// The name when the token was created.
        user: Arc<str>,
    },
    /// A user that the system does not know; a rule may name a system user.
    Network(Arc<str>),
}

impl Subject {
    /// The name for people.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        match self {
            Self::System { user, .. } => user,
            Self::Network(name) => name,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::System { uid, .. }, Self::System { uid: other, .. }) => uid == other,
            (Self::Network(name), Self::Network(other)) => name == other,
            (Self::System { .. }, Self::Network(_)) | (Self::Network(_), Self::System { .. }) => {
                false
            }
        }
    }
}

/// A stored token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRow {
    /// The ID, which is no secret.
    pub id: String,
    /// The name, for its user.
    pub name: String,
    /// Its user.
    pub subject: Subject,
    /// The most that it allows.
    pub scope: Scope,
    /// Time at which it was created.
    pub created_at: Timestamp,
    /// Name of the user that created it.
    pub created_by: Arc<str>,
    /// Time from which it is refused; `None` means never.
    pub expires_at: Option<Timestamp>,
    /// What an identity provider said of its user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provided: Option<Provided>,
    /// Hash of the secret.
    #[serde(default)]
    hash: String,
}

/// What an identity provider said of a network user at the sign-in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provided {
    /// Groups.
    pub groups: Vec<String>,
    /// Whether the user has the rights of an admin.
    pub is_admin: bool,
    /// The system user that the user acts as if no rule names one.
    pub account: Option<String>,
}

impl TokenRow {
    /// A token that is not stored yet.
    #[must_use]
    pub fn new(
        (name, subject, scope): (String, Subject, Scope),
        (created_by, created_at): (Arc<str>, Timestamp),
        expires_at: Option<Timestamp>,
    ) -> Self {
        let (id, hash) = (String::new(), String::new());
        let provided = None;
        Self { id, name, subject, scope, created_at, created_by, expires_at, provided, hash }
    }

    /// The same for a user of an identity provider.
    #[must_use]
    pub fn provided(self, provided: Provided) -> Self {
        Self { provided: Some(provided), ..self }
    }

    fn is_valid(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|end| now < end)
    }
}

/// The file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Kept {
    #[serde(default)]
    tokens: Vec<TokenRow>,
    /// System users by the names of their network users.
    #[serde(default)]
    users: BTreeMap<String, String>,
}

/// Why a token was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The user has too many.
    #[error("the user has {TOKENS_MAX} tokens, the maximum")]
    TooMany,
    /// The file can't be written.
    #[error("can't store the token: {0}")]
    Io(#[from] std::io::Error),
}

/// Tokens by the hashes of their secrets, with the file behind them.
pub struct Access {
    path: PathBuf,
    // The file has the same content.
    state: Mutex<State>,
    revocations: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    kept: Kept,
    by_hash: HashMap<String, usize>,
}

impl From<Kept> for State {
    fn from(kept: Kept) -> Self {
        let rows = kept.tokens.iter().enumerate();
        Self { by_hash: rows.map(|(ix, row)| (row.hash.clone(), ix)).collect(), kept }
    }
}

impl Access {
    /// Opens the file of a state folder; without a file there are no tokens.
    ///
    /// # Errors
    /// The file can't be read: the server does not start without its tokens.
    pub fn open(state_dir: &Path) -> anyhow::Result<Self> {
        let path = state_dir.join(FILE);
        let shown = path.display();
        let kept: Kept = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .with_context(|| format!("{shown} is damaged: remove it, and create new tokens"))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Kept::default(),
            Err(error) => return Err(error).with_context(|| format!("can't read {shown}")),
        };
        Ok(Self { state: Mutex::new(kept.into()), path, revocations: watch::Sender::new(0) })
    }

    /// Returns a receiver that changes when tokens or rules have changed.
    #[must_use]
    pub fn revocations(&self) -> watch::Receiver<u64> {
        self.revocations.subscribe()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the new content, then takes it over. Waits for the disk.
    fn store(&self, state: &mut State, kept: Kept) -> std::io::Result<()> {
        let new = self.path.with_extension("json.new");
        let mut options = File::options();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec(&kept)?)?;
        file.sync_all()?;
        std::fs::rename(&new, &self.path)?;
        // A revoked token must not come back after a power failure.
        if let Some(folder) = self.path.parent() {
            File::open(folder)?.sync_all()?;
        }
        *state = kept.into();
        self.revocations.send_modify(|n_changes| *n_changes += 1);
        Ok(())
    }

    /// Stores a token; returns it with its ID and its secret.
    ///
    /// # Errors
    /// Its user has too many, or the file can't be written.
    pub fn create(
        &self,
        mut row: TokenRow,
        now: Timestamp,
    ) -> Result<(TokenRow, String), CreateError> {
        let mut state = self.state();
        let mut kept = state.kept.clone();
        kept.tokens.retain(|it| it.is_valid(now));
        let own = kept.tokens.iter().filter(|it| it.subject.is_same(&row.subject));
        if own.count() >= TOKENS_MAX {
            return Err(CreateError::TooMany);
        }
        let secret = format!("{PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(random::<32>()));
        row.id = random::<4>().iter().map(|byte| format!("{byte:02x}")).collect();
        row.hash = hash(&secret);
        if row.provided.is_some() {
            // The provider's last word holds for earlier sign-ins of the user, too.
            let is_earlier = |it: &&mut TokenRow| it.subject.is_same(&row.subject);
            for it in kept.tokens.iter_mut().filter(is_earlier).filter(|it| it.provided.is_some()) {
                it.provided.clone_from(&row.provided);
                it.scope = it.scope.min(row.scope);
            }
        }
        kept.tokens.push(row.clone());
        self.store(&mut state, kept)?;
        Ok((row, secret))
    }

    /// The valid token with this secret.
    #[must_use]
    pub fn find(&self, secret: &str, now: Timestamp) -> Option<TokenRow> {
        let state = self.state();
        // The lookup is by hash, so its time tells nothing about secrets.
        let row = &state.kept.tokens[*state.by_hash.get(&hash(secret))?];
        row.is_valid(now).then(|| row.clone())
    }

    /// The valid token with this ID.
    #[must_use]
    pub fn by_id(&self, id: &str, now: Timestamp) -> Option<TokenRow> {
        self.tokens(now).into_iter().find(|row| row.id == id)
    }

    /// All valid tokens, the oldest first.
    #[must_use]
    pub fn tokens(&self, now: Timestamp) -> Vec<TokenRow> {
        let state = self.state();
        state.kept.tokens.iter().filter(|row| row.is_valid(now)).cloned().collect()
    }

    /// Removes a token; it is refused from now on.
    ///
    /// # Errors
    /// The file can't be written; the token is still valid then.
    pub fn revoke(&self, id: &str) -> std::io::Result<()> {
        let mut state = self.state();
        let mut kept = state.kept.clone();
        kept.tokens.retain(|row| row.id != id);
        self.store(&mut state, kept)
    }

    /// The rules: network users with their system users.
    #[must_use]
    pub fn users(&self) -> BTreeMap<String, String> {
        self.state().kept.users.clone()
    }

    /// The system user of a network user.
    #[must_use]
    pub fn user_of(&self, network_user: &str) -> Option<String> {
        self.state().kept.users.get(network_user).cloned()
    }

    /// Sets or removes the system user of a network user.
    ///
    /// # Errors
    /// The file can't be written; nothing was changed then.
    pub fn map(&self, network_user: &str, user: Option<String>) -> std::io::Result<()> {
        let mut state = self.state();
        let mut kept = state.kept.clone();
        match user {
            Some(user) => drop(kept.users.insert(network_user.to_owned(), user)),
            None => drop(kept.users.remove(network_user)),
        }
        self.store(&mut state, kept)
    }
}

fn hash(secret: &str) -> String {
    blake3::hash(secret.as_bytes()).to_hex().to_string()
}

/// Random bytes for secrets.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // The kernel's generator fails only before it has been seeded, early in the boot.
    SystemRandom::new().fill(&mut bytes).expect("the kernel has random numbers");
    bytes
}
