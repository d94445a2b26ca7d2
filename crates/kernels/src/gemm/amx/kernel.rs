//! Products of operands rounded to bf16 by AMX: 32 rows and 32 columns at a time, in tiles.
//!
//! A sum takes 32 terms at a time: the even ones in one chain of fused multiply-adds from 0, the odd
//! ones in another, and then what both add up to is added. All is rounded to nearest even; what is
//! below the normal numbers counts as 0. The tests compare with just that, bit for bit. Where the
//! windows of a convolution have runs that are not whole steps, it takes even parts of a run at a time.

use crate::base::aligned_buf::AlignedBuf;
#[cfg(all(test, target_os = "linux"))]
use crate::gemm::amx::emulator::is_emulated;
use crate::gemm::amx::pack_a::Laid;
use crate::gemm::amx::windows::{self, Image};
use crate::gemm::dequant::pack::Stored;
use crate::gemm::microkernel::bf16_dp::Native16;
use crate::gemm::microkernel::store_rows;
use crate::gemm::output::{Out, SharedTarget};
use crate::gemm::{Absorbed, Left, Product, Tile, finish};
use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::cell::Cell;
use std::sync::OnceLock;

/// Rows of a block, in two tiles.
pub(crate) const ROWS: usize = 32;

/// Rows, and columns, of a tile.
pub(crate) const SIDE: usize = 16;

/// Pairs along k in a tile.
pub(crate) const PAIRS: usize = 16;

/// Columns of a panel, in two tiles.
pub(crate) const WIDTH: usize = 32;

/// Bytes of a row of a tile.
pub(crate) const ROW_BYTES: usize = 64;

/// Elements of a row of a tile.
pub(crate) const LANES: usize = ROW_BYTES / size_of::<u16>();

/// Bytes of panels that all rows of a tile of C pass before the next are read: they come from
/// the cache that all cores share, or from memory, once.
const GROUP: usize = 128 << 10;

/// Lines of later panels that are asked for in each step along k.
const LINES_AHEAD: usize = 8;

/// Whether the machine multiplies tiles of bf16, and the system lets this process do so.
pub(crate) fn has_tiles() -> bool {
    /// `AMX-BF16` and `AMX-TILE`.
    const FEATURES: u32 = 1 << 22 | 1 << 24;
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| has_features(FEATURES) && is_permitted() || is_emulated())
}

/// Whether it multiplies tiles of bytes too.
pub(crate) fn has_byte_tiles() -> bool {
    /// `AMX-INT8`.
    const FEATURE: u32 = 1 << 25;
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| has_tiles() && (has_features(FEATURE) || is_emulated()))
}

/// Whether the processor has all of some features of leaf 7.
fn has_features(features: u32) -> bool {
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & features == features
}

/// Only tests do without a processor's tiles.
#[cfg(not(all(test, target_os = "linux")))]
fn is_emulated() -> bool {
    false
}

/// Asks the system for the tiles, whose state is larger than what it saves for all processes.
#[cfg(target_os = "linux")]
fn is_permitted() -> bool {
    const REQUEST_STATE: libc::c_long = 0x1023;
    const TILE_DATA: libc::c_long = 18;
    // SAFETY: the call reads its arguments alone.
    unsafe { libc::syscall(libc::SYS_arch_prctl, REQUEST_STATE, TILE_DATA) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn is_permitted() -> bool {
    false
}

thread_local! {
    /// Room of a thread: fresh memory for each tile of C would take longer than what is done with it.
    static SCRATCHPAD: Cell<AlignedBuf> = Cell::default();
}

/// Room for rows of A, in lines of [`LANES`] elements.
pub(crate) struct Scratchpad(AlignedBuf);

impl Scratchpad {
    /// At least so many lines, of any content.
    pub(crate) fn new(lines: usize) -> Scratchpad {
        let mut room = SCRATCHPAD.take();
        if room.elements::<u16>().len() < lines * LANES {
            room = AlignedBuf::zeroed(lines * ROW_BYTES);
        }
        Scratchpad(room)
    }

    /// The lines from one on.
    pub(crate) fn lines(&self, line: usize) -> &[u16] {
        &self.0.elements()[line * LANES..]
    }

    /// The same, for writing.
    pub(crate) fn lines_mut(&mut self, line: usize) -> &mut [u16] {
        &mut self.0.elements_mut()[line * LANES..]
    }
}

impl Drop for Scratchpad {
    fn drop(&mut self) {
        SCRATCHPAD.set(std::mem::take(&mut self.0));
    }
}

/// The thread's tiles. Those of B have rows of 64 bytes, one for each four bytes of a step along k; those
/// of A have rows of these bytes, as many as there are in the first tile and in the second.
#[derive(Default)]
pub(crate) struct Configured {
    rows: (usize, usize),
    bytes: usize,
}

/// What tells the machine how large the tiles are.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Configured {
    /// Prepares tiles for a block.
    ///
    /// # Safety
    /// [`has_tiles`]; there are at most 16 rows of each, and at least one in the first tile, of at
    /// most [`ROW_BYTES`], in fours.
    pub(crate) unsafe fn prepare(&mut self, block: &RowBlock) {
        let RowBlock { rows, bytes, .. } = *block;
        if (self.rows, self.bytes) == (rows, bytes) {
            return;
        }
        (self.rows, self.bytes) = (rows, bytes);
        // Tiles without rows are not allowed; with a single tile of rows these are not used.
        let (first, second, fours) = (rows.0 as u8, rows.1.max(1) as u8, bytes as u8 / 4);
        let (all, own) = (ROW_BYTES as u16, bytes as u16);
        let configuration = Configuration {
            palette: 1,
            start_row: 0,
            reserved: [0; 14],
            row_bytes: [all, all, all, all, own, own, all, all, 0, 0, 0, 0, 0, 0, 0, 0],
            rows: [
                first, first, second, second, first, second, fours, fours, 0, 0, 0, 0, 0, 0, 0, 0,
            ],
        };
        // SAFETY: the caller's promise; the configuration is one that palette 1 allows.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const configuration, options(nostack)) }
    }
}

impl Drop for Configured {
    fn drop(&mut self) {
        if self.rows.0 > 0 {
            // SAFETY: the tiles are there, as they have been configured.
            unsafe { asm!("tilerelease", options(nostack, nomem)) }
        }
    }
}

/// What is asked for while blocks are multiplied: so many bytes from an address on.
struct Later {
    from: *const u8,
    bytes: usize,
}

impl Later {
    /// Of the first `len` elements of some panels.
    fn of(panels: &[f32], len: usize) -> Later {
        let panels = &panels[..len.min(panels.len())];
        Later { from: panels.as_ptr().cast(), bytes: size_of_val(panels) }
    }

    /// What is asked for in so many steps along k, and bytes from step to step.
    fn part(&mut self, steps: usize, panel: *const u8) -> (*const u8, usize) {
        let bytes = LINES_AHEAD * ROW_BYTES * steps;
        if self.bytes < bytes {
            // What is there anyway.
            return (panel, 0);
        }
        let from = self.from;
        (self.from, self.bytes) = (from.wrapping_add(bytes), self.bytes - bytes);
        (from, LINES_AHEAD * ROW_BYTES)
    }
}

/// Sums of a block, before they are finished. Those of the second tile begin at row [`SIDE`].
#[repr(C, align(64))]
struct Sums([f32; ROWS * WIDTH]);

/// Panels that all rows of a tile of C pass, where they have so many elements.
pub(crate) fn group(panel: usize) -> usize {
    (GROUP / size_of::<f32>() / panel.max(1)).max(1)
}

/// The panels of a tile of C.
pub(crate) enum Panels<'a> {
    /// They are there, as those of a later tile may be.
    Packed {
        /// From the first on.
        panels: &'a [f32],
        /// Those that are read later.
        later: &'a [f32],
    },
    /// They are compressed; there is room for a group of them, and for making one.
    Compressed(Stored<'a>, &'a mut [f32]),
}

impl Product<'_> {
    /// As [`Product::blocks`]: all rows of the tile are rounded, then some panels after the other
    /// pass by all of them.
    pub(crate) fn blocks_of_tiles(&self, tile: Tile, mut panels: Panels<'_>, c: SharedTarget) {
        let (left, right) = tile.columns;
        let (then, rest) = Absorbed::of(self.steps);
        let panel = WIDTH * self.precision.rows(self.k);
        let group = group(panel);
        let blocks: Vec<RowBlock>;
        let (laid, image);
        match self.a {
            Left::Windows(windows) | Left::Rounded(&Left::Windows(windows))
                if windows::suits(windows, self.per_count()) =>
            {
                image = Image::new((windows, self.per_count()), tile.rows);
                blocks = image.blocks().collect();
            }
            _ => {
                laid = Laid::new(self, tile.rows);
                blocks = laid.blocks().collect();
            }
        }
        let mut configured = Configured::default();
        let mut sums = Sums([0.0; ROWS * WIDTH]);
        for first in (left..right).step_by(group * WIDTH) {
            let end = right.min(first + group * WIDTH);
            let (own, mut next) = match &mut panels {
                Panels::Packed { panels, later } => {
                    let own = &panels[(first - left) / WIDTH * panel..];
                    let next = if end < right { &own[group * panel..] } else { later };
                    (own, Later::of(next, group * panel))
                }
                Panels::Compressed(b, room) => {
                    let (own, room) = room.split_at_mut(group * panel);
                    let each = own.chunks_mut(panel.max(1));
                    for (column, to) in (first..end).step_by(WIDTH).zip(each) {
                        b.write(column, self.precision, room, to);
                    }
                    let next = if end < right { b.bytes_from(end) } else { &[] };
                    let bytes = next.len().min(group * b.panel_bytes());
                    (&*own, Later { from: next.as_ptr(), bytes })
                }
            };
            for block in &blocks {
                // SAFETY: `isa` says that there are tiles.
                unsafe { configured.prepare(block) };
                for (i, column) in (first..end).step_by(WIDTH).enumerate() {
                    let panel = own[i * panel..][..panel].as_ptr().cast();
                    let ahead = next.part(block.runs * block.run.0, panel);
                    // SAFETY: the tiles are as large as the block; the panel is as long as `k`.
                    unsafe { multiply(block, panel, ahead, &mut sums.0) };
                    let size = (self.c_stride, WIDTH.min(end - column));
                    // SAFETY: `check` has shown that rows and columns lie within C.
                    let out = |row: usize| unsafe {
                        c.block(row * self.c_stride + column, size, then.at(row, column))
                    };
                    // SAFETY: as above; tiles of the product are disjoint parts of C.
                    unsafe { write_block(&sums, out, block) };
                }
                let rows = block.row..block.row + block.rows.0 + block.rows.1;
                if let Some(c) = c.values() {
                    // SAFETY: within C and within this tile.
                    unsafe { finish(rest, rows, first..end, self.c_stride, c) };
                }
            }
        }
    }
}

/// Rows of A, in one tile or two.
pub(crate) struct RowBlock {
    /// The first of them.
    pub(crate) row: usize,
    /// How many there are in each tile.
    pub(crate) rows: (usize, usize),
    /// Bytes of a step along k.
    pub(crate) bytes: usize,
    /// Where the first row of each tile begins.
    pub(crate) sources: [*const u8; 2],
    /// Bytes from row to row of a tile.
    pub(crate) row_bytes: usize,
    /// Bytes from step to step along k.
    pub(crate) step_bytes: usize,
    /// Steps of a run, and bytes from run to run.
    pub(crate) run: (usize, usize),
    /// Runs that a row consists of.
    pub(crate) runs: usize,
}

/// Finishes the sums of a block and writes them.
///
/// # Safety
/// As [`store_rows`].
unsafe fn write_block(Sums(sums): &Sums, out: impl Fn(usize) -> Out, block: &RowBlock) {
    let RowBlock { row, rows: (first, second), .. } = *block;
    // SAFETY: the caller's promise; `isa` says that there is AVX-512.
    unsafe {
        if first == SIDE || second == 0 {
            return write_rows(sums.as_ptr(), &out(row), first + second);
        }
        write_rows(sums.as_ptr(), &out(row), first);
        write_rows(sums[SIDE * WIDTH..].as_ptr(), &out(row + first), second);
    }
}

/// # Safety
/// As [`store_rows`]; AVX512-BF16.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
unsafe fn write_rows(sums: *const f32, out: &Out, rows: usize) {
    // SAFETY: the caller's promise.
    unsafe { store_rows::<Native16, 2>(sums, out, rows) }
}

/// What the instructions of a block need beside their registers.
#[repr(C)]
struct Strides {
    /// Steps of a run.
    steps: usize,
    /// Bytes from the end of a run to the next.
    skip: usize,
    /// Bytes from what is asked for in a step to that of the next.
    ahead: usize,
    /// Bytes of a step along k of a panel.
    panel: usize,
}

/// The steps of a product of tiles, along k: `$dot` multiplies. What a second tile of rows needs is left
/// out where there is none.
macro_rules! steps_of_tiles {
    (
        $dot:literal, $block:ident, $panel:ident, $ahead:expr, $to:ident, $strides:expr;
        ask: $($ask:literal)*; later: $($later:literal)*;
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
            $($ask,)*
            $($load,)?
            $($later,)*
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
            wide = in(reg) 2 * ROW_BYTES,
            c = in(reg) $to,
            strides = in(reg) $strides,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        )
    };
}

/// Multiplies a block by a panel with an instruction, and asks for later memory in each step.
macro_rules! multiply_tiles {
    (
        $dot:literal, $block:ident, $panel:ident, $ahead:expr, $to:ident;
        ask: $($ask:literal)*; later: $($later:literal)*
    ) => {{
        let ahead: (*const u8, usize) = $ahead;
        let (steps, run_bytes) = $block.run;
        if steps * $block.runs == 0 {
            return $to.fill(Default::default());
        }
        let strides = Strides {
            steps,
            skip: run_bytes.wrapping_sub(steps * $block.step_bytes),
            ahead: ahead.1,
            // Two tiles side by side.
            panel: $block.bytes / 4 * 2 * ROW_BYTES,
        };
        // SAFETY: the caller's promise; sums are as large as four tiles; asking for memory reads
        // nothing.
        unsafe {
            if $block.rows.1 > 0 {
                steps_of_tiles!(
                    $dot, $block, $panel, ahead.0, $to, &strides;
                    ask: $($ask)*; later: $($later)*;
                    zero: "tilezero tmm0" "tilezero tmm1" "tilezero tmm2" "tilezero tmm3";
                    load: "tileloadd tmm5, [{a2} + {row}*1]";
                    low: " tmm2, tmm5, tmm6" " tmm3, tmm5, tmm7";
                    store: "tilestored [{c} + {wide}*1], tmm0" "tilestored [{c} + {wide}*1 + 64], tmm1"
                        "tilestored [{c} + {wide}*1 + 2048], tmm2" "tilestored [{c} + {wide}*1 + 2112], tmm3"
                );
            } else {
                steps_of_tiles!(
                    $dot, $block, $panel, ahead.0, $to, &strides;
                    ask: $($ask)*; later: $($later)*;
                    zero: "tilezero tmm0" "tilezero tmm1";
                    load: ;
                    low: ;
                    store: "tilestored [{c} + {wide}*1], tmm0" "tilestored [{c} + {wide}*1 + 64], tmm1"
                );
            }
        }
    }};
}

/// Multiplies rows of A in bf16, one tile of them or two, by a panel.
///
/// # Safety
/// The panel has the steps of the block; the tiles are configured for its rows.
unsafe fn multiply(
    block: &RowBlock,
    panel: *const u8,
    ahead: (*const u8, usize),
    to: &mut [f32; ROWS * WIDTH],
) {
    multiply_tiles!(
        "tdpbf16ps", block, panel, ahead, to;
        ask: "prefetcht1 [{ahead}]" "prefetcht1 [{ahead} + 64]" "prefetcht1 [{ahead} + 128]"
            "prefetcht1 [{ahead} + 192]";
        later: "prefetcht1 [{ahead} + 256]" "prefetcht1 [{ahead} + 320]" "prefetcht1 [{ahead} + 384]"
            "prefetcht1 [{ahead} + 448]"
    );
}

/// The same for rows of bytes without a sign and a panel of bytes with one. They are a quarter of what
/// they stand for, and come in time without being asked for.
///
/// # Safety
/// As [`multiply`]; [`has_byte_tiles`].
pub(crate) unsafe fn multiply_bytes(
    block: &RowBlock,
    panel: *const u8,
    to: &mut [i32; ROWS * WIDTH],
) {
    multiply_tiles!("tdpbusd", block, panel, (panel, 0), to; ask: ; later: );
}
