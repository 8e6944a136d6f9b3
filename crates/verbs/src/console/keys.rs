//! The keys that detach from a console. Pure.

use std::str::FromStr;

/// The sequence of keys that detaches; empty if none does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetachKeys(pub Vec<u8>);

impl Default for DetachKeys {
    /// Ctrl-\ and then d: no shell and few programs use Ctrl-\.
    fn default() -> Self {
        Self(vec![0x1c, b'd'])
    }
}

/// The text is not a list of keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a key: write ctrl-a to ctrl-z, ctrl-\\, ctrl-], ctrl-^, ctrl-_ or one character, \
     several separated by commas (ctrl-\\,d), or none"
)]
pub struct NoKey(String);

impl FromStr for DetachKeys {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Self, NoKey> {
        if text == "none" {
            return Ok(Self(Vec::new()));
        }
        let key = |word: &str| {
            let no_key = || NoKey(word.to_owned());
            let lower = word.to_ascii_lowercase();
            match (lower.strip_prefix("ctrl-").map(str::as_bytes), word.as_bytes()) {
                (Some([letter @ (b'a'..=b'z' | b'\\' | b']' | b'^' | b'_')]), _) => {
                    Ok(letter.to_ascii_uppercase() & 0x1f)
                }
                (None, [byte @ b'!'..=b'~']) => Ok(*byte),
                (..) => Err(no_key()),
            }
        };
        text.split(',').map(key).collect::<Result<_, _>>().map(Self)
    }
}

impl std::fmt::Display for DetachKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key = |byte: &u8| match byte {
            0..=0x1f => format!("Ctrl-{}", char::from(byte | 0x40)),
            _ => char::from(*byte).to_string(),
        };
        f.write_str(&self.0.iter().map(key).collect::<Vec<_>>().join(" "))
    }
}

/// Finds the detach keys in typed input.
#[derive(Debug)]
pub struct DetachMatcher {
    keys: Vec<u8>,
    /// Number of detach keys typed so far.
    n_typed: usize,
}

impl DetachMatcher {
    #[must_use]
    pub fn new(keys: &DetachKeys) -> Self {
        Self { keys: keys.0.clone(), n_typed: 0 }
    }

    /// Takes typed bytes; returns the bytes for the program, and whether the whole sequence was
    /// typed. The first keys of a sequence are held back until the next byte does not match.
    pub fn take(&mut self, typed: &[u8]) -> (Vec<u8>, bool) {
        let mut through = Vec::with_capacity(typed.len());
        if self.keys.is_empty() {
            return (typed.to_vec(), false);
        }
        for byte in typed {
            if *byte == self.keys[self.n_typed] {
                self.n_typed += 1;
                if self.n_typed == self.keys.len() {
                    self.n_typed = 0;
                    return (through, true);
                }
                continue;
            }
            through.extend_from_slice(&self.keys[..self.n_typed]);
            self.n_typed = 0;
            if *byte == self.keys[0] {
                self.n_typed = 1;
            } else {
                through.push(*byte);
            }
        }
        (through, false)
    }
}
