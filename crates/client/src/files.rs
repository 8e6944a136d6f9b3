//! Working folders and results of jobs, as objects.

use gpool_wire::files::{JobResults, MissingObjects, ObjectsQuery, StoredObjects};

use crate::call::{Call, Client, of_job};
use crate::error::Error;

impl Client {
    /// Returns which objects the server lacks, by name, and the most bytes of a folder.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn missing_objects(&self, objects: Vec<String>) -> Result<MissingObjects, Error> {
        let mut call = Call::post("/files/missing").json(&ObjectsQuery { objects });
        call.repeatable = true;
        self.ask(&call)
    }

    /// Stores the objects of a bundle; returns their names.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn store_objects(&self, bundle: &[u8]) -> Result<StoredObjects, Error> {
        let mut call = Call::post("/files/objects").bytes(bundle);
        call.repeatable = true;
        self.ask(&call)
    }

    /// Returns the results of a job.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn results(&self, job: &str) -> Result<JobResults, Error> {
        self.ask(&Call::get(&of_job(job, "/results")))
    }

    /// Returns an object of the results of a job.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn result_object(&self, job: &str, object: &str) -> Result<Vec<u8>, Error> {
        let path = of_job(job, "/results/object");
        self.bytes(&Call::get(&path).query("object", &object))
    }
}
