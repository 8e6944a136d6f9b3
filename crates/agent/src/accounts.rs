//! The accounts of this machine that run jobs of users of a server on another machine. The server
//! names a user by ID and name, and on this machine both may be another user's.

use std::collections::BTreeMap;

use gpool_model::job::Owner;
use gpool_sys::user::{PasswdEntry, account, account_named};

/// Which account runs the jobs of a user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum UserRule {
    /// The account with the same name, which must have the same ID.
    #[default]
    Same,
    /// The account with the same name, whatever its ID.
    Name,
    /// The account with the same ID, whatever its name.
    Id,
    /// The account that is named for the user; for others as with `Same`.
    Map(BTreeMap<String, String>),
}

impl UserRule {
    /// Whether the ID of an account may differ from that of the user.
    #[must_use]
    pub fn changes_ids(&self) -> bool {
        matches!(self, Self::Name | Self::Map(_))
    }

    /// Returns the name or ID of the server's user that an account of this machine stands for.
    #[must_use]
    pub fn user_of(&self, uid: u32) -> String {
        let name = account(uid).map(|found| String::from_utf8_lossy(&found.name).into_owned());
        let Some(name) = name.filter(|_| *self != Self::Id) else { return uid.to_string() };
        let Self::Map(map) = self else { return name };
        let user = map.iter().find(|(_, account)| **account == name);
        user.map_or(name, |(user, _)| user.clone())
    }

    /// Returns the user as its account on this machine.
    ///
    /// # Errors
    /// There is no account, or it may be another user's; the text is for people, with the way out.
    pub fn resolve(&self, owner: &Owner) -> Result<Owner, String> {
        let Owner { uid, user, .. } = owner;
        let named = match self {
            Self::Map(map) => map.get(&**user).map(String::as_str),
            Self::Name => Some(&**user),
            Self::Same | Self::Id => None,
        };
        if let Some(name) = named {
            let found = account_named(name).ok_or_else(|| {
                format!("this machine has no account {name}, for user {user} of the server")
            })?;
            return Ok(of_account(&found));
        }
        if *self == Self::Id {
            let found = account(*uid);
            // Without an entry, the ID is used as it is.
            return Ok(found.map_or_else(|| owner.clone(), |found| of_account(&found)));
        }
        match account_named(user) {
            Some(found) if found.uid == *uid => Ok(of_account(&found)),
            Some(found) => Err(format!(
                "user {user} has ID {uid} on the server and {} on this machine; with users = \
                 \"name\" in its gpool.toml, the name alone counts",
                found.uid
            )),
            // A user without a name on the server either.
            None if user.parse() == Ok(*uid) && account(*uid).is_none() => Ok(owner.clone()),
            None => Err(format!(
                "this machine has no account {user}; create it with ID {uid}, or set users in its \
                 gpool.toml"
            )),
        }
    }
}

fn of_account(found: &PasswdEntry) -> Owner {
    let user = String::from_utf8_lossy(&found.name).into();
    Owner { uid: found.uid, gid: found.gid, user }
}
