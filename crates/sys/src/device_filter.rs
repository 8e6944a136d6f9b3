//! Limits the device nodes that the processes of a control group can open. In version 2 the kernel
//! asks a BPF program of the group at each open, in version 1 the `devices` controller decides.
//! Open descriptors are not affected.
//!
//! The program is attached to the group itself (`BPF_PROG_ATTACH`), not through a link: the kernel
//! then keeps it and its map until the group is removed, whatever happens to the process that
//! attached it, and nothing has to be pinned or cleaned up. A later process finds both again
//! through the group. Programs of groups above run too, and each of them can refuse.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The character devices that a group may open, among those with some major numbers. All other
/// devices are allowed. The default allows everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceFilter {
    /// The major numbers; at most [`DeviceFilter::MAJORS_MOST`]. They are fixed once a filter
    /// applies to a group.
    pub majors: BTreeSet<u32>,
    /// The devices with these numbers (major, minor) that may be opened; at most
    /// [`DeviceFilter::ALLOWED_MOST`].
    pub allowed: BTreeSet<(u32, u32)>,
}

/// The name of the program and of its map, by which they are found again. At most 15 bytes.
const NAME: &[u8] = b"gpool_devices";

impl DeviceFilter {
    /// Most major numbers of a filter.
    pub const MAJORS_MOST: usize = 8;
    /// Most allowed devices of a filter.
    pub const ALLOWED_MOST: u32 = 1024;

    /// Applies the filter to a group of version 2: attaches a program, or changes the allowed
    /// devices of the one that was attached by an earlier call of any process. New devices are
    /// allowed before others are refused.
    ///
    /// # Errors
    /// If this process may not load programs (it needs root), the kernel has no such programs, or a
    /// group above allows none below. The earlier filter may be changed in part.
    pub fn apply(&self, group: &Path) -> io::Result<()> {
        self.check()?;
        let folder = at("open the control group", File::open(group))?;
        if let Some(map) = at("find the BPF program", attached_map(&folder))? {
            return at("change the BPF map", self.fill(&map));
        }
        let map = at("make a BPF map", new_map())?;
        at("fill the BPF map", self.fill(&map))?;
        let program = at("load a BPF program", load(&self.program(&map)))?;
        at("attach a BPF program", attach(&folder, &program))
    }

    /// Applies the filter to a group of the `devices` controller of version 1, or changes it. Only
    /// minor numbers up to 255 are refused: the controller takes them one by one.
    ///
    /// # Errors
    /// If the controller refuses. It also does if a group above has a list of allowed devices: the
    /// kernel can't take single devices from its entries for all minors.
    pub fn apply_v1(&self, group: &Path) -> io::Result<()> {
        self.check()?;
        let list = fs::read_to_string(group.join("devices.list"))?;
        if !list.lines().any(|line| line.starts_with("a *:*")) {
            let why = "a control group above allows only listed devices";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let open = |name| File::options().write(true).open(group.join(name));
        let (mut allow, mut deny) = (open("devices.allow")?, open("devices.deny")?);
        for major in &self.majors {
            for minor in 0..=255 {
                let may = self.allowed.contains(&(*major, minor));
                let file = if may { &mut allow } else { &mut deny };
                file.write_all(format!("c {major}:{minor} rwm").as_bytes())?;
            }
        }
        Ok(())
    }

    fn check(&self) -> io::Result<()> {
        let fits = self.majors.len() <= Self::MAJORS_MOST;
        if fits && self.allowed.len() <= Self::ALLOWED_MOST as usize {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::InvalidInput, "too many devices in one filter"))
    }

    /// Makes the map's keys equal to the allowed devices.
    fn fill(&self, map: &OwnedFd) -> io::Result<()> {
        for (major, minor) in &self.allowed {
            set(map, [*major, *minor])?;
        }
        for [major, minor] in keys(map)? {
            if !self.allowed.contains(&(major, minor)) {
                remove(map, [major, minor])?;
            }
        }
        Ok(())
    }

    /// The program: returns 1 to allow an access, 0 to refuse it with `EPERM`.
    ///
    /// The context is `struct bpf_cgroup_dev_ctx`: access and type, major, minor; 4 bytes each.
    fn program(&self, map: &OwnedFd) -> Vec<Instruction> {
        use Instruction as I;
        let n_majors = i16::try_from(self.majors.len()).unwrap_or(i16::MAX);
        let mut program = vec![
            // The lower half of the first word is the type. Only character devices are limited.
            I::new(LOAD_WORD, 2, 1, 0, 0),
            I::new(AND, 2, 0, 0, 0xffff),
            // To `ALLOW`, past the comparisons below and the look-up.
            I::new(JUMP_UNLESS_EQUAL, 2, 0, n_majors + 2 + 1 + LOOK_UP, CHARACTER_DEVICE),
            I::new(LOAD_WORD, 2, 1, 4, 0),
            I::new(LOAD_WORD, 3, 1, 8, 0),
        ];
        for (n_before, major) in (0..).zip(&self.majors) {
            let to_look_up = n_majors - n_before;
            program.push(I::new(JUMP_IF_EQUAL, 2, 0, to_look_up, major.cast_signed()));
        }
        program.push(I::new(JUMP, 0, 0, LOOK_UP, 0));
        let look_up = [
            // The key, on the stack.
            I::new(STORE_WORD, 10, 2, -8, 0),
            I::new(STORE_WORD, 10, 3, -4, 0),
            I::new(LOAD_MAP, 1, MAP_BY_DESCRIPTOR, 0, map.as_raw_fd()),
            I::new(0, 0, 0, 0, 0),
            I::new(COPY, 2, 10, 0, 0),
            I::new(ADD, 2, 0, 0, -8),
            I::new(CALL, 0, 0, 0, MAP_LOOKUP_ELEM),
            I::new(JUMP_UNLESS_EQUAL, 0, 0, 2, 0),
            I::new(SET, 0, 0, 0, 0),
            I::new(EXIT, 0, 0, 0, 0),
        ];
        program.extend(look_up);
        // `ALLOW`
        program.extend([I::new(SET, 0, 0, 0, 1), I::new(EXIT, 0, 0, 0, 0)]);
        program
    }
}

/// The number of instructions of the look-up.
const LOOK_UP: i16 = 10;

/// One instruction, `struct bpf_insn` of a little-endian machine.
#[repr(C)]
struct Instruction {
    code: u8,
    /// The target register, and the source register in the upper half.
    registers: u8,
    offset: i16,
    value: i32,
}

impl Instruction {
    const fn new(code: u8, target: u8, source: u8, offset: i16, value: i32) -> Self {
        Self { code, registers: target | source << 4, offset, value }
    }
}

// Codes of instructions. Source: RFC 9669, "BPF Instruction Set Architecture".
const LOAD_WORD: u8 = 0x61;
const STORE_WORD: u8 = 0x63;
const LOAD_MAP: u8 = 0x18;
const AND: u8 = 0x57;
const ADD: u8 = 0x07;
const SET: u8 = 0xb7;
const COPY: u8 = 0xbf;
const JUMP: u8 = 0x05;
const JUMP_IF_EQUAL: u8 = 0x15;
const JUMP_UNLESS_EQUAL: u8 = 0x55;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

// Numbers of the kernel. Source: `include/uapi/linux/bpf.h`.
const MAP_BY_DESCRIPTOR: u8 = 1;
const MAP_LOOKUP_ELEM: i32 = 1;
const CHARACTER_DEVICE: i32 = 2;
const MAP_TYPE_HASH: u32 = 1;
const MAP_NO_PREALLOC: u32 = 1;
const PROGRAM_TYPE_CGROUP_DEVICE: u32 = 15;
const ATTACH_CGROUP_DEVICE: u32 = 6;
/// A group below can have further programs, and each of them must allow an access.
const ALLOW_MULTI: u32 = 2;

/// Commands of `bpf(2)`.
#[derive(Clone, Copy)]
enum Command {
    MapCreate = 0,
    MapUpdate = 2,
    MapDelete = 3,
    MapNextKey = 4,
    ProgramLoad = 5,
    ProgramAttach = 8,
    ProgramById = 13,
    MapById = 14,
    ObjectInfo = 15,
    ProgramQuery = 16,
}

/// Names the step of an error, with advice for the usual cause.
fn at<T>(step: &str, result: io::Result<T>) -> io::Result<T> {
    result.map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::PermissionDenied => " (it needs root with CAP_SYS_ADMIN)",
            _ => "",
        };
        io::Error::new(error.kind(), format!("can't {step}: {error}{advice}"))
    })
}

/// Calls `bpf(2)` with the attributes of a command.
///
/// # Safety
/// The attributes are those that the kernel expects for the command, and the addresses in them are
/// valid for the lengths in them.
unsafe fn bpf<T>(command: Command, attributes: &mut T) -> io::Result<libc::c_long> {
    let attributes: *mut T = attributes;
    // SAFETY: the attributes are valid for their size; the caller guarantees the rest.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command as libc::c_long, attributes, size_of::<T>())
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The same for commands that make a descriptor.
///
/// # Safety
/// As for [`bpf`], and the command returns a new descriptor.
unsafe fn bpf_descriptor<T>(command: Command, attributes: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: guaranteed by the caller.
    let fd = unsafe { bpf(command, attributes) }?;
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this descriptor, and it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn address<T>(of: &T) -> u64 {
    std::ptr::from_ref(of) as u64
}

fn number(fd: &impl AsRawFd) -> u32 {
    // A descriptor that is open is not negative.
    fd.as_raw_fd().cast_unsigned()
}

fn name() -> [u8; 16] {
    let mut name = [0; 16];
    name[..NAME.len()].copy_from_slice(NAME);
    name
}

fn new_map() -> io::Result<OwnedFd> {
    #[repr(C)]
    struct MapCreate {
        map_type: u32,
        key_size: u32,
        value_size: u32,
        entries_max: u32,
        flags: u32,
        inner_map: u32,
        numa_node: u32,
        name: [u8; 16],
    }
    let mut attributes = MapCreate {
        map_type: MAP_TYPE_HASH,
        key_size: 8,
        value_size: 4,
        entries_max: DeviceFilter::ALLOWED_MOST,
        flags: MAP_NO_PREALLOC,
        inner_map: 0,
        numa_node: 0,
        name: name(),
    };
    // SAFETY: the attributes are those of the command and contain no address.
    unsafe { bpf_descriptor(Command::MapCreate, &mut attributes) }
}

/// A key of the map: major and minor number.
type MapKey = [u32; 2];

/// The attributes of commands on entries of a map.
#[repr(C)]
struct MapEntry {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

fn set(map: &OwnedFd, key: MapKey) -> io::Result<()> {
    let value = 1_u32;
    let (key, value) = (address(&key), address(&value));
    let mut entry = MapEntry { map: number(map), padding: 0, key, value, flags: 0 };
    // SAFETY: the addresses are those of a key and a value of the map's sizes, which live on.
    unsafe { bpf(Command::MapUpdate, &mut entry) }.map(drop)
}

fn remove(map: &OwnedFd, key: MapKey) -> io::Result<()> {
    let mut entry =
        MapEntry { map: number(map), padding: 0, key: address(&key), value: 0, flags: 0 };
    // SAFETY: the address is that of a key of the map's size, which lives on.
    unsafe { bpf(Command::MapDelete, &mut entry) }.map(drop)
}

fn keys(map: &OwnedFd) -> io::Result<Vec<MapKey>> {
    let mut keys = Vec::<MapKey>::new();
    loop {
        let mut next: MapKey = [0; 2];
        let last = keys.last().map_or(0, address);
        let value = std::ptr::from_mut(&mut next) as u64;
        let mut entry = MapEntry { map: number(map), padding: 0, key: last, value, flags: 0 };
        // SAFETY: the addresses are those of keys; the kernel writes the next one.
        match unsafe { bpf(Command::MapNextKey, &mut entry) } {
            Ok(_) => keys.push(next),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(keys),
            Err(error) => return Err(error),
        }
    }
}

fn load(program: &[Instruction]) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct ProgramLoad {
        program_type: u32,
        n_instructions: u32,
        instructions: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log: u64,
        kernel_version: u32,
        flags: u32,
        name: [u8; 16],
    }
    let license = c"MIT OR Apache-2.0";
    let mut attributes = ProgramLoad {
        program_type: PROGRAM_TYPE_CGROUP_DEVICE,
        n_instructions: u32::try_from(program.len()).map_err(io::Error::other)?,
        instructions: program.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
        name: name(),
    };
    // SAFETY: the addresses are those of the instructions, with their number, and of a C string.
    unsafe { bpf_descriptor(Command::ProgramLoad, &mut attributes) }
}

fn attach(group: &File, program: &OwnedFd) -> io::Result<()> {
    #[repr(C)]
    struct ProgramAttach {
        target: u32,
        program: u32,
        attach_type: u32,
        flags: u32,
    }
    let mut attributes = ProgramAttach {
        target: number(group),
        program: number(program),
        attach_type: ATTACH_CGROUP_DEVICE,
        flags: ALLOW_MULTI,
    };
    // SAFETY: the attributes are those of the command and contain no address.
    unsafe { bpf(Command::ProgramAttach, &mut attributes) }.map(drop)
}

/// The map of the program that was attached to a group; `None` if there is none.
fn attached_map(group: &File) -> io::Result<Option<OwnedFd>> {
    for id in attached(group)? {
        let program = by_id(Command::ProgramById, id)?;
        if let Some(map) = map_of(&program)? {
            return by_id(Command::MapById, map).map(Some);
        }
    }
    Ok(None)
}

/// The IDs of the device programs that are attached to a group itself.
fn attached(group: &File) -> io::Result<Vec<u32>> {
    #[repr(C)]
    struct ProgramQuery {
        target: u32,
        attach_type: u32,
        query_flags: u32,
        attach_flags: u32,
        ids: u64,
        n_ids: u32,
        padding: u32,
    }
    // The kernel's own limit on programs of a group.
    let mut ids = [0_u32; 64];
    let mut attributes = ProgramQuery {
        target: number(group),
        attach_type: ATTACH_CGROUP_DEVICE,
        query_flags: 0,
        attach_flags: 0,
        ids: ids.as_mut_ptr() as u64,
        n_ids: 64,
        padding: 0,
    };
    // SAFETY: the address is that of an array with the given length, which the kernel fills.
    unsafe { bpf(Command::ProgramQuery, &mut attributes) }?;
    Ok(ids.into_iter().take(attributes.n_ids as usize).collect())
}

fn by_id(command: Command, id: u32) -> io::Result<OwnedFd> {
    let mut attributes = [id, 0, 0];
    // SAFETY: the attributes are those of the command and contain no address.
    unsafe { bpf_descriptor(command, &mut attributes) }
}

/// The ID of the map of a program with our name; `None` for other programs.
fn map_of(program: &OwnedFd) -> io::Result<Option<u32>> {
    /// The start of `struct bpf_prog_info`.
    #[repr(C)]
    #[derive(Default)]
    struct ProgramInfo {
        program_type: u32,
        id: u32,
        tag: [u8; 8],
        lengths: [u32; 2],
        addresses: [u64; 2],
        load_time: u64,
        uid: u32,
        n_maps: u32,
        maps: u64,
        name: [u8; 16],
    }
    #[repr(C)]
    struct ObjectInfo {
        object: u32,
        length: u32,
        info: u64,
    }
    let mut map = 0_u32;
    let maps = std::ptr::from_mut(&mut map) as u64;
    let mut info = ProgramInfo { n_maps: 1, maps, ..ProgramInfo::default() };
    let mut attributes = ObjectInfo {
        object: number(program),
        length: u32::try_from(size_of::<ProgramInfo>()).map_err(io::Error::other)?,
        info: std::ptr::from_mut(&mut info) as u64,
    };
    // SAFETY: the addresses are those of the information, with its length, and of one map ID; the
    // kernel fills both.
    unsafe { bpf(Command::ObjectInfo, &mut attributes) }?;
    Ok(Some(map).filter(|_| info.name == name() && info.n_maps == 1))
}
