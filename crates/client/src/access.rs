//! Tokens, network users, and the caller itself.

use gpool_wire::{
    AuditEntry, Authority, DeviceAnswer, DeviceSignIn, Document, EndedSessions, List, MapUser, Me,
    NetworkUser, NewToken, Secret, Time, Token, TokenCreate,
};

use gpool_wire::secret::SecretValue;

use crate::call::{Call, Client, escaped};
use crate::error::Error;

/// Which changes to list.
#[derive(Debug, Clone, Default)]
pub struct AuditQuery {
    /// Only those by this user.
    pub user: Option<String>,
    /// Only those of this object, such as `jobs/12`.
    pub object: Option<String>,
    /// Not before this time.
    pub since: Option<Time>,
    /// Not after this time.
    pub until: Option<Time>,
    /// Only entries with larger numbers, the oldest first.
    pub after: Option<u64>,
    /// At most this number.
    pub limit: Option<usize>,
}

impl Client {
    /// The caller, as the server sees it.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn me(&self) -> Result<Me, Error> {
        self.ask::<Document<_>>(&Call::get("/me")).map(|answer| answer.body)
    }

    /// Begins a sign-in at the server's identity provider.
    ///
    /// # Errors
    /// [`Error::Problem`] if the server has none; see [`Error`].
    pub fn start_sign_in(&self) -> Result<DeviceSignIn, Error> {
        self.ask::<Document<_>>(&Call::post("/login/device")).map(|answer| answer.body)
    }

    /// Asks whether the user has confirmed the sign-in.
    ///
    /// # Errors
    /// [`Error::Problem`] if it failed or is over; see [`Error`].
    pub fn poll_sign_in(&self, handle: &str) -> Result<DeviceAnswer, Error> {
        let path = format!("/login/device/{}", escaped(handle));
        self.ask::<Document<_>>(&Call::post(&path)).map(|answer| answer.body)
    }

    /// The server's certificate authority.
    ///
    /// # Errors
    /// [`Error::Problem`] if it does not listen on the network; see [`Error`].
    pub fn authority(&self) -> Result<Authority, Error> {
        self.ask::<Document<_>>(&Call::get("/authority")).map(|answer| answer.body)
    }

    /// Changes, the newest first.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn audit(&self, query: &AuditQuery) -> Result<List<AuditEntry>, Error> {
        let AuditQuery { user, object, since, until, after, limit } = query;
        let call = Call::get("/audit").query_if("user", user.as_ref());
        let call = call.query_if("object", object.as_ref()).query_if("since", *since);
        let call = call.query_if("until", *until).query_if("after", *after);
        self.ask(&call.query_if("limit", *limit))
    }

    /// The valid tokens of the caller; of all users for admins.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn tokens(&self) -> Result<List<Token>, Error> {
        self.ask(&Call::get("/tokens"))
    }

    /// Creates a token; only this answer has its secret.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn create_token(&self, token: &TokenCreate) -> Result<NewToken, Error> {
        self.ask::<Document<_>>(&Call::post("/tokens").json(token)).map(|answer| answer.body)
    }

    /// Revokes a token.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn revoke_token(&self, id: &str) -> Result<Token, Error> {
        let call = Call::delete(&format!("/tokens/{}", escaped(id)));
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// The network users with a system user.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn network_users(&self) -> Result<List<NetworkUser>, Error> {
        self.ask(&Call::get("/network-users"))
    }

    /// Sets or removes the system user of a network user.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn map_user(&self, name: &str, map: &MapUser) -> Result<NetworkUser, Error> {
        let call = Call::patch(&format!("/network-users/{}", escaped(name))).json(map);
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// Forgets a network user.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn forget_user(&self, name: &str) -> Result<NetworkUser, Error> {
        let call = Call::delete(&format!("/network-users/{}", escaped(name)));
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// The secrets of the caller, or of all users for admins.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn secrets(&self, all: bool) -> Result<List<Secret>, Error> {
        self.ask(&Call::get("/secrets").query_if("all", all.then_some(true)))
    }

    /// Sets a secret of the caller.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn set_secret(&self, name: &str, value: &SecretValue) -> Result<Secret, Error> {
        let call = Call::put(&format!("/secrets/{}", escaped(name))).json(value);
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// Removes a secret of the caller, or of a user for admins.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn remove_secret(&self, name: &str, user: Option<&str>) -> Result<Secret, Error> {
        let call = Call::delete(&format!("/secrets/{}", escaped(name)));
        self.ask::<Document<_>>(&call.query_if("user", user)).map(|answer| answer.body)
    }

    /// Ends the browser sessions of the caller, or of all users.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn end_sessions(&self, all: bool) -> Result<EndedSessions, Error> {
        let call = Call::delete("/sessions").query_if("all", all.then_some(true));
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }
}
