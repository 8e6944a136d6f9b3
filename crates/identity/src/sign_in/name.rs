//! Names of an identity provider's users on this server.

/// Most characters of a network user's name.
const NAME_MAX: usize = 80;

/// Why a name is not taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// It could be another user's on this server.
    #[error(
        "the provider's name of the user has an @: an admin of this server lists the domains of \
         such names in oidc_domains, or sets oidc_name_claim"
    )]
    Domain,
    /// It could look like another name.
    #[error(
        "the provider's name of the user may have ASCII letters, digits and . _ + - only, at most \
         80 of them"
    )]
    Characters,
}

/// The network user for a name at a provider: `ana@sso.lab.org` for `ana`. An address in one of the
/// domains is a name on its own.
///
/// # Errors
/// The name could be taken for another one.
pub fn network_user(name: &str, host: &str, domains: &[String]) -> Result<String, BadName> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    let (own, network_user) = match name.split_once('@') {
        None => (name, format!("{name}@{host}")),
        Some((own, domain)) if domains.iter().any(|it| it == domain) => (own, name.to_owned()),
        Some(_) => return Err(BadName::Domain),
    };
    let is_good = !own.is_empty() && own.chars().all(is_plain);
    match is_good && network_user.chars().count() <= NAME_MAX {
        true => Ok(network_user),
        false => Err(BadName::Characters),
    }
}
