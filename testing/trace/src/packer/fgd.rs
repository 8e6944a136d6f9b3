//! The fragment of a node: its idle devices that the next task can't use.

use gpool_sched::fragmentation::{FreePart, Mix, TaskDemand, WHOLE};

/// Returns the expected thousandths of devices that the next task of the mix can't use, times a
/// million: all idle devices if it does not fit or needs no device, else the free parts that are
/// too small for it.
#[must_use]
pub fn fragment(left: &FreePart, mix: &Mix) -> u64 {
    let gpus = left.gpus();
    let of = |ask: &TaskDemand| match ask.n_gpus > 0 && left.fits_but_memory(ask) {
        false => gpus,
        true => {
            let least = ask.part.min(WHOLE);
            let too_little = left.free.iter().take_while(|free| **free < least);
            too_little.map(|free| u64::from(*free)).sum()
        }
    };
    mix.popular.iter().map(|it| it.weight * of(&it.ask)).sum()
}

/// Returns the score of a node by the growth of its fragment, from 0 to 99: ⌊100 / (1 + exp(growth
/// / 1000))⌋ for a growth in thousandths of a device. Many nodes get the same score, and the first
/// of them is taken, which keeps other nodes whole.
///
/// Source: the plugin that the paper's authors published,
/// `hkust-adsl/kubernetes-scheduler-simulator`.
pub(super) fn score(growth: i64) -> i64 {
    // The score is at least k where the growth is at most 1000 ln(100 / k - 1).
    let at_least = STEPS.partition_point(|step| growth <= *step);
    i64::try_from(at_least).unwrap_or(0)
}

/// By score from 1 on, the largest growth with that score: millionths of a thousandth of a device.
#[rustfmt::skip]
const STEPS: [i64; 99] = [
    4_595_119_850, 3_891_820_298, 3_476_098_689, 3_178_053_830, 2_944_438_979, 2_751_535_313,
    2_586_689_344, 2_442_347_035, 2_313_634_929, 2_197_224_577, 2_090_741_096, 1_992_430_164,
    1_900_958_761, 1_815_289_966, 1_734_601_055, 1_658_228_076, 1_585_627_263, 1_516_347_489,
    1_450_010_175, 1_386_294_361, 1_324_925_414, 1_265_666_373, 1_208_311_205, 1_152_679_509,
    1_098_612_288, 1_045_968_555, 994_622_575, 944_461_608, 895_384_047, 847_297_860, 800_119_300,
    753_771_802, 708_185_057, 663_294_217, 619_039_208, 575_364_144, 532_216_813, 489_548_225,
    447_312_218, 405_465_108, 363_965_377, 322_773_392, 281_851_152, 241_162_056, 200_670_695,
    160_342_650, 120_144_311, 80_042_707, 40_005_334, 0, -40_005_335, -80_042_708, -120_144_312,
    -160_342_651, -200_670_696, -241_162_057, -281_851_153, -322_773_393, -363_965_378,
    -405_465_109, -447_312_219, -489_548_226, -532_216_814, -575_364_145, -619_039_209,
    -663_294_218, -708_185_058, -753_771_803, -800_119_301, -847_297_861, -895_384_048,
    -944_461_609, -994_622_576, -1_045_968_556, -1_098_612_289, -1_152_679_510, -1_208_311_206,
    -1_265_666_374, -1_324_925_415, -1_386_294_362, -1_450_010_176, -1_516_347_490, -1_585_627_264,
    -1_658_228_077, -1_734_601_056, -1_815_289_967, -1_900_958_762, -1_992_430_165, -2_090_741_097,
    -2_197_224_578, -2_313_634_930, -2_442_347_036, -2_586_689_345, -2_751_535_314, -2_944_438_980,
    -3_178_053_831, -3_476_098_690, -3_891_820_299, -4_595_119_851,
];
