//! The server, its devices and nodes: one method for each route.

use gpool_wire::budget::BudgetRow;
use gpool_wire::cost::CostRow;
use gpool_wire::join::{AddNode, NodeInvitation};
use gpool_wire::usage::{GpuHistory, GpuHistoryParams, UsageParams, UsageRow};
use gpool_wire::waste::WasteRow;
use gpool_wire::{
    AllowDevices, Document, ForecastState, Gpu, LabelNodes, List, Login, MigAnswer, MigRequest,
    MigStep, MoveNodes, Node, Notification, NotifySecret, PolicyInfo, PolicyPatch, Pool, Recovery,
    Shutdown, SimulateAsk, Simulation, Status, Time, UserCapsPatch, UserLimits, Version,
};

use crate::call::{Call, Client, escaped};
use crate::error::Error;
use crate::events::Events;

impl Client {
    /// The server's name and version.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn version(&self) -> Result<Version, Error> {
        self.ask::<Document<_>>(&Call::get("/version")).map(|answer| answer.body)
    }

    /// The state of the server and its cluster, in short.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn status(&self) -> Result<Status, Error> {
        self.ask::<Document<_>>(&Call::get("/status")).map(|answer| answer.body)
    }

    /// The last forecast, and the accuracy of earlier ones.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn forecast_state(&self) -> Result<ForecastState, Error> {
        self.ask::<Document<_>>(&Call::get("/forecast")).map(|answer| answer.body)
    }

    /// A user's usage and limits; `all` for users without caps of their own.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn user_limits(&self, user: &str) -> Result<UserLimits, Error> {
        let call = Call::get(&format!("/users/{}", escaped(user)));
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// Changes a user's caps.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn limit_user(&self, user: &str, patch: &UserCapsPatch) -> Result<UserLimits, Error> {
        let call = Call::patch(&format!("/users/{}", escaped(user))).json(patch);
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// The result of the server's last recovery at its start.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn recovery(&self) -> Result<Recovery, Error> {
        self.ask::<Document<_>>(&Call::get("/recovery")).map(|answer| answer.body)
    }

    /// Simulates changes without making them.
    ///
    /// # Errors
    /// [`Error::Problem`] if a change is invalid or would be refused; see [`Error`].
    pub fn simulate(&self, ask: &SimulateAsk) -> Result<Simulation, Error> {
        let call = Call::post("/simulate").json(ask);
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// The present state with the plan for it, as input for `gpool replay`.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn dump(&self) -> Result<String, Error> {
        self.text(&Call::get("/dump"))
    }

    /// Messages about jobs that are not sent yet, or were recently given up.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn notifications(&self) -> Result<List<Notification>, Error> {
        self.ask(&Call::get("/notifications"))
    }

    /// The key with which a receiver verifies that messages come from the server.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn notify_secret(&self) -> Result<NotifySecret, Error> {
        let call = Call::get("/notifications/secret");
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// Whether the server accepts requests.
    ///
    /// # Errors
    /// [`Error::Problem`] while it is still reading its state; see [`Error`].
    pub fn ready(&self) -> Result<(), Error> {
        self.tell(&Call::at_root("/readyz"))
    }

    /// Metrics in the OpenMetrics text format.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn metrics(&self) -> Result<String, Error> {
        self.text(&Call::at_root("/metrics"))
    }

    /// All devices.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn gpus(&self) -> Result<List<Gpu>, Error> {
        self.ask(&Call::get("/gpus"))
    }

    /// Sets the devices of a node that new allocations may use.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn allow_gpus(&self, allow: &AllowDevices) -> Result<List<Gpu>, Error> {
        self.ask(&Call::post("/gpus/allow").json(allow))
    }

    /// All pools of nodes, by name.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn pools(&self) -> Result<List<Pool>, Error> {
        self.ask(&Call::get("/pools"))
    }

    /// Moves nodes into a pool; returns all pools.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn move_nodes(&self, asked: &MoveNodes) -> Result<List<Pool>, Error> {
        self.ask(&Call::post("/pools/move").json(asked))
    }

    /// Lists MIG profiles and instances, after a change if there is one.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn mig(&self, asked: &MigRequest) -> Result<MigAnswer, Error> {
        self.ask::<Document<_>>(&Call::post("/mig").json(asked)).map(|answer| answer.body)
    }

    /// The planned changes of MIG instances: of one pool as if it had the setting `mig_auto`, or of
    /// the pools that have it.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn mig_plan(&self, pool: Option<&str>) -> Result<List<MigStep>, Error> {
        self.ask(&Call::get("/mig/plan").query_if("pool", pool))
    }

    /// Creates a join token for a node on another machine.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn add_node(&self, node: &AddNode) -> Result<NodeInvitation, Error> {
        self.ask(&Call::post("/nodes").json(node))
    }

    /// Removes a node; returns the other nodes. With `is_off`, the jobs on it
    /// end as on a lost node.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn remove_node(&self, name: &str, is_off: bool) -> Result<List<Node>, Error> {
        let query = if is_off { "?off=true" } else { "" };
        self.ask(&Call::delete(&format!("/nodes/{}{query}", escaped(name))))
    }

    /// Changes labels of nodes; returns all nodes.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn label_nodes(&self, asked: &LabelNodes) -> Result<List<Node>, Error> {
        self.ask(&Call::post("/nodes/label").json(asked))
    }

    /// The scheduler's policy.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn policy(&self) -> Result<PolicyInfo, Error> {
        self.ask::<Document<_>>(&Call::get("/policies")).map(|answer| answer.body)
    }

    /// Changes the scheduler's policy.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn change_policy(&self, patch: &PolicyPatch) -> Result<PolicyInfo, Error> {
        let call = Call::patch("/policies").json(patch);
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// All nodes.
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

    /// A link that signs the caller in to the dashboard.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn login(&self) -> Result<Login, Error> {
        self.ask::<Document<_>>(&Call::post("/logins")).map(|answer| answer.body)
    }

    /// GPU time over a range, split by properties.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn usage(&self, range: &UsageParams) -> Result<Vec<UsageRow>, Error> {
        self.ask::<List<_>>(&of_range("/usage", range)).map(|answer| answer.items)
    }

    /// GPU time over a range with its cost.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn cost(&self, range: &UsageParams) -> Result<Vec<CostRow>, Error> {
        self.ask::<List<_>>(&of_range("/cost", range)).map(|answer| answer.items)
    }

    /// Budgets with the cost of this month.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn budgets(&self) -> Result<Vec<BudgetRow>, Error> {
        self.ask::<List<_>>(&Call::get("/budgets")).map(|answer| answer.items)
    }

    /// Jobs by the GPU time that they hold and do not use; with `sooner`, the jobs that would start
    /// without the first ones.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn waste(
        &self,
        since: Option<Time>,
        limit: Option<usize>,
        sooner: bool,
    ) -> Result<Vec<WasteRow>, Error> {
        let call = Call::get("/waste").query_if("since", since).query_if("limit", limit);
        let call = call.query_if("sooner", sooner.then_some(true));
        self.ask::<List<_>>(&call).map(|answer| answer.items)
    }

    /// The utilization of devices over time.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn gpu_history(&self, params: &GpuHistoryParams) -> Result<GpuHistory, Error> {
        let GpuHistoryParams { since, until, points, gpus, job, series } = params;
        let call = Call::get("/gpus/history").query_if("since", *since).query_if("until", *until);
        let call = call.query_if("points", *points).query_if("gpus", gpus.as_ref());
        let call = call.query_if("series", series.as_ref()).query_if("job", job.as_ref());
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// Stops the server; with `now`, after ending all jobs. Returns before it has stopped.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn shutdown(&self, now: bool) -> Result<(), Error> {
        self.tell(&Call::post("/shutdown").json(&Shutdown { now }))
    }

    /// The stream of events after a given one, or from now on. It resumes by itself after a lost
    /// connection.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn events(&self, after: Option<String>) -> Result<Events, Error> {
        Events::open(self.clone(), after)
    }
}

/// A report about GPU time.
fn of_range(path: &str, range: &UsageParams) -> Call {
    let UsageParams { by, only, since, until, step, limit } = range;
    let call = Call::get(path).query_if("by", by.as_ref()).query_if("only", only.as_ref());
    let call = call.query_if("since", *since);
    call.query_if("until", *until).query_if("step", step.as_ref()).query_if("limit", *limit)
}
