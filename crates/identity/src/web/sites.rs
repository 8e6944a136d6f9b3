//! The ports of jobs that browsers reach through the server, each by a host name of its own: pages
//! of a job must be of another origin than the dashboard and than the pages of other jobs.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use gpool_model::JobId;
use gpool_model::attach::ForwardTo;

use super::sessions::{Sessions, SignedIn};

/// The beginning of the labels of these hosts. Labels of the dashboard are hexadecimal.
pub const PREFIX: &str = "nb-";
/// The path below which the server itself answers.
pub const OWN_PATH: &str = "/.gpool/";
/// How long a link works.
const LINK: Duration = Duration::from_secs(600);
/// The most sites of one user; the oldest go first.
const MOST: usize = 64;

/// A port or socket of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    pub job: JobId,
    /// The rank of the task.
    pub rank: u32,
    pub to: ForwardTo,
    /// The owner of the job, by number: the only user of the site.
    pub owner: u32,
}

/// The sites of all users, by the label of the host.
#[derive(Debug, Default)]
pub struct Sites(Mutex<HashMap<String, (Site, Instant)>>);

impl Sites {
    /// Makes a link that opens a site once, for this user. Returns the label of the host, the path,
    /// and how long the link works.
    pub fn invite(
        &self,
        site: Site,
        sessions: &Sessions,
        user: SignedIn,
        now: Instant,
    ) -> (String, String, Duration) {
        let mut sites = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same = sites.iter_mut().find(|(_, (known, _))| *known == site);
        let label = match same {
            Some((label, (_, used))) => {
                *used = now;
                label.clone()
            }
            None => {
                let own = sites.iter().filter(|(_, (known, _))| known.owner == site.owner);
                let mut own: Vec<(Instant, String)> =
                    own.map(|(label, (_, used))| (*used, label.clone())).collect();
                own.sort_unstable();
                if own.len() >= MOST {
                    sites.remove(&own[0].1);
                }
                let label = format!("{PREFIX}{}", sessions.secret());
                sites.insert(label.clone(), (site, now));
                label
            }
        };
        let code = sessions.invite_at(&label, user, now + LINK, now);
        (label, format!("{OWN_PATH}open/{code}"), LINK)
    }

    /// The site at a host.
    pub fn at(&self, label: &str) -> Option<Site> {
        let sites = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sites.get(label).map(|(site, _)| site.clone())
    }
}
