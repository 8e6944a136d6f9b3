//! Sign-in with an identity provider. Each ends with a token for the network user, so sessions,
//! rules and revocation are the same as for other tokens.

use std::collections::HashMap;
use std::io::Read as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use gpool_model::Millis;
use gpool_oidc::{
    Answer, Attempt, Callback, DeviceCode, Identity, Poll, Provider, Request, Secrets, Settings,
};
use gpool_wire::{AuditEntry, Scope, Time};
use ureq::Agent;

use crate::access::{Access, CreateError, Provided, Subject, TokenRow, random};
use crate::audit::{Audit, Kind};
use crate::clock::now;

/// How long a sign-in is valid. Then the provider is asked again, so a user that it has removed
/// loses access within this time.
const VALID: Millis = Millis::from_hours(12);
/// How long the description of the provider is used.
const DESCRIBED: Duration = Duration::from_secs(3600);
/// How long a browser may take to come back.
const BROWSER: Duration = Duration::from_secs(600);
/// The most sign-ins that wait; the oldest is forgotten.
const WAITING_MAX: usize = 1000;
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
    /// Whether a user acts as the system user of the same name if no rule names another one.
    pub same_names: bool,
}

impl std::fmt::Debug for ProviderConfig {
    /// Without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProviderConfig").field("issuer", &self.settings.issuer).finish()
    }
}

/// Why a sign-in failed.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// The provider refused, or its answers are not valid.
    #[error(transparent)]
    Provider(#[from] gpool_oidc::Error),
    /// It took too long, or the server has restarted.
    #[error("this sign-in is over: start again")]
    Over,
    /// The name would not be readable.
    #[error("the provider's name of the user has control characters or is too long")]
    BadName,
    /// The token can't be stored.
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

/// Sign-ins under way.
pub struct SignIns {
    config: ProviderConfig,
    access: Arc<Access>,
    audit: Arc<Audit>,
    agent: Agent,
    provider: Mutex<Option<(Provider, Instant)>>,
    attempts: Mutex<HashMap<String, (Attempt, Instant)>>,
    devices: Mutex<HashMap<String, Device>>,
}

struct Device {
    code: DeviceCode,
    until: Instant,
    /// No question to the provider before this time.
    next: Instant,
    interval: Duration,
}

impl SignIns {
    /// No sign-in is under way at first. Asks nothing yet.
    #[must_use]
    pub fn new(config: ProviderConfig, access: Arc<Access>, audit: Arc<Audit>) -> Self {
        let (provider, attempts, devices) = Default::default();
        // It follows no redirects: codes and secrets go only to addresses that the provider names.
        let agent = crate::post::config(PATIENCE).into();
        Self { config, access, audit, agent, provider, attempts, devices }
    }

    /// The host of the provider, for people.
    #[must_use]
    pub fn host(&self) -> &str {
        let rest = self.config.settings.issuer.split_once("://").map_or("", |(_, rest)| rest);
        rest.split('/').next().unwrap_or_default()
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
        now: Instant,
    ) -> Result<(String, String), SignInError> {
        let secrets = Secrets { state: random(), nonce: random(), verifier: random() };
        let provider = self.provider(now)?;
        let attempt = provider.start(redirect, &secrets);
        if is_new {
            provider.check(&attempt, &|request| fetch(&self.agent, request))?;
        }
        let (url, state) = (attempt.url.clone(), attempt.state.clone());
        let mut attempts = locked(&self.attempts);
        make_room(&mut attempts, now, |(_, until)| *until);
        attempts.insert(state.clone(), (attempt, now + BROWSER));
        Ok((url, state))
    }

    /// Ends a sign-in with a browser. Waits for the provider and the disk.
    ///
    /// # Errors
    /// See [`SignInError`].
    pub fn finish(
        &self,
        callback: &Callback,
        from: &str,
        at: Instant,
    ) -> Result<(TokenRow, String), SignInError> {
        let state = callback.state.as_deref().unwrap_or_default();
        // Each state works once.
        let attempt = locked(&self.attempts).remove(state);
        let Some((attempt, _)) = attempt.filter(|(_, until)| *until > at) else {
            return Err(SignInError::Over);
        };
        let mut provider = self.provider(at)?;
        let fetch = |request: &Request| fetch(&self.agent, request);
        let identity = provider.finish(&attempt, callback, &fetch, now().get() / 1000)?;
        self.admit(identity, "browser", from)
    }

    /// Begins a device sign-in; returns its name for [`Self::poll`]. Waits for the provider.
    ///
    /// # Errors
    /// The provider does not answer, or has no such sign-in.
    pub fn start_device(&self, now: Instant) -> Result<(String, DeviceCode), SignInError> {
        let code = self.provider(now)?.start_device(&|request| fetch(&self.agent, request))?;
        let until = now + Duration::from_secs(code.expires_in.min(1800));
        let interval = Duration::from_secs(code.interval.clamp(1, 60));
        let handle = BASE64_URL_SAFE_NO_PAD.encode(random::<24>());
        let device = Device { code: code.clone(), until, next: now + interval, interval };
        let mut devices = locked(&self.devices);
        make_room(&mut devices, now, |device| device.until);
        devices.insert(handle.clone(), device);
        Ok((handle, code))
    }

    /// Asks whether the user has confirmed a device sign-in. Waits for the provider and the disk.
    ///
    /// # Errors
    /// See [`SignInError`].
    pub fn poll(&self, handle: &str, from: &str, at: Instant) -> Result<DeviceState, SignInError> {
        let code = {
            let mut devices = locked(&self.devices);
            let device = devices.get_mut(handle).filter(|device| device.until > at);
            let device = device.ok_or(SignInError::Over)?;
            if device.next > at {
                return Ok(DeviceState::Waiting(device.next - at));
            }
            device.next = at + device.interval;
            device.code.clone()
        };
        let fetch = |request: &Request| fetch(&self.agent, request);
        let polled = self.provider(at)?.poll_device(&code, &fetch, now().get() / 1000);
        let mut devices = locked(&self.devices);
        let device = devices.get_mut(handle).ok_or(SignInError::Over)?;
        match polled {
            Ok(Poll::Pending) => Ok(DeviceState::Waiting(device.interval)),
            Ok(Poll::SlowDown) => {
                device.interval += SLOWER;
                Ok(DeviceState::Waiting(device.interval))
            }
            // The provider may be back at the next question.
            Err(gpool_oidc::Error::Unreachable { .. }) => Ok(DeviceState::Waiting(device.interval)),
            Err(error) => {
                devices.remove(handle);
                Err(error.into())
            }
            Ok(Poll::Done(identity)) => {
                devices.remove(handle);
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
        let fetch = |request: &Request| fetch(&self.agent, request);
        let provider = Provider::discover(self.config.settings.clone(), &fetch)?;
        *locked(&self.provider) = Some((provider.clone(), now + DESCRIBED));
        Ok(provider)
    }

    /// Stores a token for a user of the provider that signs in from here.
    fn admit(
        &self,
        user: Identity,
        name: &str,
        from: &str,
    ) -> Result<(TokenRow, String), SignInError> {
        const NAME_MAX: usize = 80;
        let network_user = match user.name.contains('@') {
            true => user.name.clone(),
            false => format!("{}@{}", user.name, self.host()),
        };
        let is_bad = network_user.chars().any(char::is_control);
        if is_bad || network_user.chars().count() > NAME_MAX {
            return Err(SignInError::BadName);
        }
        let is_admin = user.groups.iter().any(|group| self.config.admin_groups.contains(group));
        let scope = if is_admin { Scope::Admin } else { Scope::ProjectAdmin };
        // A name with a domain may come from elsewhere.
        let account = self.config.same_names.then_some(user.name).filter(|it| !it.contains('@'));
        let at = now();
        let subject = Subject::Network(network_user.as_str().into());
        let by = Arc::from(network_user);
        let row = TokenRow::new((name.to_owned(), subject, scope), (by, at), Some(at.after(VALID)));
        let row = row.provided(Provided { groups: user.groups, is_admin, account });
        let (row, secret) = self.access.create(row, at)?;
        let user = row.subject.name().to_string();
        let entry = AuditEntry {
            id: 0,
            at: Time(at),
            user: user.clone(),
            network_user: Some(user),
            origin: from.to_owned(),
            token: None,
            action: "sign in".to_owned(),
            objects: vec![format!("tokens/{}", row.id)],
            request: None,
            before: None,
            after: None,
        };
        if let Err(error) = self.audit.add(Kind::Cluster, entry) {
            tracing::error!(%error, "can't write the audit log");
        }
        Ok((row, secret))
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Drops entries that are over, and the oldest if there are too many.
fn make_room<T>(waiting: &mut HashMap<String, T>, now: Instant, until: impl Fn(&T) -> Instant) {
    waiting.retain(|_, it| until(it) > now);
    if waiting.len() >= WAITING_MAX {
        let oldest = waiting.iter().min_by_key(|(_, it)| until(it)).map(|(key, _)| key.clone());
        waiting.remove(&oldest.unwrap_or_default());
    }
}

fn fetch(agent: &Agent, request: &Request) -> Result<Answer, String> {
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
    Ok(Answer { status, body })
}
