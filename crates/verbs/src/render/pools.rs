//! Pools as a list: `gpool pool`.

use gpool_cli::render::list::{Column, Noun};
use gpool_cli::render::table::Cell;
use gpool_wire::Pool;

pub const POOLS: Noun<Pool> = Noun {
    columns: COLUMNS,
    table: &["pool", "gpus", "up", "nodes"],
    wide: &["pool", "gpus", "up", "nodes"],
    name: |pool| pool.name.clone(),
    keys: gpool_wire::keys::keys::<Pool>,
};

const COLUMNS: &[Column<Pool>] = &[
    Column { name: "pool", head: "POOL", cell: |pool, _| Cell::new(&pool.name) },
    Column {
        name: "gpus",
        head: "GPUs FREE",
        cell: |pool, _| Cell::new(&format!("{} of {}", pool.n_gpus_free, pool.n_gpus)),
    },
    Column {
        name: "up",
        head: "NODES UP",
        cell: |pool, _| Cell::new(&format!("{} of {}", pool.n_connected, pool.nodes.len())),
    },
    Column { name: "nodes", head: "NODES", cell: |pool, _| Cell::new(&pool.nodes.join(" ")) },
];
