//! Names of blobs: made of the owner and the content with a secret key.

use std::fmt;
use std::str::FromStr;

/// The name of a blob: its owner's user id and 64 hexadecimal digits, `u1000-…`. Blobs of layout 3
/// and before have no owner: the digits alone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobId(String);

impl BlobId {
    pub(crate) fn of(key: &Key, owner: Option<u32>, bytes: &[u8]) -> Self {
        match owner {
            None => Self(blake3::keyed_hash(key, bytes).to_hex().to_string()),
            Some(uid) => {
                let mut hasher = blake3::Hasher::new_keyed(key);
                let hash = hasher.update(b"user").update(&uid.to_le_bytes()).update(bytes);
                Self(format!("u{uid}-{}", hash.finalize().to_hex()))
            }
        }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The user that stored it.
    #[must_use]
    pub fn owner(&self) -> Option<u32> {
        self.0.strip_prefix('u')?.split_once('-')?.0.parse().ok()
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for BlobId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let (owner, digits) = match text.split_once('-') {
            Some((owner, digits)) => (Some(owner), digits),
            None => (None, text),
        };
        // Written in one way only, so that two names are never of one file.
        let is_owner = |owner: &str| {
            let uid = owner.strip_prefix('u').and_then(|uid| uid.parse::<u32>().ok());
            uid.is_some_and(|uid| owner == format!("u{uid}"))
        };
        if digits.len() != 64 || !digits.bytes().all(digit) || !owner.is_none_or(is_owner) {
            return Err(format!("`{text}` is not the name of a blob: u1000- and 64 of 0-9, a-f"));
        }
        Ok(Self(text.to_owned()))
    }
}

/// The secret that names are made with.
pub type Key = [u8; 32];
