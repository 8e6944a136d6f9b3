//! User accounts of the system.

/// A user account of the system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserAccount {
    /// The login name.
    pub name: String,
    pub gid: u32,
    pub home: String,
    pub groups: Vec<String>,
    /// Whether it is a person's: no account of the system, and one that can log in.
    pub is_person: bool,
}

/// Finds an account by user ID. May block on the system's name service.
pub type FindAccount = fn(u32) -> Option<UserAccount>;
