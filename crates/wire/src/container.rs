//! Containers of jobs in the API.

use std::sync::Arc;

use gpool_model::Refusal;
use gpool_model::container::{ContainerRequest, Mount, PullPolicy};

use crate::check::invalid;
use crate::create::JobCreate;
use crate::secret;

/// The most mounts of one container.
const MOUNTS_MAX: usize = 64;
/// The longest name of an image, and of a user, in bytes.
const NAME_MAX: usize = 1024;

/// Checks the name of an image: it becomes a word of a command line.
///
/// # Errors
/// [`Refusal::Invalid`] if it is no name.
pub(crate) fn image(text: &str) -> Result<String, Refusal> {
    word("image", text)
}

/// Checks a mount.
///
/// # Errors
/// Returns an error if the text is no mount.
pub(crate) fn mount(text: &str) -> Result<Mount, Refusal> {
    let mount: Mount = text.parse().map_err(|why: String| invalid("mounts", &why))?;
    for path in [&mount.source, &mount.target] {
        crate::check::check_path("mounts", path)?;
        // Engines separate the parts of a mount by these.
        if path.contains([',', ':']) {
            return Err(invalid("mounts", "a path with a comma or colon can't be mounted"));
        }
    }
    Ok(mount)
}

fn word(field: &str, text: &str) -> Result<String, Refusal> {
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control();
    if text.is_empty() || text.starts_with('-') || !text.chars().all(is_plain) {
        return Err(invalid(field, "it must be one word that does not begin with -"));
    }
    if text.len() > NAME_MAX {
        return Err(invalid(field, &format!("it has more than {NAME_MAX} bytes")));
    }
    Ok(text.to_owned())
}

/// Reads the container that a job asks for.
///
/// # Errors
/// [`Refusal::Invalid`] for what no container can have.
pub(crate) fn request(job: &JobCreate) -> Result<Option<Arc<ContainerRequest>>, Refusal> {
    let Some(name) = &job.image else {
        let without = [
            ("mounts", !job.mounts.is_empty()),
            ("workdir", job.workdir.is_some()),
            ("container_user", job.container_user.is_some()),
            ("pull", job.pull.is_some()),
            ("image_login", job.image_login.is_some()),
        ];
        return match without.into_iter().find(|(_, is_set)| *is_set) {
            Some((field, _)) => Err(invalid(field, "it needs an image")),
            None => Ok(None),
        };
    };
    if !job.activate.is_empty() {
        return Err(invalid("activate", "an image has its own software"));
    }
    if job.mounts.len() > MOUNTS_MAX {
        return Err(invalid("mounts", &format!("there are more than {MOUNTS_MAX}")));
    }
    let pull = match job.pull.as_deref() {
        None => PullPolicy::default(),
        Some(name) => PullPolicy::named(name)
            .ok_or_else(|| invalid("pull", "it is missing, always or never"))?,
    };
    let workdir = job.workdir.as_deref();
    let user = job.container_user.as_deref();
    Ok(Some(Arc::new(ContainerRequest {
        image: image(name)?,
        mounts: job.mounts.iter().map(|text| mount(text)).collect::<Result<_, _>>()?,
        workdir: workdir.map(crate::check::checked_directory).transpose()?,
        user: user.map(|user| word("container_user", user)).transpose()?,
        pull,
        login: job.image_login.as_deref().map(|it| secret::name("image_login", it)).transpose()?,
    })))
}
