//! Several objects in one request: each as its length, in four bytes with the lowest first, and its
//! bytes. Objects need no names, since the receiver hashes them.

use thiserror::Error;

use crate::object::OBJECT_MAX;

/// The most bytes of a bundle.
pub const BUNDLE_MAX: usize = OBJECT_MAX + (4 << 20);
/// A sender closes a bundle at this size.
pub const BUNDLE_FULL: usize = 4 << 20;
const LENGTH: usize = 4;

/// Why bytes are no bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BundleError {
    /// The last object is incomplete.
    #[error("the last of the objects is cut off")]
    Cut,
    /// An object is too large.
    #[error("an object has {n_bytes} bytes; at most {OBJECT_MAX} are allowed")]
    TooLarge {
        /// Its size.
        n_bytes: usize,
    },
}

/// Adds an object to a bundle.
///
/// # Panics
/// If the object is larger than [`OBJECT_MAX`].
pub fn push(bundle: &mut Vec<u8>, object: &[u8]) {
    assert!(object.len() <= OBJECT_MAX, "objects are at most {OBJECT_MAX} bytes");
    let length = u32::try_from(object.len()).unwrap_or(u32::MAX);
    bundle.extend(length.to_le_bytes());
    bundle.extend(object);
}

/// Returns the objects of a bundle.
///
/// # Errors
/// See [`BundleError`].
pub fn objects(mut bytes: &[u8]) -> Result<Vec<&[u8]>, BundleError> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_first_chunk::<LENGTH>().ok_or(BundleError::Cut)?;
        let n_bytes = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        if n_bytes > OBJECT_MAX {
            return Err(BundleError::TooLarge { n_bytes });
        }
        let (object, rest) = rest.split_at_checked(n_bytes).ok_or(BundleError::Cut)?;
        found.push(object);
        bytes = rest;
    }
    Ok(found)
}
