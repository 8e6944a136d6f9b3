//! The server, its devices and nodes: one method for each route.

use gpool_wire::{
    AllowDevices, Document, ForecastState, Gpu, LabelNodes, List, MoveNodes, Node, Notification,
    NotifySecret, PolicyInfo, PolicyPatch, Pool, Recovery, Shutdown, SimulateAsk, Simulation,
    Status, UserCapsPatch, UserLimits, Version,
};

use crate::call::{Call, Client, escaped};
use crate::error::Error;
use crate::events::Events;

impl Client {
    /// What answers, and of which version.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn version(&self) -> Result<Version, Error> {
        self.ask::<Document<_>>(&Call::get("/version")).map(|answer| answer.body)
    }

    /// The server and its cluster in one page.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn status(&self) -> Result<Status, Error> {
        self.ask::<Document<_>>(&Call::get("/status")).map(|answer| answer.body)
    }

    /// The last forecast, and how well what was told before held.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn forecast_state(&self) -> Result<ForecastState, Error> {
        self.ask::<Document<_>>(&Call::get("/forecast")).map(|answer| answer.body)
    }

    /// What a user has and may have; `all` for users that have no caps of their own.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn user_limits(&self, user: &str) -> Result<UserLimits, Error> {
        let call = Call::get(&format!("/users/{}", escaped(user)));
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// Changes what a user may have.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn limit_user(&self, user: &str, patch: &UserCapsPatch) -> Result<UserLimits, Error> {
        let call = Call::patch(&format!("/users/{}", escaped(user))).json(patch);
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// What the last start of the server found and did.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn recovery(&self) -> Result<Recovery, Error> {
        self.ask::<Document<_>>(&Call::get("/recovery")).map(|answer| answer.body)
    }

    /// What would come of changes, none of which is made.
    ///
    /// # Errors
    /// [`Error::Problem`] if one is not understood, or would be refused; see [`Error`].
    pub fn simulate(&self, ask: &SimulateAsk) -> Result<Simulation, Error> {
        let call = Call::post("/simulate").json(ask);
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// The present state with the plan that is made from it, as `gpool replay` takes it.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn dump(&self) -> Result<String, Error> {
        self.text(&Call::get("/dump"))
    }

    /// Messages about jobs that are still to be sent, or were given up not long ago.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn notifications(&self) -> Result<List<Notification>, Error> {
        self.ask(&Call::get("/notifications"))
    }

    /// The key by which the receiver of messages knows that they are the server's.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn notify_secret(&self) -> Result<NotifySecret, Error> {
        let call = Call::get("/notifications/secret");
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// Whether the server takes requests.
    ///
    /// # Errors
    /// [`Error::Problem`] while it is still reading its state; see [`Error`].
    pub fn ready(&self) -> Result<(), Error> {
        self.tell(&Call::at_root("/readyz"))
    }

    /// Figures in the OpenMetrics text format.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn metrics(&self) -> Result<String, Error> {
        self.text(&Call::at_root("/metrics"))
    }

    /// Every device.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn gpus(&self) -> Result<List<Gpu>, Error> {
        self.ask(&Call::get("/gpus"))
    }

    /// Says which devices of a node new allocations may use.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn allow_gpus(&self, allow: &AllowDevices) -> Result<List<Gpu>, Error> {
        self.ask(&Call::post("/gpus/allow").json(allow))
    }

    /// The pools that nodes are in, by name.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn pools(&self) -> Result<List<Pool>, Error> {
        self.ask(&Call::get("/pools"))
    }

    /// Puts nodes into a pool; answers with all pools.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn move_nodes(&self, asked: &MoveNodes) -> Result<List<Pool>, Error> {
        self.ask(&Call::post("/pools/move").json(asked))
    }

    /// Changes labels of nodes; answers with all nodes.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn label_nodes(&self, asked: &LabelNodes) -> Result<List<Node>, Error> {
        self.ask(&Call::post("/nodes/label").json(asked))
    }

    /// How the scheduler decides.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn policy(&self) -> Result<PolicyInfo, Error> {
        self.ask::<Document<_>>(&Call::get("/policies")).map(|answer| answer.body)
    }

    /// Changes how the scheduler decides.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn change_policy(&self, patch: &PolicyPatch) -> Result<PolicyInfo, Error> {
        let call = Call::patch("/policies").json(patch);
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// Every node.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn nodes(&self) -> Result<List<Node>, Error> {
        self.ask(&Call::get("/nodes"))
    }

    /// One node.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn node(&self, name: &str) -> Result<Node, Error> {
        let call = Call::get(&format!("/nodes/{}", escaped(name)));
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// Stops the server, after ending all jobs if `now`. The answer comes before it has stopped.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn shutdown(&self, now: bool) -> Result<(), Error> {
        self.tell(&Call::post("/shutdown").json(&Shutdown { now }))
    }

    /// The stream of events after one that was seen, or from now on. It resumes by itself when the
    /// connection is lost.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn events(&self, after: Option<String>) -> Result<Events, Error> {
        Events::open(self.clone(), after)
    }
}
