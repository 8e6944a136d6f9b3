//! Access tokens and the system users of network users, in a file of the state folder. Only hashes
//! of the secrets are stored: these are random and long, so a plain hash suffices.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use gpool_model::Timestamp;
use gpool_wire::Scope;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::stored::{State, StoredFile};

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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRow {
    /// The ID, which is no secret.
    pub id: String,
    pub name: String,
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
    pub groups: Vec<String>,
    /// Whether the user has the rights of an admin.
    pub is_admin: bool,
    /// The system user that the user acts as if no rule names one.
    pub account: Option<String>,
    /// Whether that system user must be a person's.
    #[serde(default)]
    pub of_people: bool,
}

/// A user of an identity provider, and the network user that it is here from its first sign-in on.
/// The provider may give its name to another user later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// The address of the provider.
    pub issuer: String,
    /// The ID of the user there.
    pub subject: String,
    /// The network user.
    pub name: String,
    /// Time of the first sign-in.
    pub since: Timestamp,
}

impl Binding {
    fn is_of(&self, issuer: &str, subject: &str) -> bool {
        (self.issuer.as_str(), self.subject.as_str()) == (issuer, subject)
    }
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

/// The stored facts that the rights of a token depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenFacts {
    pub token: TokenRow,
    /// The system user that a rule names for its network user.
    pub rule: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct AccessFile {
    #[serde(default)]
    tokens: Vec<TokenRow>,
    /// System users by the names of their network users.
    #[serde(default)]
    users: BTreeMap<String, String>,
    /// The users of identity providers that have signed in.
    #[serde(default)]
    bindings: Vec<Binding>,
}

impl AccessFile {
    /// Adds a token; returns it with its ID and its secret.
    fn add(
        &mut self,
        mut row: TokenRow,
        now: Timestamp,
    ) -> Result<(TokenRow, String), CreateError> {
        self.tokens.retain(|it| it.is_valid(now));
        let own = self.tokens.iter().filter(|it| it.subject.is_same(&row.subject));
        if own.count() >= TOKENS_MAX {
            return Err(CreateError::TooMany);
        }
        let secret = format!("{PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(random::<32>()));
        row.id = random::<4>().iter().map(|byte| format!("{byte:02x}")).collect();
        row.hash = hash(&secret);
        if row.provided.is_some() {
            // The provider's last word holds for earlier sign-ins of the user, too.
            let is_earlier = |it: &&mut TokenRow| it.subject.is_same(&row.subject);
            for it in self.tokens.iter_mut().filter(is_earlier).filter(|it| it.provided.is_some()) {
                it.provided.clone_from(&row.provided);
                it.scope = it.scope.min(row.scope);
            }
        }
        self.tokens.push(row.clone());
        Ok((row, secret))
    }

    /// Whether a network user with this name, in capitals or not, is another one than that of the
    /// binding.
    fn is_taken(&self, binding: &Binding) -> bool {
        let is_same = |name: &str| name.eq_ignore_ascii_case(&binding.name);
        let others = self.bindings.iter().filter(|it| !it.is_of(&binding.issuer, &binding.subject));
        let bound = others.map(|it| it.name.as_str()).any(is_same);
        let in_tokens = self.tokens.iter().filter_map(|it| match &it.subject {
            Subject::Network(name) => Some(&**name),
            Subject::System { .. } => None,
        });
        let mut known = in_tokens.chain(self.users.keys().map(String::as_str));
        bound || known.any(|name| is_same(name) && name != binding.name)
    }
}

/// Why a token was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("the user has {TOKENS_MAX} tokens, the maximum")]
    TooMany,
    /// The name of the network user is another user's.
    #[error("another user has this name")]
    NameConflict,
    #[error("can't store the token: {0}")]
    Io(#[from] std::io::Error),
}

/// Tokens by the hashes of their secrets, with the file behind them.
pub struct Access(StoredFile<TokenTable>);

#[derive(Default)]
struct TokenTable {
    file: AccessFile,
    by_hash: HashMap<String, usize>,
}

impl From<AccessFile> for TokenTable {
    fn from(file: AccessFile) -> Self {
        let rows = file.tokens.iter().enumerate();
        Self { by_hash: rows.map(|(ix, row)| (row.hash.clone(), ix)).collect(), file }
    }
}

impl State for TokenTable {
    type File = AccessFile;
}

impl AsRef<AccessFile> for TokenTable {
    fn as_ref(&self) -> &AccessFile {
        &self.file
    }
}

impl Access {
    /// Opens the file of a state folder; without a file there are no tokens.
    ///
    /// # Errors
    /// The file can't be read: the server does not start without its tokens.
    pub fn open(state_dir: &Path) -> anyhow::Result<Self> {
        StoredFile::open(state_dir.join(FILE), "remove it, and create new tokens").map(Self)
    }

    /// Returns a receiver that changes when tokens or rules have changed.
    #[must_use]
    pub fn revocations(&self) -> watch::Receiver<u64> {
        self.0.changes()
    }

    fn state(&self) -> Arc<TokenTable> {
        self.0.state()
    }

    /// Stores a token; returns it with its ID and its secret.
    pub fn create(&self, row: TokenRow, now: Timestamp) -> Result<(TokenRow, String), CreateError> {
        self.0.change(|kept| kept.add(row, now))
    }

    /// Stores the token of a sign-in. The first one of a user binds it to its name.
    pub fn sign_in(
        &self,
        row: TokenRow,
        binding: Binding,
        now: Timestamp,
    ) -> Result<(TokenRow, String), CreateError> {
        self.0.change(|kept| {
            if kept.is_taken(&binding) {
                return Err(CreateError::NameConflict);
            }
            if !kept.bindings.iter().any(|it| it.is_of(&binding.issuer, &binding.subject)) {
                kept.bindings.push(binding);
            }
            kept.add(row, now)
        })
    }

    /// The valid token with this secret.
    #[must_use]
    pub fn find(&self, secret: &str, now: Timestamp) -> Option<TokenRow> {
        let state = self.state();
        // The lookup is by hash, so its time tells nothing about secrets.
        let row = &state.file.tokens[*state.by_hash.get(&hash(secret))?];
        row.is_valid(now).then(|| row.clone())
    }

    /// The valid token with this ID.
    #[must_use]
    pub fn by_id(&self, id: &str, now: Timestamp) -> Option<TokenRow> {
        let state = self.state();
        let mut rows = state.file.tokens.iter();
        rows.find(|row| row.id == id && row.is_valid(now)).cloned()
    }

    /// Returns a valid token with the system user that a rule names for it.
    #[must_use]
    pub fn standing(&self, id: &str, now: Timestamp) -> Option<TokenFacts> {
        let token = self.by_id(id, now)?;
        let rule = match &token.subject {
            Subject::Network(name) => self.user_of(name),
            Subject::System { .. } => None,
        };
        Some(TokenFacts { token, rule })
    }

    /// All valid tokens, the oldest first.
    #[must_use]
    pub fn tokens(&self, now: Timestamp) -> Vec<TokenRow> {
        let state = self.state();
        state.file.tokens.iter().filter(|row| row.is_valid(now)).cloned().collect()
    }

    /// Removes a token; it is refused from now on.
    ///
    /// # Errors
    /// The file can't be written; the token is still valid then.
    pub fn revoke(&self, id: &str) -> std::io::Result<()> {
        self.0.change(|kept| {
            kept.tokens.retain(|row| row.id != id);
            Ok(())
        })
    }

    /// The network user that a user of an identity provider has been since its first sign-in.
    #[must_use]
    pub fn bound(&self, issuer: &str, subject: &str) -> Option<String> {
        let state = self.state();
        let found = state.file.bindings.iter().find(|it| it.is_of(issuer, subject));
        found.map(|it| it.name.clone())
    }

    /// The users of identity providers that have signed in, the first one first.
    #[must_use]
    pub fn bindings(&self) -> Vec<Binding> {
        self.state().file.bindings.clone()
    }

    /// The rules: network users with their system users.
    #[must_use]
    pub fn users(&self) -> BTreeMap<String, String> {
        self.state().file.users.clone()
    }

    /// The system user of a network user.
    #[must_use]
    pub fn user_of(&self, network_user: &str) -> Option<String> {
        self.state().file.users.get(network_user).cloned()
    }

    /// Sets or removes the system user of a network user.
    ///
    /// # Errors
    /// The file can't be written; nothing was changed then.
    pub fn map(&self, network_user: &str, user: Option<String>) -> std::io::Result<()> {
        self.0.change(|kept| {
            match user {
                Some(user) => drop(kept.users.insert(network_user.to_owned(), user)),
                None => drop(kept.users.remove(network_user)),
            }
            Ok(())
        })
    }

    /// Forgets a network user: its tokens, its system user, and which user of the provider it is.
    /// Returns whether it was known.
    ///
    /// # Errors
    /// The file can't be written; nothing was changed then.
    pub fn forget(&self, network_user: &str) -> std::io::Result<bool> {
        self.0.change(|kept| {
            let is_it = |subject: &Subject| match subject {
                Subject::Network(name) => **name == *network_user,
                Subject::System { .. } => false,
            };
            let n_before = kept.tokens.len() + kept.bindings.len() + kept.users.len();
            kept.tokens.retain(|row| !is_it(&row.subject));
            kept.bindings.retain(|it| it.name != network_user);
            kept.users.remove(network_user);
            Ok(kept.tokens.len() + kept.bindings.len() + kept.users.len() < n_before)
        })
    }
}

/// The hash of a secret, which is stored in its place.
pub(crate) fn hash(secret: &str) -> String {
    blake3::hash(secret.as_bytes()).to_hex().to_string()
}

/// Random bytes for secrets.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // The kernel's generator fails only before it has been seeded, early in the boot.
    SystemRandom::new().fill(&mut bytes).expect("the kernel has random numbers");
    bytes
}
