//! Sends a working folder to the server for a job: only the parts that the server lacks.

use std::collections::HashSet;
use std::path::Path;

use gpool_client::Client;
use gpool_files::walk::{self, WalkError, Walked};
use gpool_files::{IGNORE_FILE, ObjectId, bundle};
use gpool_model::Bytes;
use gpool_wire::files::OBJECTS_MAX;

use crate::errors;
use crate::failure::{Failure, Result};
use crate::render::safe::safe;
use crate::render::words;
use crate::session::Session;

/// The most paths that a note lists.
const LISTED_MAX: usize = 5;

/// Sends a folder, and returns the name of its manifest. A killed command goes on when it is
/// repeated: each object that was acknowledged is stored.
///
/// # Errors
/// The folder can't be read or is too large, or the server refuses it.
pub fn send(folder: &Path, client: &Client, session: &Session) -> Result<String> {
    let client = session.patient(client.clone());
    let most = client.missing_objects(Vec::new())?.upload_max;
    let walked = walk::folder(folder, most).map_err(|error| unreadable(folder, error))?;
    note_left_out(&walked, session);
    let bytes = walked.manifest.bytes();
    let manifest = ObjectId::of(&bytes);
    let mut seen = HashSet::new();
    let parts: Vec<ObjectId> =
        walked.manifest.parts().filter(|part| seen.insert(**part)).copied().collect();
    let mut sender = Sender { client: &client, objects: Vec::new(), n_bytes: 0 };
    for some in parts.chunks(OBJECTS_MAX) {
        for part in missing(&client, some)? {
            let bytes = walked.read(&part);
            let bytes = bytes.map_err(|error| changed(folder, &error))?;
            sender.push(&bytes)?;
        }
    }
    if !missing(&client, &[manifest])?.is_empty() {
        sender.push(&bytes)?;
        sender.n_bytes -= bytes.len() as u64;
    }
    sender.flush()?;
    let (sent, all) = (Bytes::new(sender.n_bytes), Bytes::new(walked.manifest.n_bytes()));
    let n_files = words::count(walked.manifest.n_files() as u64, "file");
    let text = format!("uploaded {sent} of {all} in {n_files} from {}", folder.display());
    session.screen.note(&safe(&text));
    Ok(manifest.to_string())
}

fn missing(client: &Client, objects: &[ObjectId]) -> Result<Vec<ObjectId>> {
    let names = objects.iter().map(ToString::to_string).collect();
    let missing = client.missing_objects(names)?.missing;
    let ids = missing.iter().map(|name| name.parse::<ObjectId>());
    ids.collect::<std::result::Result<_, _>>()
        .map_err(|error| Failure::new(errors::INTERNAL, error.to_string()))
}

struct Sender<'c> {
    client: &'c Client,
    objects: Vec<u8>,
    /// Bytes of the parts that were sent.
    n_bytes: u64,
}

impl Sender<'_> {
    fn push(&mut self, object: &[u8]) -> Result<()> {
        if self.objects.len() + object.len() > bundle::BUNDLE_MAX {
            self.flush()?;
        }
        bundle::push(&mut self.objects, object);
        self.n_bytes += object.len() as u64;
        if self.objects.len() >= bundle::BUNDLE_FULL {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if !self.objects.is_empty() {
            self.client.store_objects(&self.objects)?;
            self.objects.clear();
        }
        Ok(())
    }
}

fn note_left_out(walked: &Walked, session: &Session) {
    let left_out = walked.manifest.left_out();
    for path in left_out.iter().take(LISTED_MAX) {
        session.screen.warn(&safe(&format!("not uploaded: {path}")));
    }
    if left_out.len() > LISTED_MAX {
        let n_more = words::count((left_out.len() - LISTED_MAX) as u64, "more path");
        session.screen.warn(&format!("not uploaded: {n_more}"));
    }
}

fn unreadable(folder: &Path, error: WalkError) -> Failure {
    let shown = folder.display();
    match error {
        WalkError::TooLarge { most, largest: (name, largest), n_bytes } => {
            let [most, largest, n_bytes] = [most, largest, n_bytes].map(Bytes::new);
            let what = format!("the folder {shown} has {n_bytes}, and {most} are allowed");
            Failure::new(errors::FOLDER_TOO_LARGE, what)
                .why(format!("the largest part of it is {name} with {largest}"))
                .tip(format!("echo /{name} >> {shown}/{IGNORE_FILE}   (leaves it out)"))
                .tip("upload_max = \"4G\"   (in gpool.toml of the server)")
        }
        WalkError::NotText { folder, name } => {
            let what = format!("the name {name:?} in {} is not UTF-8", folder.display());
            Failure::new(errors::BAD_FOLDER, what)
                .tip(format!("rename it, or leave it out in {IGNORE_FILE}"))
        }
        WalkError::Io { path, error } if path == folder => {
            let what = format!("can't upload {shown}: {error}");
            Failure::new(errors::BAD_FOLDER, what).tip("--upload .   (the current folder)")
        }
        error => Failure::new(errors::BAD_FOLDER, format!("can't upload {shown}: {error}"))
            .tip(format!("name paths to leave out in {shown}/{IGNORE_FILE}, as in .gitignore")),
    }
}

fn changed(folder: &Path, error: &std::io::Error) -> Failure {
    let what = format!("can't upload {}: {error}", folder.display());
    Failure::new(errors::BAD_FOLDER, what).tip("submit the job again once the files are complete")
}
