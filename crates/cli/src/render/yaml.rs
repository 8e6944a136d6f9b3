//! The YAML that commands print: the keys of the JSON, in block style. Text that YAML could read as
//! another type is quoted as in JSON.

use std::fmt;

use super::safe::safe_json;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

#[must_use]
pub fn of_json(json: &str) -> String {
    let mut text = String::new();
    let mut reader = serde_json::Deserializer::from_str(json);
    // This program wrote the JSON, so this can't fail.
    let _ = Block { text: &mut text, depth: 0, after: After::Nothing }.deserialize(&mut reader);
    text
}

/// What precedes a value on its line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Nothing,
    /// `key:`
    Key,
    /// `- `
    Dash,
}

/// Writes a value as it is deserialized.
struct Block<'t> {
    text: &'t mut String,
    depth: usize,
    after: After,
}

impl Block<'_> {
    fn scalar<E>(self, text: &str) -> Result<(), E> {
        if self.after == After::Key {
            self.text.push(' ');
        }
        self.text.push_str(text);
        self.text.push('\n');
        Ok(())
    }

    fn indent(&mut self) {
        self.text.extend(std::iter::repeat_n("  ", self.depth));
    }
}

impl<'de> DeserializeSeed<'de> for Block<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Block<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.scalar("null")
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.scalar(if value { "true" } else { "false" })
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.scalar(&value.to_string())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.scalar(&value.to_string())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        // As in JSON: 1.0 and not 1, which would be another type.
        self.scalar(&serde_json::json!(value).to_string())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.scalar(&quoted(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        let before = self.text.len();
        let blank = usize::from(self.after == After::Dash);
        self.text.truncate(before - blank);
        if self.after != After::Nothing {
            self.text.push('\n');
        }
        let first = self.text.len();
        loop {
            let start = self.text.len();
            self.indent();
            self.text.push_str("- ");
            let item = Block { text: self.text, depth: self.depth + 1, after: After::Dash };
            if items.next_element_seed(item)?.is_some() {
                continue;
            }
            self.text.truncate(start);
            if start > first {
                return Ok(());
            }
            // The list is empty: `[]` goes on the line of its key.
            self.text.truncate(before - blank);
            self.text.extend(std::iter::repeat_n(' ', blank));
            return self.scalar("[]");
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<(), A::Error> {
        let mut is_first = true;
        while let Some(key) = entries.next_key::<String>()? {
            match (std::mem::take(&mut is_first), self.after) {
                // The first key goes on the line of the dash.
                (true, After::Dash) => {}
                (true, After::Key) => {
                    self.text.push('\n');
                    self.indent();
                }
                _ => self.indent(),
            }
            self.text.push_str(&quoted(&key));
            self.text.push(':');
            let depth = self.depth + 1;
            entries.next_value_seed(Block { text: self.text, depth, after: After::Key })?;
        }
        if is_first { self.scalar("{}") } else { Ok(()) }
    }
}

/// Quotes a text that a YAML parser could read as another type.
fn quoted(text: &str) -> String {
    const WORDS: [&str; 11] =
        ["null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf"];
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
        && !WORDS.contains(&text.to_ascii_lowercase().as_str());
    if is_plain {
        return text.to_owned();
    }
    safe_json(&serde_json::Value::from(text).to_string()).into_owned()
}
