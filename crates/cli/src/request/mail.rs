//! Checks that the server can send the mail that a user requests.

use gpool_client::Client;
use gpool_wire::notify::MAILTO;

/// A warning about notifications with mail addresses if the server can't send mail.
#[must_use]
pub fn not_sent(notify: &[String], client: &Client) -> Option<String> {
    let is_mail =
        |rule: &String| rule.split_once('@').is_some_and(|(_, to)| to.starts_with(MAILTO));
    // If the server does not answer, the request itself reports it.
    let is_lost = notify.iter().any(is_mail) && client.status().is_ok_and(|it| !it.mail);
    is_lost.then(|| "gpool can't send mail: it has no mail server and no sendmail".to_owned())
}
