//! Symbols about the links between two devices.

use nvml_wrapper_sys::bindings::nvmlPciInfo_t;

use crate::call::{
    Code, Handle, INVALID_ARGUMENT, NOT_SUPPORTED, device_call, device_ix, fill, give,
};

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTopologyCommonAncestor(
    device: Handle,
    other: Handle,
    level: Option<&mut u32>,
) -> Code {
    device_call("nvmlDeviceGetTopologyCommonAncestor", device, |_, it| {
        give(level, device_ix(other).and_then(|ix| it.topology.get(&ix).copied()))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetP2PStatus(
    device: Handle,
    other: Handle,
    index: u32,
    status: Option<&mut u32>,
) -> Code {
    const NV_LINK: u32 = 2;
    const STATUS_NOT_SUPPORTED: u32 = 5;
    device_call("nvmlDeviceGetP2PStatus", device, |_, it| {
        let linked = device_ix(other).is_some_and(|ix| it.nv_peers.contains(&ix));
        give(status, Some(if linked && index == NV_LINK { 0 } else { STATUS_NOT_SUPPORTED }))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetNvLinkState(
    device: Handle,
    link: u32,
    active: Option<&mut u32>,
) -> Code {
    device_call("nvmlDeviceGetNvLinkState", device, |_, it| {
        let links = it.nv_links.as_ref().ok_or(NOT_SUPPORTED)?;
        give(active, Some(u32::from((link as usize) < links.len())))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetNvLinkRemotePciInfo_v2(
    device: Handle,
    link: u32,
    pci: Option<&mut nvmlPciInfo_t>,
) -> Code {
    device_call("nvmlDeviceGetNvLinkRemotePciInfo_v2", device, |_, it| {
        let links = it.nv_links.as_ref().ok_or(NOT_SUPPORTED)?;
        let remote = links.get(link as usize).ok_or(INVALID_ARGUMENT)?;
        fill(&mut pci.ok_or(INVALID_ARGUMENT)?.busId, remote);
        Ok(())
    })
}

/// `nvmlGpuFabricInfo_v2_t`.
#[repr(C)]
struct FabricInfo {
    version: u32,
    cluster_uuid: [u8; 16],
    status: u32,
    clique: u32,
    state: u8,
    health: u32,
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetGpuFabricInfoV(device: Handle, info: Option<&mut FabricInfo>) -> Code {
    const VERSION: u32 = 36 | 2 << 24;
    device_call("nvmlDeviceGetGpuFabricInfoV", device, |_, it| {
        let info = info.filter(|info| info.version == VERSION).ok_or(INVALID_ARGUMENT)?;
        let fabric = it.fabric.as_ref().ok_or(NOT_SUPPORTED)?;
        info.cluster_uuid = fabric.cluster_uuid;
        (info.clique, info.state, info.status) = (fabric.clique, fabric.state, 0);
        Ok(())
    })
}
