//! MIG profiles as the driver writes them, `1g.10gb`, and the result of dividing a simulated device
//! by them. For a real device, the driver lists the instances.

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

use crate::device::{Device, Instance, Mig};
use crate::id::DeviceUuid;
use crate::mig_layout::MigSize;
use crate::unit::Bytes;

/// The text between the name of a device and the profile of an instance.
const MIG: &str = " MIG ";

/// The size of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    compute_slices: u32,
    gib: u32,
}

/// Why a device cannot be divided into these instances.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// A profile is malformed.
    #[error("{value:?} is not a MIG profile; write compute slices and memory, for example 1g.10gb")]
    Malformed {
        /// The text.
        value: String,
    },
    /// The driver makes no instance of this number of compute slices.
    #[error("a MIG instance can't have {slices} compute slices; it has 1, 2, 3, 4 or 7")]
    NoSuchSize {
        /// The number of compute slices.
        slices: u32,
    },
    /// The instances have more compute slices than a device.
    #[error(
        "these instances have {slices} compute slices in total, and a GPU has 7; leave some out or \
         make them smaller"
    )]
    TooManySlices {
        /// The number of compute slices.
        slices: u32,
    },
    /// The instances have more memory than the device.
    #[error(
        "these instances have {total} of memory in total, and the GPU has {memory}; leave some out \
         or make them smaller"
    )]
    TooMuchMemory {
        /// The memory of the instances.
        total: Bytes,
        /// The memory of the device.
        memory: Bytes,
    },
}

impl Profile {
    /// The possible numbers of compute slices of an instance.
    ///
    /// Source: NVIDIA Multi-Instance GPU user guide, "Supported MIG profiles".
    const SIZES: [u32; 5] = [1, 2, 3, 4, 7];

    /// Reads `1g.10gb`.
    ///
    /// # Errors
    /// It is no profile.
    pub fn parse(text: &str) -> Result<Self, LayoutError> {
        let lower = text.to_ascii_lowercase();
        let number = |digits: &str| -> Option<u32> {
            digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
        };
        let parts = lower.strip_suffix("gb").and_then(|it| it.split_once("g."));
        let parts = parts.and_then(|(slices, gib)| Some((number(slices)?, number(gib)?)));
        match parts {
            Some((slices, _)) if !Self::SIZES.contains(&slices) => {
                Err(LayoutError::NoSuchSize { slices })
            }
            Some((compute_slices, gib)) if gib > 0 => Ok(Self { compute_slices, gib }),
            _ => Err(LayoutError::Malformed { value: text.chars().take(80).collect() }),
        }
    }

    /// The driver's profile of an instance of this size: its memory is a little less than in the
    /// profile's name.
    #[must_use]
    pub fn of(compute_slices: u32, memory: Bytes) -> Self {
        let gib = memory.div_ceil(Bytes::from_gib(1).get()).get();
        Self { compute_slices, gib: u32::try_from(gib).unwrap_or(u32::MAX) }
    }

    /// Its memory.
    #[must_use]
    pub fn memory(self) -> Bytes {
        Bytes::from_gib(self.gib)
    }

    /// Reads the profiles of all instances of a device with this memory.
    ///
    /// # Errors
    /// A profile is malformed, or the instances exceed the device.
    pub fn layout<'a>(
        profiles: impl Iterator<Item = &'a str>,
        memory: Bytes,
    ) -> Result<Vec<Self>, LayoutError> {
        let layout = profiles.map(Self::parse).collect::<Result<Vec<Self>, _>>()?;
        let slices = layout.iter().map(|it| it.compute_slices).sum();
        if slices > Instance::SLICES {
            return Err(LayoutError::TooManySlices { slices });
        }
        let total = layout.iter().map(|it| it.memory()).fold(Bytes::ZERO, Bytes::saturating_add);
        match total > memory {
            true => Err(LayoutError::TooMuchMemory { total, memory }),
            false => Ok(layout),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}g.{}gb", self.compute_slices, self.gib))
    }
}

/// The model name of an instance of a device.
#[must_use]
pub fn model_of(device: &str, profile: impl fmt::Display) -> String {
    format!("{device}{MIG}{profile}")
}

/// The name of the device, and the profile if the model is an instance.
#[must_use]
pub fn split_model(model: &str) -> (&str, Option<&str>) {
    match model.split_once(MIG) {
        Some((device, profile)) => (device, Some(profile)),
        None => (model, None),
    }
}

impl Device {
    /// Turns on MIG mode and returns the instances, with UUIDs from `uuid` by place.
    pub fn divide(&mut self, layout: &[Profile], uuid: impl Fn(u32) -> DeviceUuid) -> Vec<Self> {
        self.mig = Some(Mig { enabled: true, ..Mig::default() });
        let instance = |(place, profile): (u32, &Profile)| Self {
            index: Instance::index(self.index, place),
            uuid: uuid(place),
            model: model_of(&self.model, *profile),
            memory: profile.memory(),
            links: BTreeMap::new(),
            mig: None,
            instance: Some(Box::new(Instance {
                parent: self.index,
                parent_memory: self.memory,
                compute_slices: profile.compute_slices,
                nodes: None,
            })),
            ..self.clone()
        };
        (0..).zip(layout).map(instance).collect()
    }

    /// The sizes of instances that jobs can request. A profile with an extension, such as
    /// `1g.10gb+me`, is for admins.
    pub fn sizes_of_instances(&self) -> impl Iterator<Item = &MigSize> {
        let sizes = self.mig.iter().filter(|mig| mig.enabled).flat_map(|mig| &mig.sizes);
        sizes.filter(|size| !size.profile.contains('+'))
    }

    /// An instance of this size as the driver would describe it, with `uuid` and the index of a
    /// place that no instance has.
    #[must_use]
    pub fn possible_instance(&self, size: &MigSize, uuid: DeviceUuid) -> Self {
        Self {
            index: Instance::index(self.index, Instance::PLACES),
            uuid,
            model: model_of(&self.model, &size.profile),
            memory: size.memory,
            mig: None,
            instance: Some(Box::new(Instance {
                parent: self.index,
                parent_memory: self.memory,
                compute_slices: size.compute_slices,
                nodes: None,
            })),
            ..self.clone()
        }
    }
}
