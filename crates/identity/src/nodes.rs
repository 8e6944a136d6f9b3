//! The nodes on other machines: the tokens with which they join, and the certificates of those that
//! have joined.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use gpool_model::{NodeName, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::access::{hash, random};
use crate::stored::{State, StoredFile};

/// The file in the state folder.
pub const FILE: &str = "nodes.json";
/// Begins each join token, so that scanners of published files recognize one.
const PREFIX: &str = "gn_";
/// The tokens and certificates of nodes, with the file behind them.
pub struct NodeAdmissions(StoredFile<AdmissionsFile>);

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct AdmissionsFile {
    #[serde(default)]
    tokens: Vec<JoinToken>,
    /// The fingerprints of the valid certificates of each node that has joined.
    #[serde(default)]
    nodes: BTreeMap<NodeName, Vec<String>>,
}

/// A token for one node, which serves once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct JoinToken {
    node: NodeName,
    expires_at: Timestamp,
    /// Hash of the secret, which is random and long.
    hash: String,
}

impl State for AdmissionsFile {
    type File = Self;
}

impl AsRef<Self> for AdmissionsFile {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl NodeAdmissions {
    /// Opens the file of a state folder; without a file there are no other machines.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn open(state_dir: &Path) -> anyhow::Result<Self> {
        StoredFile::open(state_dir.join(FILE), "remove it, and have each node join again").map(Self)
    }

    /// Returns a receiver that changes when a node was admitted or removed.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes()
    }

    /// Creates the token of a node in place of an earlier one; returns its secret.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn invite(
        &self,
        node: &NodeName,
        now: Timestamp,
        expires_at: Timestamp,
    ) -> io::Result<String> {
        let secret = format!("{PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(random::<32>()));
        let token = JoinToken { node: node.clone(), expires_at, hash: hash(&secret) };
        self.0.change(|file| {
            file.tokens.retain(|it| it.node != *node && now < it.expires_at);
            file.tokens.push(token);
            Ok(secret)
        })
    }

    /// Returns the node of a valid token.
    #[must_use]
    pub fn invited(&self, secret: &str, now: Timestamp) -> Option<NodeName> {
        let (file, hash) = (self.0.state(), hash(secret));
        let token = file.tokens.iter().find(|it| it.hash == hash && now < it.expires_at);
        token.map(|token| token.node.clone())
    }

    /// Uses up a token and admits its node with a certificate. Earlier certificates of the node are
    /// refused from now on. Returns whether the token was valid.
    ///
    /// # Errors
    /// The file can't be written; the token is still valid then.
    pub fn admit(&self, secret: &str, certificate: String, now: Timestamp) -> io::Result<bool> {
        let hash = hash(secret);
        self.0.change(|file| {
            let is_it = |it: &JoinToken| it.hash == hash && now < it.expires_at;
            let Some(position) = file.tokens.iter().position(is_it) else { return Ok(false) };
            let token = file.tokens.remove(position);
            file.nodes.insert(token.node, vec![certificate]);
            Ok(true)
        })
    }

    /// Adds the next certificate of a node. The one with which the agent requests it stays valid
    /// until the agent uses the next one for a request like this: the answer may be lost. Returns
    /// whether the node is still admitted.
    ///
    /// # Errors
    /// The file can't be written; nothing was changed then.
    pub fn renew(&self, node: &NodeName, present: &str, next: String) -> io::Result<bool> {
        self.0.change(|file| {
            let Some(certificates) = file.nodes.get_mut(node) else { return Ok(false) };
            certificates.retain(|it| it == present);
            certificates.push(next);
            Ok(true)
        })
    }

    /// Returns the node of a certificate by its fingerprint.
    #[must_use]
    pub fn node_of(&self, certificate: &str) -> Option<NodeName> {
        let file = self.0.state();
        let mut nodes = file.nodes.iter();
        let is_of = |certificates: &[String]| certificates.iter().any(|it| it == certificate);
        nodes.find(|(_, certificates)| is_of(certificates)).map(|(name, _)| name.clone())
    }

    /// Whether a node was admitted, or may join.
    #[must_use]
    pub fn knows(&self, node: &NodeName) -> bool {
        let file = self.0.state();
        file.nodes.contains_key(node) || file.tokens.iter().any(|it| it.node == *node)
    }

    /// Every admitted node.
    #[must_use]
    pub fn admitted(&self) -> Vec<NodeName> {
        self.0.state().nodes.keys().cloned().collect()
    }

    /// Refuses the certificates and the token of a node from now on.
    ///
    /// # Errors
    /// The file can't be written; nothing was changed then.
    pub fn remove(&self, node: &NodeName) -> io::Result<()> {
        self.0.change(|file| {
            file.nodes.remove(node);
            file.tokens.retain(|it| it.node != *node);
            Ok(())
        })
    }
}
