//! Access over the network: tokens, users that the system does not know, and the caller itself.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time::Time;

/// The most that a token allows. Each scope includes those before it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Read `/metrics` and `/openapi.json`.
    Metrics,
    /// Read what the user may read.
    Viewer,
    /// Submit jobs, and change those that the user may change.
    User,
    /// Change the projects that the user is an admin of.
    ProjectAdmin,
    /// Everything that the user may do.
    Admin,
}

impl Scope {
    /// All scopes, the smallest first.
    pub const ALL: [Self; 5] =
        [Self::Metrics, Self::Viewer, Self::User, Self::ProjectAdmin, Self::Admin];

    /// The scope in words, as in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Metrics => "metrics",
            Self::Viewer => "viewer",
            Self::User => "user",
            Self::ProjectAdmin => "project-admin",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            format!("there is no scope {text:?}; the scopes are {names}")
        })
    }
}

/// An access token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// ID of the token.
    pub id: String,
    /// Name, for its user.
    pub name: String,
    /// User that requests with the token act as: a system user or a network user.
    pub user: String,
    /// The most that it allows.
    pub scope: Scope,
    /// Time at which it was created.
    pub created_at: Time,
    /// User that created it.
    pub created_by: String,
    /// Time from which it is refused. `null`: never.
    pub expires_at: Option<Time>,
}

/// A new token with its secret, which only this answer contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NewToken {
    /// The token.
    #[serde(flatten)]
    pub token: Token,
    /// The secret, for the header `Authorization: Bearer SECRET`.
    pub secret: String,
}

/// A sign-in at the identity provider that waits for its user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceSignIn {
    /// Secret handle, to ask for the result.
    pub handle: String,
    /// Code that the user confirms.
    pub user_code: String,
    /// Address that the user opens.
    pub url: String,
    /// Address that contains the code.
    pub url_with_code: Option<String>,
    /// Seconds until the code expires.
    pub expires_in_s: u64,
    /// Seconds between two questions for the result.
    pub interval_s: u64,
}

/// The state of a sign-in at the identity provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceAnswer {
    /// Seconds until the next question.
    pub wait_s: u64,
    /// The token, once the user has confirmed. It is sent once.
    pub token: Option<NewToken>,
}

/// A token to create.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenCreate {
    /// Name, for its user: at most 80 characters.
    #[serde(default)]
    pub name: String,
    /// The most that it allows.
    pub scope: Scope,
    /// Time until it expires, such as `90d` (the default), or `never`, which only admins may set
    /// for scopes above `metrics`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// User that it is for: a system user, or a network user, whose name contains `@`. Only admins
    /// may name another user than themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// A network user, and the system user that runs their jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NetworkUser {
    /// Name of the network user, such as `ana@lab.org`.
    pub name: String,
    /// System user. `null`: the network user can't submit jobs, unless it is a user of the identity
    /// provider that acts as the system user of the same name.
    pub user: Option<String>,
    /// Address of the identity provider at which it has signed in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// Its ID there. The name belongs to this ID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Time of its first sign-in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

impl NetworkUser {
    /// One that has not signed in.
    #[must_use]
    pub fn new(name: String, user: Option<String>) -> Self {
        Self { name, user, issuer: None, subject: None, since: None }
    }
}

/// Sessions of browsers that were ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EndedSessions {
    /// Their number.
    pub n_sessions: usize,
}

/// The system user of a network user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MapUser {
    /// System user. `null` removes the rule.
    pub user: Option<String>,
}

/// How clients on the network recognize the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Authority {
    /// Address that the server listens on.
    pub listen: String,
    /// Fingerprint that clients pin, of the last certificate that the server shows.
    pub fingerprint: String,
    /// Certificate of the server's own authority in PEM. `null` if the site has its own.
    pub certificate: Option<String>,
}

/// The caller, as the server sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Me {
    /// System user that jobs of the caller run as. `null`: a network user without a rule.
    pub user: Option<String>,
    /// Network user, if the token is for one.
    pub network_user: Option<String>,
    /// The most that this connection allows.
    pub scope: Scope,
    /// Whether the caller is an admin here.
    pub admin: bool,
    /// ID of the token. `null` without one.
    pub token: Option<String>,
}
