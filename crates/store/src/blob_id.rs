//! Names of blobs: made of the owner and of a keyed hash of the content.

use std::fmt;
use std::str::FromStr;

/// The name of a blob: its owner's user id and 64 hexadecimal digits, `u1000-…`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobId {
    text: String,
    owner: u32,
}

impl BlobId {
    pub(crate) fn of(key: &Key, owner: u32, bytes: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new_keyed(key);
        let hash = hasher.update(b"user").update(&owner.to_le_bytes()).update(bytes).finalize();
        Self { text: format!("u{owner}-{}", hash.to_hex()), owner }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the ID of the user that stored the blob.
    #[must_use]
    pub fn owner(&self) -> u32 {
        self.owner
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl FromStr for BlobId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let parts = text.strip_prefix('u').and_then(|rest| rest.split_once('-'));
        let owner = parts.filter(|(_, hash)| hash.len() == 64 && hash.bytes().all(digit));
        let owner = owner.and_then(|(owner, _)| owner.parse::<u32>().ok());
        // A number is accepted in one form only, so that two names never mean one file.
        match owner.filter(|owner| text.starts_with(&format!("u{owner}-"))) {
            Some(owner) => Ok(Self { text: text.to_owned(), owner }),
            None => Err(format!("`{text}` is not the name of a blob: u1000- and 64 of 0-9, a-f")),
        }
    }
}

/// The secret key for names.
pub type Key = [u8; 32];
