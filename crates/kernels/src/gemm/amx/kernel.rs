//! The AMX microkernel: a block of rows times a panel.

use crate::base::amx::{TILE_ROW_BYTES, has_byte_tiles, has_tiles};
use crate::gemm::amx::config::{ROWS, TileBlock, WIDTH};
use std::arch::asm;

/// What the inner loop reads from memory.
#[repr(C)]
struct Strides {
    /// Steps along k in a run.
    steps: usize,
    /// Bytes from the end of a run to the next.
    skip: usize,
    /// Bytes from the prefetch of one step to that of the next.
    ahead: usize,
    /// Bytes of a panel per step along k.
    panel: usize,
}

/// The loop along k; `$dot` is the instruction that multiplies. The instructions for a second tile
/// of rows are left out if there is none.
macro_rules! steps_of_tiles {
    (
        $dot:literal, $block:ident, $panel:ident, $ahead:expr, $to:ident, $strides:expr;
        prefetch: $($prefetch:literal)*; prefetch_late: $($prefetch_late:literal)*;
        zero: $($zero:literal)*; load: $($load:literal)?; low: $($low:literal)*; store: $($store:literal)*
    ) => {
        asm!(
            $($zero,)*
            "2:",
            "mov {n}, [{strides}]",
            "3:",
            "tileloadd tmm6, [{b} + {wide}*1]",
            "tileloadd tmm4, [{a} + {row}*1]",
            "tileloadd tmm7, [{b} + {wide}*1 + 64]",
            concat!($dot, " tmm0, tmm4, tmm6"),
            $($prefetch,)*
            $($load,)?
            $($prefetch_late,)*
            concat!($dot, " tmm1, tmm4, tmm7"),
            $(concat!($dot, $low),)*
            "add {a}, {step}",
            "add {a2}, {step}",
            "add {b}, [{strides} + 24]",
            "add {ahead}, [{strides} + 16]",
            "dec {n}",
            "jnz 3b",
            "add {a}, [{strides} + 8]",
            "add {a2}, [{strides} + 8]",
            "dec {runs}",
            "jnz 2b",
            $($store,)*
            a = inout(reg) $block.sources[0] => _,
            a2 = inout(reg) $block.sources[1] => _,
            b = inout(reg) $panel => _,
            n = out(reg) _,
            runs = inout(reg) $block.runs => _,
            ahead = inout(reg) $ahead => _,
            step = in(reg) $block.step_bytes,
            row = in(reg) $block.row_bytes,
            wide = in(reg) 2 * TILE_ROW_BYTES,
            c = in(reg) $to,
            strides = in(reg) $strides,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        )
    };
}

/// Multiplies a block by a panel with instruction `$dot`, and prefetches in each step along k.
macro_rules! multiply_tiles {
    (
        $dot:literal, $block:ident, $panel:ident, $ahead:expr, $to:ident;
        prefetch: $($prefetch:literal)*; prefetch_late: $($prefetch_late:literal)*
    ) => {{
        let ahead: (*const u8, usize) = $ahead;
        let steps = $block.run_steps;
        if steps * $block.runs == 0 {
            return $to.fill(Default::default());
        }
        let strides = Strides {
            steps,
            skip: $block.run_bytes.wrapping_sub(steps * $block.step_bytes),
            ahead: ahead.1,
            // Two tiles of columns.
            panel: $block.bytes / 4 * 2 * TILE_ROW_BYTES,
        };
        // SAFETY: the caller's promise; sums are as large as four tiles; a prefetch reads
        // nothing.
        unsafe {
            if $block.rows.second > 0 {
                steps_of_tiles!(
                    $dot, $block, $panel, ahead.0, $to, &strides;
                    prefetch: $($prefetch)*; prefetch_late: $($prefetch_late)*;
                    zero: "tilezero tmm0" "tilezero tmm1" "tilezero tmm2" "tilezero tmm3";
                    load: "tileloadd tmm5, [{a2} + {row}*1]";
                    low: " tmm2, tmm5, tmm6" " tmm3, tmm5, tmm7";
                    store: "tilestored [{c} + {wide}*1], tmm0" "tilestored [{c} + {wide}*1 + 64], tmm1"
                        "tilestored [{c} + {wide}*1 + 2048], tmm2" "tilestored [{c} + {wide}*1 + 2112], tmm3"
                );
            } else {
                steps_of_tiles!(
                    $dot, $block, $panel, ahead.0, $to, &strides;
                    prefetch: $($prefetch)*; prefetch_late: $($prefetch_late)*;
                    zero: "tilezero tmm0" "tilezero tmm1";
                    load: ;
                    low: ;
                    store: "tilestored [{c} + {wide}*1], tmm0" "tilestored [{c} + {wide}*1 + 64], tmm1"
                );
            }
        }
    }};
}

/// Multiplies rows of A in bf16, in one tile or two, by a panel.
///
/// # Safety
/// The panel has the steps of the block; the tiles are configured for its rows.
pub(super) unsafe fn multiply(
    block: &TileBlock,
    panel: *const u8,
    ahead: (*const u8, usize),
    to: &mut [f32; ROWS * WIDTH],
) {
    debug_assert!(has_tiles() && block.fits_tiles());
    multiply_tiles!(
        "tdpbf16ps", block, panel, ahead, to;
        prefetch: "prefetcht1 [{ahead}]" "prefetcht1 [{ahead} + 64]" "prefetcht1 [{ahead} + 128]"
            "prefetcht1 [{ahead} + 192]";
        prefetch_late: "prefetcht1 [{ahead} + 256]" "prefetcht1 [{ahead} + 320]" "prefetcht1 [{ahead} + 384]"
            "prefetcht1 [{ahead} + 448]"
    );
}

/// The same for u8 rows and an i8 panel. They are a quarter of the size of f32, and arrive in time
/// without a prefetch.
///
/// # Safety
/// As [`multiply`]; `has_byte_tiles`.
pub(crate) unsafe fn multiply_bytes(
    block: &TileBlock,
    panel: *const u8,
    to: &mut [i32; ROWS * WIDTH],
) {
    debug_assert!(has_byte_tiles() && block.fits_tiles());
    multiply_tiles!("tdpbusd", block, panel, (panel, 0), to; prefetch: ; prefetch_late: );
}
