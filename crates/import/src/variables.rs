//! Environment variables of other tools, which scripts read, from those of gpool.

/// Lines at the start of a script of dstack.
///
/// Source: <https://dstack.ai/docs/reference/environment-variables/>
pub(crate) const DSTACK: &str = "\
export DSTACK_RUN_NAME=\"$GPOOL_JOB_NAME\" DSTACK_RUN_ID=\"$GPOOL_JOB_ID\"
export DSTACK_NODE_RANK=\"$GPOOL_NODE_RANK\" DSTACK_NODES_NUM=\"$GPOOL_NUM_NODES\"
export DSTACK_GPUS_PER_NODE=\"$GPOOL_GPUS\" DSTACK_GPUS_NUM=$((GPOOL_GPUS * GPOOL_NUM_NODES))
export DSTACK_MASTER_NODE_IP=\"${MASTER_ADDR:-127.0.0.1}\"
export DSTACK_NODES_IPS=\"$(printf %s \"$GPOOL_NODELIST\" | tr , \"\\n\")\"
";

/// Lines at the start of a script of SkyPilot.
///
/// Source: <https://docs.skypilot.co/en/latest/running-jobs/environment-variables.html>
pub(crate) const SKYPILOT: &str = "\
export SKYPILOT_NODE_RANK=\"$GPOOL_NODE_RANK\" SKYPILOT_NUM_NODES=\"$GPOOL_NUM_NODES\"
export SKYPILOT_NUM_GPUS_PER_NODE=\"$GPOOL_GPUS\" SKYPILOT_TASK_ID=\"gpool-$GPOOL_JOB_ID\"
export SKYPILOT_NODE_IPS=\"$(printf %s \"$GPOOL_NODELIST\" | tr , \"\\n\")\"
";

/// The remark about the addresses of nodes.
pub(crate) const NAMES: &str = "the names of the nodes stand for their addresses";
