//! How the receiver of a message knows that it is the server's: a key for each user, made from one
//! that never leaves the state folder, so that no user can sign in the name of another.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

/// The file in the state folder.
const FILE: &str = "notify.key";
/// Bytes of a key.
const LENGTH: usize = 32;

/// The keys of one server.
pub(crate) struct Keys {
    master: hmac::Key,
}

impl Keys {
    /// The keys of a state folder, made if they are not there.
    ///
    /// # Errors
    /// The file can't be read or made, or holds something else.
    pub fn open(state_dir: &Path) -> anyhow::Result<Self> {
        let path = state_dir.join(FILE);
        let shown = path.display();
        let mut bytes = Vec::new();
        match File::open(&path) {
            Ok(mut file) => {
                file.read_to_end(&mut bytes).with_context(|| format!("can't read {shown}"))?;
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                bytes = make(&path).with_context(|| format!("can't make {shown}"))?;
            }
            Err(error) => return Err(error).with_context(|| format!("can't read {shown}")),
        }
        if bytes.len() != LENGTH {
            bail!("{shown} is damaged: remove it, and those who check signatures need new keys");
        }
        Ok(Self { master: hmac::Key::new(hmac::HMAC_SHA256, &bytes) })
    }

    fn of_user(&self, uid: u32) -> [u8; LENGTH] {
        let tag = hmac::sign(&self.master, format!("gpool notify {uid}").as_bytes());
        tag.as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    /// The key that signs a user's messages, in the format of Standard Webhooks.
    pub fn secret(&self, uid: u32) -> String {
        format!("whsec_{}", STANDARD.encode(self.of_user(uid)))
    }

    /// The signature of a message, as it stands in the header.
    /// Source: Standard Webhooks, "Signature scheme", symmetric, version 1.
    pub fn sign(&self, uid: u32, id: &str, timestamp: &str, body: &[u8]) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.of_user(uid));
        let mut context = hmac::Context::with_key(&key);
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            context.update(part);
        }
        format!("v1,{}", STANDARD.encode(context.sign().as_ref()))
    }
}

/// Makes a key that is whole or not there: a server that is killed meanwhile leaves no half of it.
fn make(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; LENGTH];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let new = path.with_extension("new");
    let mut options = File::options();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(&bytes)?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn keys_last_and_are_their_owners() {
        let dir = tempfile::tempdir().expect("there is room");
        let first = Keys::open(dir.path()).expect("it is made");
        let again = Keys::open(dir.path()).expect("it is there");
        assert_eq!(first.secret(1000), again.secret(1000));
        assert_ne!(first.secret(1000), first.secret(1001));
        let mode = dir.path().join(FILE).metadata().expect("it is there").mode() & 0o777;
        assert_eq!(mode, 0o600);
        std::fs::write(dir.path().join(FILE), "short").expect("there is room");
        assert!(Keys::open(dir.path()).is_err());
    }

    #[test]
    fn signatures_are_those_of_standard_webhooks() {
        let dir = tempfile::tempdir().expect("there is room");
        let keys = Keys::open(dir.path()).expect("it is made");
        let secret = keys.secret(7);
        let secret = STANDARD.decode(secret.trim_start_matches("whsec_")).expect("base64");
        let key = hmac::Key::new(hmac::HMAC_SHA256, &secret);
        let expected = hmac::sign(&key, b"msg_1.1700000000.{}");
        let expected = format!("v1,{}", STANDARD.encode(expected.as_ref()));
        assert_eq!(keys.sign(7, "msg_1", "1700000000", b"{}"), expected);
    }
}
