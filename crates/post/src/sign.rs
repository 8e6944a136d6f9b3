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
pub const KEY_FILE: &str = "notify.key";
/// Bytes of a key.
const LENGTH: usize = 32;

pub struct Keys {
    master: hmac::Key,
}

impl Keys {
    /// The keys of a state folder, made if they are not there.
    pub fn open(state_dir: &Path) -> anyhow::Result<Self> {
        let path = state_dir.join(KEY_FILE);
        let shown = path.display();
        let mut bytes = Vec::new();
        match File::open(&path) {
            Ok(mut file) => {
                file.read_to_end(&mut bytes).with_context(|| format!("can't read {shown}"))?;
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                bytes = make(&path).with_context(|| format!("can't create {shown}"))?;
            }
            Err(error) => return Err(error).with_context(|| format!("can't read {shown}")),
        }
        if bytes.len() != LENGTH {
            bail!(
                "{shown} is damaged: remove it; receivers that check signatures then need new keys"
            );
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
