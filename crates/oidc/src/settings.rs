//! This program as a client of the provider.

/// How this program is registered at its provider.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// The address of the provider.
    pub issuer: String,
    pub client_id: String,
    /// Its secret; a public client has none.
    pub client_secret: Option<String>,
    /// Scopes to request beside `openid`.
    pub scopes: Vec<String>,
    /// The claim with the name of the user, e.g. `preferred_username`.
    pub name_claim: String,
    /// The claim with the groups of the user, e.g. `groups`.
    pub groups_claim: String,
}
