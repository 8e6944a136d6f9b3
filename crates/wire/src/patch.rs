//! Changes to a job that has not ended: the body of `PATCH /jobs/{id}`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::LazyLock;

use gpool_model::job::BlobId;
use gpool_model::{JobRequest, Refusal};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::check::{check_command, invalid};
use crate::checked::{Script, read_script};
use crate::create::JobCreate;
use crate::field::{self, Field, fields};

/// Changes to a job: the names of the changed fields, and a request with their new values. A
/// changed field without a value is cleared.
///
/// [`gpool_model::request::edit::EDITS`] lists the editable fields and when they
/// can change.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobPatch {
    // Invariant: the names of editable fields.
    changes: BTreeSet<&'static str>,
    to: JobCreate,
}

/// Returns a patch with every editable field that the request sets.
impl From<JobCreate> for JobPatch {
    fn from(to: JobCreate) -> Self {
        let said = fields().filter(|field| field.is_editable() && (field.is_said)(&to));
        Self { changes: said.map(|field| field.key).collect(), to }
    }
}

impl JobPatch {
    /// Changes one more field.
    ///
    /// # Panics
    /// If the field is not editable.
    pub fn set(&mut self, key: &'static str, change: impl FnOnce(&mut JobCreate)) {
        assert!(field::field(key).is_some_and(Field::is_editable), "{key} can't be edited");
        self.changes.insert(key);
        change(&mut self.to);
    }

    /// Whether the patch has no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Whether the patch changes a field.
    #[must_use]
    pub fn sets(&self, key: &str) -> bool {
        self.changes.contains(key)
    }

    /// Checks each field separately.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] with the field, the error, and a valid example.
    pub fn check(&self) -> Result<CheckedPatch, Refusal> {
        if self.is_empty() {
            let why = "it changes nothing; give a field, for example {\"priority\": -5}";
            return Err(invalid("patch", why));
        }
        let mut request = JobRequest::default();
        for field in fields() {
            (field.apply)(&self.to, &mut request)?;
        }
        let script = self.to.script.as_ref().map(read_script).transpose()?;
        if self.changes.contains("command") || script.is_some() {
            check_command(&self.to.command, script.is_some())?;
        }
        let patch = gpool_model::JobPatch::new(self.changes.iter().copied(), request);
        let environment = self.to.environment_entries()?;
        Ok(CheckedPatch { patch, script, environment })
    }
}

/// A patch with valid fields, and the script to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedPatch {
    patch: gpool_model::JobPatch,
    /// Script to store.
    pub script: Option<Script>,
    /// Environment variables to set; the others stay.
    pub environment: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl CheckedPatch {
    /// Returns the patch with the IDs of its stored script and launch context.
    #[must_use]
    pub fn into_patch(
        mut self,
        script: Option<BlobId>,
        context: Option<BlobId>,
    ) -> gpool_model::JobPatch {
        (self.patch.script, self.patch.context) = (script, context);
        self.patch
    }
}

impl Serialize for JobPatch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut to = self.to.clone();
        let mut map = serializer.serialize_map(Some(self.changes.len()))?;
        for field in fields().filter(|field| self.changes.contains(field.key)) {
            map.serialize_entry(field.key, &(field.slot)(&mut to))?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for JobPatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PatchReader)
    }
}

struct PatchReader;

impl<'de> Visitor<'de> for PatchReader {
    type Value = JobPatch;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of changes")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JobPatch, A::Error> {
        let mut patch = JobPatch::default();
        while let Some(FieldKey(field)) = map.next_key()? {
            let is_value = map.next_value_seed((field.slot)(&mut patch.to))?;
            if is_value || field.clears {
                patch.changes.insert(field.key);
            }
        }
        Ok(patch)
    }
}

/// The name of an editable field.
struct FieldKey(&'static Field);

impl<'de> Deserialize<'de> for FieldKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_identifier(KeyReader)
    }
}

struct KeyReader;

impl Visitor<'_> for KeyReader {
    type Value = FieldKey;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<FieldKey, E> {
        static KEYS: LazyLock<Vec<&'static str>> =
            LazyLock::new(|| fields().filter(|it| it.is_editable()).map(|it| it.key).collect());
        let field = field::field(name).filter(|field| field.is_editable());
        field.map(FieldKey).ok_or_else(|| E::unknown_field(name, &KEYS))
    }
}
