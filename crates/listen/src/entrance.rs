//! Identifies the user of a token. A sign-in at an identity provider ends with a token, too, with
//! the same rights on a loopback address as over the network.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use gpool_model::{Caller, Owner};
use gpool_wire::{Problem, Scope, catalogue};
use tokio::sync::watch;

use gpool_api::asker::{Asker, Asks, Identify, NOBODY, Peer};
use gpool_api::way::{Origin, Way};
use gpool_identity::access::{Access, Subject, TokenFacts, TokenRow};
use gpool_identity::pool::Rates;
use gpool_identity::pool::{Pool, RequestSource};
use gpool_identity::sign_in::SignIns;
use gpool_server::clock::now;
use gpool_server::handle::FindUser;

/// From one address, ten attempts with a wrong token may come at once, then one in this time.
const FAILURE: Duration = Duration::from_secs(6);

/// Questions about sign-ins under way: several users of one address may ask every few seconds.
const QUESTION: Duration = Duration::from_millis(500);

/// The most questions to the system's name service at once, and those for one source.
const LOOKUPS_MAX: (usize, usize) = (64, 8);

/// Admits the users of tokens.
pub(crate) struct Entrance {
    access: Arc<Access>,
    sign_ins: Option<Arc<SignIns>>,
    identify: Arc<dyn Identify>,
    find_user: FindUser,
    failures: Rates<RequestSource>,
    questions: Rates<RequestSource>,
    /// Places for questions to the system's name service.
    lookups: Pool,
    /// Until the account of the user of a long request is looked up again.
    account_age_most: Duration,
}

impl Entrance {
    pub fn new(
        access: Arc<Access>,
        sign_ins: Option<Arc<SignIns>>,
        identify: Arc<dyn Identify>,
        find_user: FindUser,
        account_age_most: Duration,
    ) -> Self {
        let failures = Rates::every(FAILURE, FAILURE * 10);
        let questions = Rates::every(QUESTION, QUESTION * 60);
        let lookups = Pool::new(LOOKUPS_MAX.0, LOOKUPS_MAX.1);
        Self {
            access,
            sign_ins,
            identify,
            find_user,
            failures,
            questions,
            lookups,
            account_age_most,
        }
    }

    /// Sign-ins at the identity provider, if there is one.
    pub fn sign_ins(&self) -> Option<Arc<SignIns>> {
        self.sign_ins.clone()
    }

    /// Changes when tokens were revoked.
    pub fn revocations(&self) -> watch::Receiver<u64> {
        self.access.revocations()
    }

    /// The user of a request by the token in its headers.
    pub async fn by_headers(&self, headers: &HeaderMap, from: IpAddr) -> Result<Asks, Problem> {
        let text = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let Some((kind, secret)) = text.and_then(|text| text.split_once(' ')) else {
            return Err(Problem::new(catalogue::NOT_SIGNED_IN, "the request has no token")
                .because("the header is Authorization: Bearer TOKEN")
                .try_this("gpool login URL"));
        };
        if !kind.eq_ignore_ascii_case("bearer") {
            return Err(Problem::new(catalogue::NOT_SIGNED_IN, "the request has no token"));
        }
        self.by_secret(secret.trim(), from).await
    }

    /// The user of a token's secret.
    pub async fn by_secret(&self, secret: &str, from: IpAddr) -> Result<Asks, Problem> {
        let asker = match self.access.find(secret, now()) {
            Some(row) => self.asker(row, from).await,
            None => None,
        };
        if let Some(asker) = asker {
            return Ok(asker);
        }
        if !self.failures.take(RequestSource::of(from), Instant::now()) {
            let what = format!("too many wrong tokens came from {from}");
            return Err(Problem::new(catalogue::TOO_MANY_REQUESTS, what));
        }
        tracing::warn!(target: "audit", %from, "a wrong token");
        Err(Problem::new(catalogue::NOT_SIGNED_IN, "the token is not valid")
            .because("it was revoked, has expired, or its user does not exist any more")
            .try_this("gpool token create   (on the machine of the server)")
            .try_this("gpool login URL"))
    }

    /// Whether a source may ask more about sign-ins now.
    pub fn may_sign_in(&self, source: RequestSource) -> Result<(), Problem> {
        if self.questions.take(source, Instant::now()) {
            return Ok(());
        }
        let what = "too many questions about sign-ins came from your address";
        Err(Problem::new(catalogue::TOO_MANY_REQUESTS, what))
    }

    /// A caller that signs in: it has no rights yet.
    pub fn without_token(&self, from: IpAddr) -> Result<Asks, Problem> {
        self.may_sign_in(RequestSource::of(from))?;
        let way = Way {
            origin: Origin::Network(from),
            scope: Scope::Metrics,
            token: None,
            network_user: None,
            is_mapped: false,
        };
        Ok(Asks(Arc::new(stranger("nobody".into()).by(way))))
    }

    /// The user of a token by its ID, for sessions.
    pub async fn by_id(&self, id: &str, from: IpAddr) -> Option<Asks> {
        self.asker(self.access.by_id(id, now())?, from).await
    }

    async fn asker(&self, row: TokenRow, from: IpAddr) -> Option<Asks> {
        let (identify, find_user) = (self.identify.clone(), self.find_user);
        let network_user = match &row.subject {
            Subject::System { .. } => None,
            Subject::Network(name) => Some(name.clone()),
        };
        let rule = network_user.as_ref().and_then(|name| self.access.user_of(name));
        let provided = row.provided.clone().unwrap_or_default();
        // The system's name service may take its time.
        let place = self.lookups.enter(RequestSource::of(from)).await;
        let found = tokio::task::spawn_blocking(move || match row.subject {
            // A new account with the ID of a removed one is not the user of the token.
            Subject::System { uid, user } => {
                let asker = identify.find(Peer { uid, gid: None, pid: None });
                (asker.caller.owner.user == user).then_some((asker, true))
            }
            Subject::Network(name) => {
                let find = |user: String| {
                    let (uid, _) = find_user(&user)?;
                    Some(identify.find(Peer { uid, gid: None, pid: None }))
                };
                // Only a rule leads to an admin: any user may be called root at a provider. An
                // account of the system is no person's.
                let may_be = |it: &Asker| !it.caller.admin && (it.is_person || !provided.of_people);
                // A number would be found as the ID of another user.
                let named = provided.account.filter(|name| name.parse::<u32>().is_err());
                let same = || named.and_then(find).filter(may_be);
                let Some(mut asker) = rule.and_then(find).or_else(same) else {
                    return Some((stranger(name), false));
                };
                asker.caller.admin |= provided.is_admin;
                asker.caller.groups.extend(provided.groups.into_iter().map(Arc::from));
                Some((asker, true))
            }
        });
        let found = found.await;
        drop(place);
        let (asker, is_mapped) = found.ok()??;
        let (origin, token) = (Origin::Network(from), Some(row.id.into()));
        let way = Way { origin, scope: row.scope, token, network_user, is_mapped };
        Some(Asks(Arc::new(asker.by(way))))
    }
}

/// Checks that a long request still has the rights of its token.
pub(crate) struct RightsCheck {
    entrance: Arc<Entrance>,
    /// The facts about the token at the last check, and the time of that check.
    last: Option<(TokenFacts, Instant)>,
}

impl RightsCheck {
    pub fn new(entrance: Arc<Entrance>) -> Self {
        Self { entrance, last: None }
    }

    /// Whether the token of a request still gives all rights that the request had. The account of
    /// its user is looked up after changes of tokens and rules, and once in a while.
    pub async fn holds(&mut self, asks: &Asks) -> bool {
        let way = &asks.0.way;
        let Some(token) = way.token.as_deref() else { return true };
        let Some(standing) = self.entrance.access.standing(token, now()) else { return false };
        let age_most = self.entrance.account_age_most;
        let is_recent =
            |(last, at): &(TokenFacts, Instant)| *last == standing && at.elapsed() < age_most;
        if self.last.as_ref().is_some_and(is_recent) {
            return true;
        }
        self.last = Some((standing, Instant::now()));
        let from = match way.origin {
            Origin::Network(from) => from,
            Origin::Socket | Origin::Dashboard => Ipv4Addr::LOCALHOST.into(),
        };
        let found = self.entrance.by_id(token, from).await;
        found.is_some_and(|found| found.0.has_rights_of(&asks.0))
    }
}

/// A caller without a system user.
fn stranger(user: Arc<str>) -> Asker {
    let owner = Owner { uid: NOBODY, gid: NOBODY, user };
    Asker::new(Caller::new(owner, false), "/".to_owned(), None)
}
