//! Fields for the files that travel with the job.

use super::super::Values::{Checked, Many};
use super::super::{Field, Flag, heading, validate};
use super::{field, join};
use crate::files;

/// The working folder and the results.
pub(super) static FILES: &[Field] = &[
    Field {
        flag: Some(
            Flag::value(
                "upload",
                "DIR",
                Checked(validate::filled),
                "Folder to send to the nodes of the job, which runs in a copy of it",
            )
            .under(heading::STREAMS),
        ),
        apply: |job, request| {
            request.files = files::request(job)?.into();
            Ok(())
        },
        label: Some("upload"),
        is_private: true,
        show: Some(|spec, _, shown| shown.upload = spec.files.upload.as_deref().map(str::to_owned)),
        ..field!("upload", upload)
    },
    Field {
        flag: Some(
            Flag::value(
                "download",
                "PATH",
                Many(validate::result_pattern),
                "File, folder or glob of the job's folder to keep as its results, e.g. 'out/*.csv'",
            )
            .under(heading::STREAMS),
        ),
        join: join!(download),
        label: Some("download"),
        is_private: true,
        show: Some(|spec, _, shown| shown.download.clone_from(&spec.files.download)),
        ..field!("download", download)
    },
];
