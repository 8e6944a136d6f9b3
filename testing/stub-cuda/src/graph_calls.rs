//! Symbols about graphs with allocations. A graph takes its memory at its first launch, and a trim
//! of its device gives it back.

use crate::code::{Code, INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, give};
use crate::driver::{Session, ask, call};
use crate::memory::Graph;
use crate::pool_calls::PoolProperties;

/// `CU_GRAPH_NODE_TYPE_MEM_ALLOC`.
const ALLOCATION_NODE: u32 = 10;
/// `CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT` and `…_RESERVED_MEM_CURRENT`.
const USED_CURRENT: u32 = 0;
const RESERVED_CURRENT: u32 = 2;

/// `CUDA_MEM_ALLOC_NODE_PARAMS`.
#[repr(C)]
struct AllocationNode {
    pool: PoolProperties,
    access: usize,
    n_access: usize,
    size: usize,
    address: u64,
}

/// `CUgraphNodeParams`.
#[repr(C)]
struct NodeParameters {
    kind: u32,
    reserved: [u32; 3],
    allocation: AllocationNode,
}

/// The graph memory of a device is counted as a pool with this handle.
fn pool(session: &mut Session, device: usize) -> u64 {
    let handle = 0x200 + device as u64;
    session.memory.pools.entry(handle).or_default().device = device;
    handle
}

fn add(session: &mut Session, graph: u64, node: &mut AllocationNode) -> Result<(), Code> {
    let device = session.device(node.pool.location)?;
    let address = crate::heap::reserve(node.size as u64).map_err(|_| INVALID_VALUE)?;
    let it = session.memory.graphs.get_mut(&graph).ok_or(INVALID_HANDLE)?;
    it.allocations.push((device, node.size as u64));
    node.address = address;
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphCreate(graph: Option<&mut u64>, _flags: u32) -> Code {
    call("cuGraphCreate", |session, _| {
        let handle = session.memory.handle();
        session.memory.graphs.insert(handle, Graph::default());
        give(graph, handle)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphAddMemAllocNode(
    node: Option<&mut u64>,
    graph: u64,
    _dependencies: usize,
    _n_dependencies: usize,
    parameters: Option<&mut AllocationNode>,
) -> Code {
    call("cuGraphAddMemAllocNode", |session, _| {
        add(session, graph, parameters.ok_or(INVALID_VALUE)?)?;
        give(node, session.memory.handle())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphAddNode_v2(
    node: Option<&mut u64>,
    graph: u64,
    _dependencies: usize,
    _edges: usize,
    _n_dependencies: usize,
    parameters: Option<&mut NodeParameters>,
) -> Code {
    call("cuGraphAddNode_v2", |session, _| {
        let parameters = parameters.ok_or(INVALID_VALUE)?;
        if parameters.kind != ALLOCATION_NODE {
            return Err(NOT_SUPPORTED);
        }
        add(session, graph, &mut parameters.allocation)?;
        give(node, session.memory.handle())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphInstantiateWithFlags(
    executable: Option<&mut u64>,
    graph: u64,
    _flags: u64,
) -> Code {
    call("cuGraphInstantiateWithFlags", |session, _| {
        let it = session.memory.graphs.get(&graph).cloned().ok_or(INVALID_HANDLE)?;
        let handle = session.memory.handle();
        session.memory.graphs.insert(handle, it);
        give(executable, handle)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphLaunch(executable: u64, _stream: usize) -> Code {
    call("cuGraphLaunch", |session, state| {
        let it = session.memory.graphs.get(&executable).cloned().ok_or(INVALID_HANDLE)?;
        for (device, size) in it.allocations {
            let handle = pool(session, device);
            session.take(state, device, size)?;
            if let Some(pool) = session.memory.pools.get_mut(&handle) {
                pool.reserved += size;
            }
        }
        // A second launch uses the same memory.
        session.memory.graphs.insert(executable, Graph::default());
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuGraphLaunch_ptsz(executable: u64, stream: usize) -> Code {
    cuGraphLaunch(executable, stream)
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGraphMemTrim(device: i32) -> Code {
    call("cuDeviceGraphMemTrim", |session, _| {
        let device = session.device(device)?;
        let handle = pool(session, device);
        let reserved = match session.memory.pools.get_mut(&handle) {
            Some(pool) => std::mem::take(&mut pool.reserved),
            None => 0,
        };
        session.give_back(device, reserved)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetGraphMemAttribute(
    device: i32,
    attribute: u32,
    value: Option<&mut u64>,
) -> Code {
    ask("cuDeviceGetGraphMemAttribute", |session, _| {
        let device = session.device(device)?;
        let handle = pool(session, device);
        let reserved = session.memory.pools.get(&handle).map_or(0, |pool| pool.reserved);
        match attribute {
            USED_CURRENT | RESERVED_CURRENT => give(value, reserved),
            _ => Err(NOT_SUPPORTED),
        }
    })
}
