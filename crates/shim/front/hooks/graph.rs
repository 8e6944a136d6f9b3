//! Allocations of graphs. A graph takes its memory at its first launch, where a refusal would be a
//! surprise, so it is charged when the allocation is added. A trim of the device's graph memory
//! sets the charge to the true size.

use crate::charge::{charge, correct, device, refund};
use crate::cuda::OUT_OF_MEMORY;
use crate::driver::{SUCCESS, function};
use crate::entries::ix;
use crate::hooks::pool::{GRAPH, Location};
use crate::process::process;
use crate::table::Entry;

type AddAllocation = unsafe extern "C" fn(*mut u64, u64, usize, usize, *mut Allocation) -> u32;
type AddNode = unsafe extern "C" fn(*mut u64, u64, usize, usize, *mut Node) -> u32;
type AddNode2 = unsafe extern "C" fn(*mut u64, u64, usize, usize, usize, *mut Node) -> u32;
type Trim = unsafe extern "C" fn(i32) -> u32;
type GetAttribute = unsafe extern "C" fn(i32, u32, *mut u64) -> u32;

/// `CU_GRAPH_NODE_TYPE_MEM_ALLOC`.
const ALLOCATION: u32 = 10;
/// `CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT`.
const RESERVED: u32 = 2;

/// `CUDA_MEM_ALLOC_NODE_PARAMS`.
#[repr(C)]
pub struct Allocation {
    kind: u32,
    handle_types: u32,
    location: Location,
    rest_of_pool: [u64; 9],
    access: usize,
    n_access: usize,
    bytes: usize,
}

/// The beginning of `CUgraphNodeParams`.
#[repr(C)]
pub struct Node {
    kind: u32,
    reserved: [u32; 3],
    allocation: Allocation,
}

fn charged(allocation: Option<&Allocation>, call: impl FnOnce() -> u32) -> u32 {
    let known = allocation.and_then(|it| Some((it.location.device()?, it.bytes as u64)));
    let Some((device, bytes)) = known else { return call() };
    if !charge(device, bytes) {
        return OUT_OF_MEMORY;
    }
    let result = call();
    if result != SUCCESS {
        refund(device, bytes);
    } else if let Some(process) = process() {
        let key = GRAPH | device as u64;
        process.with_tables(|tables| match tables.pools.get(key) {
            Some(entry) => entry.a = entry.a.saturating_add(bytes),
            None => tables.pools.insert(Entry { key, a: bytes, b: device as u64 }),
        });
    }
    result
}

/// The allocation of a node; `None` for other nodes.
unsafe fn allocation<'n>(node: *const Node) -> Option<&'n Allocation> {
    // Other nodes have other structures, so only the beginning is read before.
    let is_allocation = !node.is_null() && (*node).kind == ALLOCATION;
    is_allocation.then(|| &(*node).allocation)
}

pub unsafe extern "C" fn add_allocation(
    node: *mut u64,
    graph: u64,
    dependencies: usize,
    n_dependencies: usize,
    parameters: *mut Allocation,
) -> u32 {
    let Some(call) = function::<AddAllocation>(ix::cuGraphAddMemAllocNode) else {
        return OUT_OF_MEMORY;
    };
    let call = || call(node, graph, dependencies, n_dependencies, parameters);
    charged(parameters.as_ref(), call)
}

pub unsafe extern "C" fn add_node(
    node: *mut u64,
    graph: u64,
    dependencies: usize,
    n_dependencies: usize,
    parameters: *mut Node,
) -> u32 {
    let Some(call) = function::<AddNode>(ix::cuGraphAddNode) else { return OUT_OF_MEMORY };
    let call = || call(node, graph, dependencies, n_dependencies, parameters);
    charged(allocation(parameters), call)
}

pub unsafe extern "C" fn add_node_2<const IX: usize>(
    node: *mut u64,
    graph: u64,
    dependencies: usize,
    edges: usize,
    n_dependencies: usize,
    parameters: *mut Node,
) -> u32 {
    let Some(call) = function::<AddNode2>(IX) else { return OUT_OF_MEMORY };
    let call = || call(node, graph, dependencies, edges, n_dependencies, parameters);
    charged(allocation(parameters), call)
}

pub unsafe extern "C" fn trim(ordinal: i32) -> u32 {
    let Some(call) = function::<Trim>(ix::cuDeviceGraphMemTrim) else { return SUCCESS };
    let result = call(ordinal);
    let reserved = reserved(ordinal).filter(|_| result == SUCCESS);
    if let (Some(device), Some(process), Some(now)) = (device(ordinal), process(), reserved) {
        let before = process.with_tables(|tables| {
            let entry = tables.pools.get(GRAPH | device as u64)?;
            Some(core::mem::replace(&mut entry.a, now))
        });
        if let Some(before) = before {
            correct(device, before, now);
        }
    }
    result
}

fn reserved(ordinal: i32) -> Option<u64> {
    let call = function::<GetAttribute>(ix::cuDeviceGetGraphMemAttribute)?;
    let mut value = 0;
    // SAFETY: the driver's function, with its type.
    (unsafe { call(ordinal, RESERVED, &raw mut value) } == SUCCESS).then_some(value)
}
