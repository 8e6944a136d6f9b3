//! The end of a start: waits for the agents, keeps the account of their reports, and applies the
//! configuration. Without room on the disk the server answers first, and this follows later.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::future::join_all;
use gpool_model::{Caller, Command, LabelChange, Refusal};
use gpool_store::CommitError;
use tokio::task::JoinHandle;

use crate::config::ServerConfig;
use crate::fault::refused;
use crate::handle::CoreHandle;
use crate::recovery::PriorState;

/// How long the agents may take to say what there is and what runs; a driver may hang.
const AGENT_PATIENCE: Duration = Duration::from_secs(60);
/// How often a start is looked at while nothing is heard of it.
const LOOK: Duration = Duration::from_millis(100);

/// Ends the start, or lets it go on in the background until there is room.
pub async fn begin(
    config: &ServerConfig,
    handle: &CoreHandle,
    found: PriorState,
    admin: &Caller,
) -> anyhow::Result<Option<JoinHandle<()>>> {
    let connected = tokio::time::timeout(AGENT_PATIENCE, nodes_connected(handle)).await;
    let found = match connected.context("an agent did not report the jobs of its node in time")? {
        Ok(()) => {
            account(handle, found).await?;
            match configure(config, handle, admin).await {
                Ok(()) => return Ok(None),
                Err(Refusal::StorageFull { .. }) => None,
                Err(refusal) => return Err(refused(&refusal)),
            }
        }
        Err(error) if matches!(error.downcast_ref(), Some(CommitError::StorageFull)) => {
            let agents = handle.agents();
            let answers = agents.iter().map(|agent| agent.launched(BTreeSet::new()));
            let launched = join_all(answers).await.into_iter().flatten();
            let running = launched.flat_map(|launched| launched.running).collect();
            let early = found.early(handle, &running);
            assert!(handle.shared.recovery.early.set(early).is_ok(), "one start has one account");
            Some(found)
        }
        Err(error) => return Err(error),
    };
    tracing::error!("started with a full disk: no job is accepted or started");
    let (config, handle, admin) = (config.clone(), handle.clone(), admin.clone());
    Ok(Some(tokio::spawn(async move {
        match settle_in(&config, &handle, found, &admin).await {
            Ok(()) => tracing::info!("the disk has space again; the start is complete"),
            Err(error) => tracing::error!(?error, "not all settings were applied"),
        }
    })))
}

/// Ends the start once there is room.
async fn settle_in(
    config: &ServerConfig,
    handle: &CoreHandle,
    found: Option<PriorState>,
    admin: &Caller,
) -> anyhow::Result<()> {
    if let Some(found) = found {
        while nodes_connected(handle).await.is_err() {
            tokio::time::sleep(LOOK).await;
        }
        account(handle, found).await?;
    }
    loop {
        match configure(config, handle, admin).await {
            Ok(()) => return Ok(()),
            Err(Refusal::StorageFull { .. }) => tokio::time::sleep(LOOK).await,
            Err(refusal) => return Err(refused(&refusal)),
        }
    }
}

/// Keeps the account of the agents' reports.
async fn account(handle: &CoreHandle, found: PriorState) -> anyhow::Result<()> {
    fail::fail_point!("server-start-connected");
    let account = found.account(handle).await.map_err(|refusal| refused(&refusal))?;
    account.log();
    assert!(handle.shared.recovery.account.set(account).is_ok(), "one start has one account");
    Ok(())
}

async fn configure(
    config: &ServerConfig,
    handle: &CoreHandle,
    admin: &Caller,
) -> Result<(), Refusal> {
    for (node, pool) in config.pools.iter().cloned() {
        let command = Command::MoveNodes { nodes: vec![node], pool };
        handle.command(admin.clone(), command).await?;
    }
    for (node, set) in config.labels.iter().cloned() {
        let change = LabelChange { set, ..LabelChange::default() };
        let command = Command::LabelNodes { nodes: vec![node], change };
        handle.command(admin.clone(), command).await?;
    }
    if let Some(devices) = &config.allowed {
        let devices = Some(devices.clone()).filter(|devices| devices != &["all"]);
        for node in config.nodes.iter().cloned() {
            let command = Command::AllowDevices { node, devices: devices.clone() };
            handle.command(admin.clone(), command).await?;
        }
    }
    if let Some(strategy) = config.strategy {
        let command = Command::SetDeviceStrategy { strategy };
        handle.command(admin.clone(), command).await?;
    }
    Ok(())
}

/// Waits until each agent has said what there is and what runs.
async fn nodes_connected(handle: &CoreHandle) -> anyhow::Result<()> {
    let mut notices = handle.notices();
    loop {
        let nodes = handle.info().nodes.clone();
        let look = move |view: &crate::View<'_>| {
            let connected = |node| view.world.node(node).is_some_and(|row| row.node.connected);
            (nodes.iter().all(connected), view.store_fault.filter(|_| view.is_stuck).cloned())
        };
        match handle.query(look).await {
            // The next look shows the fault.
            Err(Refusal::StorageFull { .. }) => {}
            Err(refusal) => return Err(refused(&refusal)),
            // The state of the nodes may be from before this start then.
            Ok((_, Some(fault))) => return Err(fault.into()),
            Ok((true, None)) => return Ok(()),
            Ok((false, None)) => {}
        }
        // However it ends it is time to look again; a failed commit is no notice.
        drop(tokio::time::timeout(LOOK, notices.recv()).await);
    }
}
