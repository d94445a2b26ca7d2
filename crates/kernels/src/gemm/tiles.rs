//! Products of operands rounded to bf16 by AMX: 32 rows and 32 columns at a time, in tiles.
//!
//! A sum takes 32 terms at a time: the even ones in one chain of fused multiply-adds from 0, the odd
//! ones in another, and then what both add up to is added. All is rounded to nearest even; what is
//! below the normal numbers counts as 0. The tests compare with just that, bit for bit.

use super::micro::{Out, Source, Steps, store_rows};
use super::pairs::Rounded;
use super::windows::Line;
use super::{Absorbed, Left, Product, Tile, finish};
use crate::par::Slice;
use crate::simd::Avx512;
use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::sync::OnceLock;

/// Rows of a block, in two tiles.
pub(super) const ROWS: usize = 32;

/// Rows, and columns, of a tile.
const SIDE: usize = 16;

/// Pairs along k in a tile.
pub(super) const PAIRS: usize = 16;

/// Columns of a panel, in two tiles.
const WIDTH: usize = 32;

/// Whether the machine multiplies tiles of bf16, and the system lets this process do so.
pub(crate) fn has_tiles() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        /// `AMX-BF16` and `AMX-TILE` of leaf 7.
        const FEATURES: u32 = 1 << 22 | 1 << 24;
        __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & FEATURES == FEATURES && is_permitted()
    })
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

/// While it lives, the thread's tiles are of 16 rows of 64 bytes.
struct Configured;

#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

static WHOLE_TILES: Configuration = Configuration {
    palette: 1,
    start_row: 0,
    reserved: [0; 14],
    row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

impl Configured {
    /// # Safety
    /// [`has_tiles`].
    unsafe fn new() -> Configured {
        // SAFETY: the caller's promise; the configuration is one that palette 1 allows.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const WHOLE_TILES, options(nostack)) }
        Configured
    }
}

impl Drop for Configured {
    fn drop(&mut self) {
        // SAFETY: the tiles are there, as they have been configured.
        unsafe { asm!("tilerelease", options(nostack, nomem)) }
    }
}

/// Rows of A in bf16.
#[derive(Clone, Copy)]
pub(super) struct Lines {
    pub(super) first: *const f32,
    /// Bytes from row to row.
    pub(super) stride: usize,
}

/// Sums of a block, before they are finished.
#[repr(C, align(64))]
struct Sums([f32; ROWS * WIDTH]);

impl Product<'_> {
    /// As [`Product::blocks`].
    pub(super) fn blocks_of_tiles(&self, tile: Tile, panels: &[f32], c: Slice<f32>) {
        let ((top, bottom), (left, right)) = (tile.rows, tile.columns);
        let (then, rest) = Absorbed::of(self.steps);
        let mut pointers = vec![std::ptr::null(); ROWS * self.runs()];
        let is_scaled = matches!(self.a, Left::Scaled { .. });
        let mut products = vec![0f32; if is_scaled { ROWS * self.k } else { 0 }];
        let mut line = None;
        let lanes = self.precision.rows(self.k);
        let mut rounded = Rounded::new(self.k, ROWS, matches!(self.a, Left::Rounded(_)));
        let mut sums = Sums([0.0; ROWS * WIDTH]);
        // SAFETY: `isa` says that there are tiles.
        let _configured = unsafe { Configured::new() };
        let mut row = top;
        while row < bottom {
            let rows = match self.left().0 {
                Left::Windows(windows) => windows.together(row, ROWS.min(bottom - row)),
                _ => ROWS.min(bottom - row),
            };
            let from =
                self.lines((row, rows), &mut pointers, &mut line, &mut products, &mut rounded);
            for (i, column) in (left..right).step_by(WIDTH).enumerate() {
                let panel = &panels[i * WIDTH * lanes..][..WIDTH * lanes];
                let out = Out {
                    // SAFETY: `check` has shown that rows and columns lie within C.
                    to: unsafe { c.at(row * self.c_stride + column) },
                    stride: self.c_stride,
                    columns: WIDTH.min(right - column),
                    then: then.at(row, column),
                };
                // SAFETY: there are as many rows as tiles read, and the panel is as long as `k`;
                // tiles of the product are disjoint parts of C.
                unsafe {
                    multiply(from, panel.as_ptr(), lanes / PAIRS, rows > SIDE, &mut sums);
                    write_rows(&sums, out, rows);
                }
            }
            // SAFETY: within C and within this tile.
            unsafe { finish(rest, row..row + rows, left..right, self.c_stride, c) };
            row += rows;
        }
    }

    /// Rows of A in bf16, as many as tiles have: where they lie, if that is possible, else copied.
    fn lines(
        &self,
        (row, rows): (usize, usize),
        pointers: &mut [*const f32],
        line: &mut Option<Line>,
        products: &mut [f32],
        rounded: &mut Rounded,
    ) -> Lines {
        let (a, runs) = self.source((row, rows), pointers, line, products);
        if let (Left::Rounded(_), Source::Line(first, Steps { row, inner: 1 }), 1) =
            (self.a, a, runs)
        {
            // SAFETY: there is a pointer for the run.
            let first = unsafe { *first };
            let is_whole = rows.is_multiple_of(SIDE) && self.lanes().is_multiple_of(PAIRS);
            if is_whole && !first.is_null() {
                return Lines { first, stride: row * size_of::<f32>() };
            }
        }
        // SAFETY: `check` has shown that the rows lie within A.
        unsafe { rounded.round(a, runs, rows) };
        rounded.lines()
    }
}

/// Multiplies rows of A, one tile of them or two, by a panel of `blocks` tiles along k.
///
/// # Safety
/// A has the rows of its tiles, the panel its tiles; the tiles are configured.
unsafe fn multiply(a: Lines, panel: *const f32, blocks: usize, is_tall: bool, to: &mut Sums) {
    let Lines { first, stride } = a;
    // SAFETY: the caller's promise; sums are as large as four tiles.
    unsafe {
        match is_tall {
            true => asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "test {n}, {n}",
                "jz 3f",
                "2:",
                "tileloadd tmm6, [{b} + {sb}*1]",
                "tileloadd tmm4, [{a} + {sa}*1]",
                "tileloadd tmm7, [{b} + {sb}*1 + 64]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm5, [{low} + {sa}*1]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {a}, 64",
                "add {low}, 64",
                "add {b}, 2048",
                "dec {n}",
                "jnz 2b",
                "3:",
                "tilestored [{c} + {sb}*1], tmm0",
                "tilestored [{c} + {sb}*1 + 64], tmm1",
                "tilestored [{c} + {sb}*1 + 2048], tmm2",
                "tilestored [{c} + {sb}*1 + 2112], tmm3",
                a = inout(reg) first => _,
                low = inout(reg) first.wrapping_byte_add(SIDE * stride) => _,
                b = inout(reg) panel => _,
                n = inout(reg) blocks => _,
                sa = in(reg) stride,
                sb = in(reg) WIDTH * size_of::<f32>(),
                c = in(reg) to,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            ),
            false => asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "test {n}, {n}",
                "jz 3f",
                "2:",
                "tileloadd tmm6, [{b} + {sb}*1]",
                "tileloadd tmm4, [{a} + {sa}*1]",
                "tileloadd tmm7, [{b} + {sb}*1 + 64]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "add {a}, 64",
                "add {b}, 2048",
                "dec {n}",
                "jnz 2b",
                "3:",
                "tilestored [{c} + {sb}*1], tmm0",
                "tilestored [{c} + {sb}*1 + 64], tmm1",
                a = inout(reg) first => _,
                b = inout(reg) panel => _,
                n = inout(reg) blocks => _,
                sa = in(reg) stride,
                sb = in(reg) WIDTH * size_of::<f32>(),
                c = in(reg) to,
                out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            ),
        }
    }
}

/// Finishes the sums and writes them.
///
/// # Safety
/// As [`store_rows`]; AVX-512.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn write_rows(Sums(sums): &Sums, out: Out, rows: usize) {
    // SAFETY: the caller's promise.
    unsafe { store_rows::<Avx512, 2>(sums.as_ptr(), &out, rows) }
}
