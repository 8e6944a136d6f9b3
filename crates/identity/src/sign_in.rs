//! Sign-in with an identity provider. Each ends with a token for the network user, so sessions,
//! rules and revocation are the same as for other tokens.

mod name;
pub mod waiting;

use std::io::Read as _;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use gpool_model::Millis;
use gpool_model::escape::repeated;
use gpool_oidc::{
    Attempt, Callback, DeviceCode, Identity, Poll, Provider, ProviderRequest, ProviderResponse,
    Secrets, Settings,
};
use gpool_wire::{AuditEntry, Scope, Time};
use ureq::Agent;

use self::name::BadName;
use self::waiting::PendingSignIns;
use crate::access::{Access, Binding, CreateError, Provided, Subject, TokenRow, random};
use crate::audit::{Audit, AuditKind};
use crate::now;
use crate::pool::Rates;
use crate::pool::{Pool, RequestSource};

/// How long a sign-in is valid. Then the provider is asked again, so a user that it has removed
/// loses access within this time.
const VALID: Millis = Millis::from_hours(12);
/// How long the description of the provider and its keys are used. A key that it has removed is
/// refused after this time.
const DESCRIBED: Duration = Duration::from_secs(300);
/// How long a browser may take to come back.
const BROWSER: Duration = Duration::from_secs(600);
/// The most sign-ins that ask the provider at once, and those of one source: a provider that does
/// not answer keeps a thread for each.
const ASKING_MAX: (usize, usize) = (16, 2);
/// From one source, ten failed sign-ins are logged at once, then one in this time.
const LOGGED: Duration = Duration::from_secs(60);
/// Time limit and size of an answer of the provider.
const PATIENCE: Duration = Duration::from_secs(10);
const ANSWER_MAX: u64 = 1 << 20;
/// A provider that says `slow_down` wants this much more time (RFC 8628, section 3.5).
const SLOWER: Duration = Duration::from_secs(5);

/// The identity provider, and what its users may do.
#[derive(Clone, PartialEq, Eq)]
pub struct ProviderConfig {
    /// How this server is registered there.
    pub settings: Settings,
    /// Users in one of these groups have the rights of an admin.
    pub admin_groups: Vec<String>,
    /// Which users act as the system user of the same name if no rule names another one.
    pub same_names: SameNames,
    /// The domains of addresses that are names of users: `ana@lab.org`.
    pub domains: Vec<String>,
}

impl std::fmt::Debug for ProviderConfig {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProviderConfig").field("issuer", &self.settings.issuer).finish()
    }
}

/// Which users of a provider act as the system users of the same names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SameNames {
    #[default]
    None,
    /// Those with the system user of a person: no account of the system, and with a login shell.
    People,
    Only(Vec<String>),
}

#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// The provider refused, or its answers are not valid.
    #[error(transparent)]
    Provider(#[from] gpool_oidc::Error),
    /// It took too long, or the server has restarted.
    #[error("this sign-in is over: start again")]
    Over,
    /// Another user could be meant by the name.
    #[error(transparent)]
    BadName(#[from] BadName),
    /// The name belongs to another user of the provider.
    #[error("network user {name} is another user of the identity provider")]
    NameConflict { name: String },
    #[error(transparent)]
    NotStored(#[from] CreateError),
}

/// The state of a device sign-in.
pub enum DeviceState {
    /// Ask again after this time.
    Waiting(Duration),
    /// The token with its secret.
    Done(Box<(TokenRow, String)>),
}

/// The browser that signs in. No other one may end its sign-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Browser {
    source: RequestSource,
    /// The label of its host below `localhost`; empty over the network.
    label: String,
}

impl Browser {
    /// A browser of a user of this machine, at a host below `localhost`.
    #[must_use]
    pub fn local(label: &str, uid: u32) -> Self {
        Self { source: RequestSource::User(uid), label: label.to_owned() }
    }

    /// A browser over the network. Its address may change meanwhile.
    #[must_use]
    pub fn remote(from: IpAddr) -> Self {
        Self { source: RequestSource::of(from), label: String::new() }
    }

    /// By what its sign-ins are limited.
    #[must_use]
    pub fn source(&self) -> RequestSource {
        self.source
    }

    fn may_end(&self, began: &Self) -> bool {
        match began.source {
            RequestSource::User(_) | RequestSource::Browsers(_) | RequestSource::Agent(_) => {
                self == began
            }
            RequestSource::Block(_) => matches!(self.source, RequestSource::Block(_)),
        }
    }
}

pub struct SignIns {
    config: ProviderConfig,
    access: Arc<Access>,
    audit: Arc<Audit>,
    agent: Agent,
    /// Places for those that wait for the provider.
    asking: Pool,
    /// Failed ones that are logged.
    logged: Rates<RequestSource>,
    /// Entries of sign-ins with the name of another user, by a hash of the user at the provider.
    refusals: Rates<[u8; 32]>,
    provider: Mutex<Option<(Provider, Instant)>>,
    attempts: Mutex<PendingSignIns<(Attempt, Browser)>>,
    devices: Mutex<PendingSignIns<DeviceFlow>>,
}

struct DeviceFlow {
    code: DeviceCode,
    /// No question to the provider before this time.
    next: Instant,
    interval: Duration,
}

impl SignIns {
    /// No sign-in is under way at first. Asks nothing yet.
    #[must_use]
    pub fn new(config: ProviderConfig, access: Arc<Access>, audit: Arc<Audit>) -> Self {
        let (provider, attempts, devices) = Default::default();
        let asking = Pool::new(ASKING_MAX.0, ASKING_MAX.1);
        let logged = Rates::every(LOGGED, LOGGED * 10);
        let refusals = Rates::every(LOGGED, LOGGED * 10);
        // It follows no redirects: codes and secrets go only to addresses that the provider names.
        let agent = crate::outbound::config(PATIENCE).into();
        Self { config, access, audit, agent, asking, logged, refusals, provider, attempts, devices }
    }

    /// The host of the provider, for people.
    #[must_use]
    pub fn host(&self) -> &str {
        let rest = self.config.settings.issuer.split_once("://").map_or("", |(_, rest)| rest);
        rest.split('/').next().unwrap_or_default()
    }

    /// Runs work that waits for the provider or the disk, when it is the turn of its source.
    pub async fn in_turn<T: Send + 'static>(
        self: &Arc<Self>,
        source: RequestSource,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, tokio::task::JoinError> {
        let place = self.asking.enter(source).await;
        let own = Arc::clone(self);
        let work = move || {
            let done = work(&own);
            drop(place);
            done
        };
        tokio::task::spawn_blocking(work).await
    }

    /// Logs a failed sign-in, unless its source has many.
    pub fn log(&self, error: &SignInError, source: RequestSource, now: Instant) {
        if self.logged.take(source, now) {
            tracing::warn!(target: "audit", %error, ?source, "a sign-in failed");
        }
    }

    /// The host at which a browser on the loopback address began a sign-in.
    #[must_use]
    pub fn label(&self, state: &str, now: Instant) -> Option<String> {
        let mut attempts = locked(&self.attempts);
        let (_, browser) = attempts.get_mut(state, now)?;
        matches!(browser.source, RequestSource::User(_)).then(|| browser.label.clone())
    }

    /// Begins a sign-in with a browser; returns the address to open, and the state, which ties the
    /// answer to the browser. `is_new` asks the provider first whether it knows the address to come
    /// back to. Waits for the provider.
    ///
    /// # Errors
    /// The provider does not answer, or does not know the address.
    pub fn start(
        &self,
        redirect: &str,
        is_new: bool,
        browser: Browser,
        now: Instant,
    ) -> Result<(String, String), SignInError> {
        let secrets = Secrets { state: random(), nonce: random(), verifier: random() };
        let provider = self.provider(now)?;
        let attempt = provider.start(redirect, &secrets);
        if is_new {
            provider.check(&attempt, &|request| fetch(&self.agent, request))?;
        }
        let (url, state) = (attempt.url.clone(), attempt.state.clone());
        let (source, until) = (browser.source, now + BROWSER);
        let attempt = (attempt, browser);
        locked(&self.attempts).insert(state.clone(), attempt, source, until, now);
        Ok((url, state))
    }

    /// Ends a sign-in with a browser. Waits for the provider and the disk.
    pub fn finish(
        &self,
        callback: &Callback,
        browser: &Browser,
        from: &str,
        at: Instant,
    ) -> Result<(TokenRow, String), SignInError> {
        let state = callback.state.as_deref().unwrap_or_default();
        let mut attempts = locked(&self.attempts);
        let begun = attempts.get_mut(state, at).is_some_and(|(_, it)| browser.may_end(it));
        // Each state works once.
        let attempt = if begun { attempts.remove(state, at) } else { None };
        drop(attempts);
        let Some((attempt, _)) = attempt else { return Err(SignInError::Over) };
        let mut provider = self.provider(at)?;
        let fetch = |request: &ProviderRequest| fetch(&self.agent, request);
        let identity = provider.finish(&attempt, callback, &fetch, now().get() / 1000);
        self.store_keys(provider);
        let identity = identity?;
        self.admit(identity, "browser", from)
    }

    /// Begins a device sign-in; returns its name for [`Self::poll`]. Waits for the provider.
    ///
    /// # Errors
    /// The provider does not answer, or has no such sign-in.
    pub fn start_device(
        &self,
        source: RequestSource,
        now: Instant,
    ) -> Result<(String, DeviceCode), SignInError> {
        let code = self.provider(now)?.start_device(&|request| fetch(&self.agent, request))?;
        let until = now + Duration::from_secs(code.expires_in.min(1800));
        let interval = Duration::from_secs(code.interval.clamp(1, 60));
        let handle = BASE64_URL_SAFE_NO_PAD.encode(random::<24>());
        let device = DeviceFlow { code: code.clone(), next: now + interval, interval };
        locked(&self.devices).insert(handle.clone(), device, source, until, now);
        Ok((handle, code))
    }

    /// Asks whether the user has confirmed a device sign-in. Waits for the provider and the disk.
    pub fn poll(&self, handle: &str, from: &str, at: Instant) -> Result<DeviceState, SignInError> {
        let code = {
            let mut devices = locked(&self.devices);
            let device = devices.get_mut(handle, at).ok_or(SignInError::Over)?;
            if device.next > at {
                return Ok(DeviceState::Waiting(device.next - at));
            }
            device.next = at + device.interval;
            device.code.clone()
        };
        let fetch = |request: &ProviderRequest| fetch(&self.agent, request);
        let mut provider = self.provider(at)?;
        let polled = provider.poll_device(&code, &fetch, now().get() / 1000);
        self.store_keys(provider);
        let mut devices = locked(&self.devices);
        let device = devices.get_mut(handle, at).ok_or(SignInError::Over)?;
        match polled {
            Ok(Poll::Pending) => Ok(DeviceState::Waiting(device.interval)),
            Ok(Poll::SlowDown) => {
                device.interval += SLOWER;
                Ok(DeviceState::Waiting(device.interval))
            }
            // The provider may be back at the next question.
            Err(gpool_oidc::Error::Unreachable { .. }) => Ok(DeviceState::Waiting(device.interval)),
            Err(error) => {
                devices.remove(handle, at);
                Err(error.into())
            }
            Ok(Poll::Done(identity)) => {
                devices.remove(handle, at);
                drop(devices);
                Ok(DeviceState::Done(Box::new(self.admit(identity, "gpool login", from)?)))
            }
        }
    }

    /// The provider, asked again after some time: its keys and addresses change.
    fn provider(&self, now: Instant) -> Result<Provider, SignInError> {
        if let Some((provider, until)) = &*locked(&self.provider)
            && *until > now
        {
            return Ok(provider.clone());
        }
        // A provider that hangs delays only sign-ins that need its description.
        let fetch = |request: &ProviderRequest| fetch(&self.agent, request);
        let provider = Provider::discover(self.config.settings.clone(), &fetch)?;
        *locked(&self.provider) = Some((provider.clone(), now + DESCRIBED));
        Ok(provider)
    }

    /// Keeps the keys of a copy of the provider that has fetched new ones.
    fn store_keys(&self, mut provider: Provider) {
        if provider.take_new_keys()
            && let Some((stored, _)) = &mut *locked(&self.provider)
        {
            *stored = provider;
        }
    }

    /// Stores a token for a user of the provider that signs in from here.
    fn admit(
        &self,
        user: Identity,
        name: &str,
        from: &str,
    ) -> Result<(TokenRow, String), SignInError> {
        let at = now();
        let (issuer, subject) = (user.issuer, user.subject);
        let network_user = match self.access.bound(&issuer, &subject) {
            Some(name) => name,
            None => name::network_user(&user.name, self.host(), &self.config.domains)?,
        };
        let is_admin = user.groups.iter().any(|group| self.config.admin_groups.contains(group));
        let scope = if is_admin { Scope::Admin } else { Scope::ProjectAdmin };
        let host = format!("@{}", self.host());
        let account = network_user.strip_suffix(&host).filter(|it| self.may_be_same(it));
        let account = account.map(str::to_owned);
        let of_people = self.config.same_names == SameNames::People;
        let by: Arc<str> = network_user.as_str().into();
        let row = (name.to_owned(), Subject::Network(by.clone()), scope);
        let row = TokenRow::new(row, (by, at), Some(at.after(VALID)));
        let row = row.provided(Provided { groups: user.groups, is_admin, account, of_people });
        let binding = Binding { issuer, subject, name: network_user.clone(), since: at };
        let (row, secret) = match self.access.sign_in(row, binding.clone(), at) {
            Err(CreateError::NameConflict) => {
                let refused = SignInError::NameConflict { name: network_user };
                self.write_refused(&binding, from);
                return Err(refused);
            }
            created => created?,
        };
        self.write(AuditEntry {
            user: network_user.clone(),
            network_user: Some(network_user),
            objects: vec![format!("tokens/{}", row.id)],
            ..entry("sign in", from)
        });
        Ok((row, secret))
    }

    /// Whether a user of the provider may act as the system user of this name.
    fn may_be_same(&self, name: &str) -> bool {
        match &self.config.same_names {
            SameNames::None => false,
            SameNames::People => true,
            SameNames::Only(names) => names.iter().any(|it| it == name),
        }
    }

    /// Writes an entry of a sign-in with the name of another user, unless there are many.
    fn write_refused(&self, binding: &Binding, from: &str) {
        let entry = refused_entry(binding, from);
        let of = blake3::hash(format!("{} {}", binding.issuer, binding.subject).as_bytes());
        if !self.refusals.take(*of.as_bytes(), Instant::now()) {
            return;
        }
        if let Err(error) = self.audit.add(AuditKind::Denials, entry) {
            tracing::error!(%error, "can't write the audit log");
        }
    }

    fn write(&self, entry: AuditEntry) {
        if let Err(error) = self.audit.add(AuditKind::Cluster, entry) {
            tracing::error!(%error, "can't write the audit log");
        }
    }
}

fn entry(action: &str, from: &str) -> AuditEntry {
    AuditEntry::new(Time(now()), "nobody".to_owned(), from.to_owned(), action.to_owned())
}

/// The entry of a sign-in that used the name of another user.
fn refused_entry(of: &Binding, from: &str) -> AuditEntry {
    let request = serde_json::json!({"issuer": of.issuer, "subject": repeated(&of.subject)});
    AuditEntry {
        objects: vec![format!("network-users/{}", of.name)],
        request: Some(request),
        ..entry("refuse a sign-in: the name is another user's", from)
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fetch(agent: &Agent, request: &ProviderRequest) -> Result<ProviderResponse, String> {
    let authorization = request.authorization.as_deref();
    let sent = match &request.form {
        Some(form) => {
            let post = agent.post(&request.url).header("accept", "application/json");
            let post = post.header("content-type", "application/x-www-form-urlencoded");
            let post =
                authorization.into_iter().fold(post, |it, value| it.header("authorization", value));
            post.send(form)
        }
        None => {
            let get = agent.get(&request.url).header("accept", "application/json");
            let get =
                authorization.into_iter().fold(get, |it, value| it.header("authorization", value));
            get.call()
        }
    };
    let answer = sent.map_err(|error| error.to_string())?;
    let status = answer.status().as_u16();
    let mut body = Vec::new();
    let mut reader = answer.into_body().into_reader().take(ANSWER_MAX);
    reader.read_to_end(&mut body).map_err(|error| error.to_string())?;
    Ok(ProviderResponse { status, body })
}
