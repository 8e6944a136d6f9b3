//! The functions that replace the driver's ones in a job with a ledger.

mod address;
mod array;
mod context;
mod graph;
mod init;
mod memory;
pub mod physical;
pub mod pool;
mod share;

use crate::entries::ix;

/// The replacement of a symbol; `None` for those that lead to the driver.
pub fn find(ix: usize) -> Option<usize> {
    let found = match ix {
        ix::cuInit => init::init as *const (),
        ix::cuMemAlloc_v2 => memory::allocate as *const (),
        ix::cuMemAllocPitch_v2 => memory::allocate_rows as *const (),
        ix::cuMemAllocManaged => memory::allocate_managed as *const (),
        ix::cuMemFree_v2 => memory::free as *const (),
        ix::cuMemFreeAsync => memory::free_async::<{ ix::cuMemFreeAsync }> as *const (),
        ix::cuMemFreeAsync_ptsz => memory::free_async::<{ ix::cuMemFreeAsync_ptsz }> as *const (),
        ix::cuMemGetInfo_v2 => memory::info as *const (),
        ix::cuDeviceTotalMem_v2 => memory::size as *const (),
        ix::cuMemAllocAsync => pool::allocate::<{ ix::cuMemAllocAsync }> as *const (),
        ix::cuMemAllocAsync_ptsz => pool::allocate::<{ ix::cuMemAllocAsync_ptsz }> as *const (),
        ix::cuMemAllocFromPoolAsync => {
            pool::allocate_from::<{ ix::cuMemAllocFromPoolAsync }> as *const ()
        }
        ix::cuMemAllocFromPoolAsync_ptsz => {
            pool::allocate_from::<{ ix::cuMemAllocFromPoolAsync_ptsz }> as *const ()
        }
        ix::cuMemPoolCreate => pool::create as *const (),
        ix::cuMemPoolDestroy => pool::destroy as *const (),
        ix::cuMemPoolTrimTo => pool::trim as *const (),
        ix::cuMemPoolSetAttribute => pool::set_attribute as *const (),
        ix::cuMemCreate => physical::create as *const (),
        ix::cuMemRelease => physical::release as *const (),
        ix::cuMemRetainAllocationHandle => physical::retain as *const (),
        ix::cuMemMap => physical::map as *const (),
        ix::cuMemUnmap => physical::unmap as *const (),
        ix::cuArrayCreate_v2 => array::create as *const (),
        ix::cuArray3DCreate_v2 => array::create_3d as *const (),
        ix::cuMipmappedArrayCreate => array::create_levels as *const (),
        ix::cuArrayDestroy => array::destroy::<{ ix::cuArrayDestroy }> as *const (),
        ix::cuMipmappedArrayDestroy => {
            array::destroy::<{ ix::cuMipmappedArrayDestroy }> as *const ()
        }
        _ => return find_rest(ix),
    };
    Some(found as usize)
}

fn find_rest(ix: usize) -> Option<usize> {
    let found = match ix {
        ix::cuGraphAddMemAllocNode => graph::add_allocation as *const (),
        ix::cuGraphAddNode => graph::add_node as *const (),
        ix::cuGraphAddNode_v2 => graph::add_node_2::<{ ix::cuGraphAddNode_v2 }> as *const (),
        ix::cuGraphAddNode_v3 => graph::add_node_2::<{ ix::cuGraphAddNode_v3 }> as *const (),
        ix::cuDeviceGraphMemTrim => graph::trim as *const (),
        ix::cuDevicePrimaryCtxRetain => context::retain as *const (),
        ix::cuCtxCreate_v2 => context::create as *const (),
        ix::cuCtxCreate_v3 => context::create_3 as *const (),
        ix::cuCtxCreate_v4 => context::create_4 as *const (),
        ix::cuCtxDestroy => context::destroy::<{ ix::cuCtxDestroy }> as *const (),
        ix::cuCtxDestroy_v2 => context::destroy::<{ ix::cuCtxDestroy_v2 }> as *const (),
        ix::cuDevicePrimaryCtxRelease => {
            context::release::<{ ix::cuDevicePrimaryCtxRelease }> as *const ()
        }
        ix::cuDevicePrimaryCtxRelease_v2 => {
            context::release::<{ ix::cuDevicePrimaryCtxRelease_v2 }> as *const ()
        }
        ix::cuDevicePrimaryCtxReset => {
            context::reset::<{ ix::cuDevicePrimaryCtxReset }> as *const ()
        }
        ix::cuDevicePrimaryCtxReset_v2 => {
            context::reset::<{ ix::cuDevicePrimaryCtxReset_v2 }> as *const ()
        }
        ix::cuCtxSynchronize => context::synchronize as *const (),
        ix::cuCtxSynchronize_v2 => {
            context::synchronize_one::<{ ix::cuCtxSynchronize_v2 }> as *const ()
        }
        ix::cuStreamSynchronize => {
            context::synchronize_one::<{ ix::cuStreamSynchronize }> as *const ()
        }
        ix::cuStreamSynchronize_ptsz => {
            context::synchronize_one::<{ ix::cuStreamSynchronize_ptsz }> as *const ()
        }
        ix::cuStreamQuery => context::query::<{ ix::cuStreamQuery }> as *const (),
        ix::cuStreamQuery_ptsz => context::query::<{ ix::cuStreamQuery_ptsz }> as *const (),
        ix::cuEventQuery => context::query::<{ ix::cuEventQuery }> as *const (),
        ix::cuIpcGetMemHandle => share::ipc_get as *const (),
        ix::cuIpcOpenMemHandle => share::ipc_open::<{ ix::cuIpcOpenMemHandle }> as *const (),
        ix::cuIpcOpenMemHandle_v2 => share::ipc_open::<{ ix::cuIpcOpenMemHandle_v2 }> as *const (),
        ix::cuMemExportToShareableHandle => share::export as *const (),
        ix::cuMemImportFromShareableHandle => share::import as *const (),
        ix::cuMemPoolExportToShareableHandle => share::export_pool as *const (),
        ix::cuMemPoolImportFromShareableHandle => share::import_pool as *const (),
        ix::cuGetProcAddress => address::get as *const (),
        ix::cuGetProcAddress_v2 => address::get_2 as *const (),
        _ => return None,
    };
    Some(found as usize)
}
