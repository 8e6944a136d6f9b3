//! A task before its launch.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpool_model::ArrayValues;
use gpool_model::agent::TaskOrder;
use gpool_model::id::DeviceUuid;
use gpool_model::job::{BlobId, EndCause};
use gpool_shepherd::message::Element;

/// A task that is not launched yet: its files come from the server, then its devices are checked.
pub(crate) struct PendingLaunch {
    pub order: Box<TaskOrder>,
    /// The devices that are booked for it, by slot.
    pub booked: Vec<DeviceUuid>,
    /// Its environment and its script, once they are here.
    pub files: BTreeMap<BlobId, Vec<u8>>,
    /// The values of its secrets, with that of its registry, once they are here.
    pub secrets: BTreeMap<String, Vec<u8>>,
    /// The values of its array, once they are here.
    pub values: Option<Arc<ArrayValues>>,
    /// The user of the job, by ID on the server.
    pub server_uid: u32,
    /// Whether its working folder is made, if it needs one of the agent.
    pub has_folder: bool,
}

impl PendingLaunch {
    /// Whether all its files and secrets are here.
    pub(crate) fn is_complete(&self) -> bool {
        self.missing().next().is_none() && self.missing_secrets().next().is_none()
    }

    pub(crate) fn missing_secrets(&self) -> impl Iterator<Item = &str> {
        self.order.spec.secret_names().filter(|name| !self.secrets.contains_key(*name))
    }

    /// The secrets that the task finds as files.
    pub(crate) fn secret_files(&self) -> impl Iterator<Item = (&String, &Vec<u8>)> {
        self.order.spec.secrets.iter().filter_map(|name| self.secrets.get_key_value(name))
    }

    /// The name and value of the secret for the registry of its image.
    pub(crate) fn login(&self) -> Option<(&String, &Vec<u8>)> {
        let container = self.order.spec.container.as_ref()?;
        self.secrets.get_key_value(container.login.as_ref()?)
    }

    /// Whether its devices may be checked: its files, and its working folder, are here.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_complete() && (self.has_folder || self.order.spec.files.is_usual())
    }

    pub(crate) fn missing(&self) -> impl Iterator<Item = &BlobId> {
        let values = self.values_blob();
        let is_here = move |id: &BlobId| match values == Some(id) {
            true => self.values.is_some(),
            false => self.files.contains_key(id),
        };
        self.order.spec.blobs().filter(move |id| !is_here(id))
    }

    fn values_blob(&self) -> Option<&BlobId> {
        let array = self.order.spec.array.as_ref()?;
        array.values.as_ref().map(|values| &values.blob)
    }

    /// Adds a file; returns the values of its array if these are the file.
    pub(crate) fn take(
        &mut self,
        id: BlobId,
        bytes: Vec<u8>,
    ) -> Result<Option<(BlobId, Arc<ArrayValues>)>, EndCause> {
        if self.values_blob() != Some(&id) {
            self.files.insert(id, bytes);
            return Ok(None);
        }
        let values: ArrayValues = serde_json::from_slice(&bytes).map_err(|error| {
            let why = format!("the array's values can't be read: {error}");
            EndCause::LaunchFailed { why }
        })?;
        let values = Arc::new(values);
        self.values = Some(Arc::clone(&values));
        Ok(Some((id, values)))
    }

    pub(crate) fn file(&self, id: &BlobId) -> &[u8] {
        self.files.get(id).map_or(&[], Vec::as_slice)
    }

    /// The item and parameters of an array element; `None` for other jobs.
    pub(crate) fn element(&self) -> Option<Element> {
        self.order.spec.array.as_ref()?;
        let index = self.order.task().job.element?;
        Some(self.values.as_ref().map_or_else(Element::default, |it| Element::of(it, index)))
    }
}
