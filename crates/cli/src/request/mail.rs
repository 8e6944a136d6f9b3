//! Checks that the server can send the mail that a job requests.

use gpool_client::Client;
use gpool_wire::JobCreate;
use gpool_wire::notify::MAILTO;

/// A warning about a job with mail addresses if the server can't send mail.
pub(super) fn not_sent(job: &JobCreate, client: &Client) -> Option<String> {
    let is_mail =
        |rule: &String| rule.split_once('@').is_some_and(|(_, to)| to.starts_with(MAILTO));
    // If the server does not answer, the submission reports it.
    let is_lost = job.notify.iter().any(is_mail) && client.status().is_ok_and(|it| !it.mail);
    is_lost.then(|| "gpool can't send mail: it has no mail server and no sendmail".to_owned())
}
