//! Secrets of users: their names, and what lists show of them, and values to set.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gpool_model::Refusal;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::check::invalid;
use crate::time::Time;

/// Maximum size of the value of a secret in bytes.
pub const SECRET_BYTES_MAX: usize = 64 << 10;
/// Maximum number of secrets of one user.
pub const SECRETS_MAX: usize = 100;
/// Maximum length of a name in bytes.
const NAME_MAX: usize = 100;
/// Maximum number of secrets of one job.
const OF_JOB_MAX: usize = 32;

/// A secret of a user, without its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Secret {
    /// Name of the secret.
    pub name: String,
    /// User that it belongs to.
    pub user: String,
    /// Time at which its value was set. `null`: its file is damaged.
    pub set_at: Option<Time>,
    /// Size of its value in bytes. `null`: its file is damaged.
    pub bytes: Option<u64>,
    /// Why its value can't be read, if it can't.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// The value of a secret to set: text, or bytes in base64.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretValue {
    /// The value as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The value as base64 of its bytes, instead of `value`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

impl SecretValue {
    /// Returns these bytes as text, or in base64 if they are none.
    #[must_use]
    pub fn of(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self { value: Some(text), base64: None },
            Err(error) => Self { value: None, base64: Some(STANDARD.encode(error.as_bytes())) },
        }
    }

    /// Returns the value.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] if there is none, or more than one, or it is empty. The error has no
    /// part of it.
    pub fn bytes(self) -> Result<Vec<u8>, Refusal> {
        let bytes = match (self.value, self.base64) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(text)) => {
                STANDARD.decode(text).map_err(|_| invalid("base64", "it is not base64"))?
            }
            _ => return Err(invalid("value", "give one of value and base64")),
        };
        match bytes.is_empty() {
            true => Err(invalid("value", "it is empty")),
            false => Ok(bytes),
        }
    }
}

/// Checks the name of a secret: it becomes the name of a file.
///
/// # Errors
/// [`Refusal::Invalid`] with this field, and a valid example.
pub fn name(field: &str, text: &str) -> Result<String, Refusal> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let has_start = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    if !has_start || text.len() > NAME_MAX || !text.chars().all(is_allowed) {
        let why = format!(
            "the name of a secret has 1 to {NAME_MAX} letters, digits and . _ -, and begins with \
             a letter, a digit or _: HF_TOKEN"
        );
        return Err(invalid(field, &why));
    }
    Ok(text.to_owned())
}

/// Checks the names of the secrets of a job; one that occurs again is dropped.
pub(crate) fn names(all: &[String]) -> Result<Vec<String>, Refusal> {
    let mut names: Vec<String> = Vec::new();
    for text in all {
        let name = name("secrets", text)?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.len() > OF_JOB_MAX {
        return Err(invalid("secrets", &format!("there are more than {OF_JOB_MAX}")));
    }
    Ok(names)
}
