//! Blocks of rows times panels of columns: 32 by 32 sums of products of bytes, in tiles (AMX), in fours
//! (VNNI), or in pairs of words.

use super::input::{Image, Rows, Shape, Tile};
#[cfg(target_arch = "x86_64")]
use crate::base::amx::has_byte_tiles;
use crate::base::isa::{Isa, isa};
#[cfg(target_arch = "x86_64")]
use crate::gemm::amx::config::{RowBlock, TileConfig};
#[cfg(target_arch = "x86_64")]
use crate::gemm::amx::kernel::multiply_bytes;
use crate::multiversion;

/// Rows of a tile.
pub(super) const SIDE: usize = 16;

/// Rows of a block.
pub(super) const ROWS: usize = 2 * SIDE;

/// Columns of a panel.
pub(super) const WIDTH: usize = 32;

/// Bytes of a panel for each four terms.
const DOT4_BYTES: usize = 4 * WIDTH;

/// Rows in whose time so many are multiplied that lie side by side.
pub(super) fn rows(count: usize) -> usize {
    /// Below that, vectors wait for each other.
    const LEAST: usize = 4;
    match has_tiles() {
        true => count.next_multiple_of(SIDE),
        false => count.max(LEAST),
    }
}

/// Whether rows are multiplied in tiles.
fn has_tiles() -> bool {
    #[cfg(target_arch = "x86_64")]
    return isa() == Isa::Amx && has_byte_tiles();
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// Whether there is an instruction for products of bytes; else they are multiplied as words.
pub(super) fn has_dot4() -> bool {
    match isa() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::Amx => has_tiles() || is_x86_feature_detected!("avx512vnni"),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => is_x86_feature_detected!("avxvnni"),
        _ => false,
    }
}

/// Sums of a block; those of the second tile begin at row [`SIDE`].
#[repr(C, align(64))]
pub(super) struct Sums([i32; ROWS * WIDTH]);

impl Sums {
    /// The rows of both tiles.
    pub(super) fn tiles(&self) -> [&[[i32; WIDTH]]; 2] {
        self.0.as_chunks().0.split_at(SIDE).into()
    }
}

impl Default for Sums {
    fn default() -> Sums {
        Sums([0; ROWS * WIDTH])
    }
}

/// How a thread multiplies.
#[derive(Default)]
pub(super) struct Microkernel {
    #[cfg(target_arch = "x86_64")]
    tiles: TileConfig,
    words: I16Kernel,
}

impl Microkernel {
    /// Computes the sums of a block.
    ///
    /// # Panics
    /// When the block is not within the image, or the panel is not for it.
    pub(super) fn multiply(
        &mut self,
        image: &Image<'_>,
        block: &Rows,
        panel: &[i8],
        Sums(sums): &mut Sums,
    ) {
        let Shape { row, step, steps, run, runs } = image.shape;
        assert!(panel.len() == runs * steps * step * WIDTH, "the panel has other terms");
        let reach = |at: usize, rows: usize| {
            at + rows.saturating_sub(1) * row + runs.saturating_sub(1) * run + steps * step
        };
        let fits = |t: &Tile| t.count <= SIDE && reach(t.at, t.count) <= image.bytes.len();
        assert!(block.iter().all(fits) && block[0].count > 0, "a window is not in the image");
        #[cfg(target_arch = "x86_64")]
        if has_tiles() {
            // SAFETY: the machine has such tiles; the block and the panel have been checked.
            return unsafe { self.in_tiles(image, block, panel, sums) };
        }
        let parts = block.map(|tile| Part {
            bytes: &image.bytes[tile.at..],
            rows: tile.count,
            shape: image.shape,
        });
        match isa() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Amx if is_x86_feature_detected!("avx512vnni") => {
                for (part, sums) in parts.iter().zip(sums.chunks_exact_mut(SIDE * WIDTH)) {
                    // SAFETY: the machine has the instructions; all has been checked.
                    unsafe { x86::dot4_avx512(part, panel, sums) }
                }
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 if is_x86_feature_detected!("avxvnni") => {
                for (part, sums) in parts.iter().zip(sums.chunks_exact_mut(SIDE * WIDTH)) {
                    // SAFETY: as above.
                    unsafe { x86::dot4_avx2(part, panel, sums) }
                }
            }
            _ => self.words.multiply(&parts, panel, sums),
        }
    }

    /// # Safety
    /// The machine has tiles of bytes; the block is within the image, and the panel is for it.
    #[cfg(target_arch = "x86_64")]
    unsafe fn in_tiles(
        &mut self,
        image: &Image<'_>,
        block: &Rows,
        panel: &[i8],
        sums: &mut [i32; ROWS * WIDTH],
    ) {
        let Shape { row, step, steps, run, runs } = image.shape;
        let rows = RowBlock {
            row: 0,
            rows: (block[0].count, block[1].count),
            bytes: step,
            sources: block.map(|tile| image.bytes[tile.at..].as_ptr()),
            row_bytes: row,
            step_bytes: step,
            run: (steps, run),
            runs,
        };
        // SAFETY: the caller's promise.
        unsafe {
            self.tiles.prepare(&rows);
            multiply_bytes(&rows, panel.as_ptr().cast(), sums);
        }
    }
}

/// The rows of a tile, and all behind the first.
struct Part<'a> {
    bytes: &'a [u8],
    rows: usize,
    shape: Shape,
}

#[cfg(target_arch = "x86_64")]
impl Part<'_> {
    /// Calls `f` for each four terms, in order, with where they begin in the first row.
    #[inline(always)]
    fn fours(&self, mut f: impl FnMut(usize)) {
        let Shape { step, steps, run, runs, .. } = self.shape;
        for first in (0..runs).map(|i| i * run) {
            for at in (first..first + steps * step).step_by(4) {
                f(at);
            }
        }
    }
}

/// Rows and a panel in 16 bits, for machines that multiply no bytes: pairs of terms, side by side.
#[derive(Default)]
struct I16Kernel {
    rows: Vec<i16>,
    /// Each pair in 32 bits, the first of it in the lower half.
    panel: Vec<u32>,
    /// Where the panel lies in bytes.
    of: usize,
}

impl I16Kernel {
    /// The sums of both tiles. All of their rows pass by a part of the panel, which then is in the cache.
    fn multiply(&mut self, parts: &[Part<'_>; 2], panel: &[i8], sums: &mut [i32; ROWS * WIDTH]) {
        if self.of != panel.as_ptr().addr() || self.panel.len() != panel.len() / 2 {
            self.of = panel.as_ptr().addr();
            self.panel.resize(panel.len() / 2, 0);
            widen_panel(panel, &mut self.panel);
        }
        let terms = panel.len() / WIDTH;
        let [first, second] = parts.each_ref().map(|part| part.rows);
        self.rows.resize((first + second) * terms, 0);
        let (own, others) = self.rows.split_at_mut(first * terms);
        for (part, rows) in parts.iter().zip([own, others]) {
            let Shape { row, step, steps, run, .. } = part.shape;
            for (i, to) in rows.chunks_exact_mut(terms).enumerate() {
                for (j, to) in to.chunks_exact_mut(steps * step).enumerate() {
                    widen_row(&part.bytes[i * row + j * run..][..steps * step], to);
                }
            }
        }
        multiply_i16(&self.rows, terms, &self.panel, sums);
        sums.copy_within(first * WIDTH..(first + second) * WIDTH, SIDE * WIDTH);
    }
}

/// The sums of some rows, each of an even number of terms, by a panel: for each two terms a pair of words
/// of each column, the first in the lower half.
#[inline(never)]
pub(super) fn multiply_i16(rows: &[i16], terms: usize, panel: &[u32], sums: &mut [i32]) {
    match isa() {
        Isa::Portable => i16_portable(rows, terms, panel, sums),
        #[cfg(target_arch = "x86_64")]
        _ => {
            // SAFETY: the machine has AVX2.
            unsafe { x86::i16_avx2(rows, terms, panel, sums) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        _ => i16_portable(rows, terms, panel, sums),
    }
}

multiversion! {
    fn widen_row(from: &[u8], to: &mut [i16]) {
        for (from, to) in from.iter().zip(to) {
            *to = i16::from(*from);
        }
    }
}

multiversion! {
    /// The first two terms of each four of all columns, then the others.
    fn widen_panel(from: &[i8], to: &mut [u32]) {
        let (from, _) = from.as_chunks::<DOT4_BYTES>();
        let (to, _) = to.as_chunks_mut::<{ 2 * WIDTH }>();
        for (from, to) in from.iter().zip(to) {
            for j in 0..WIDTH {
                let four = &from[4 * j..4 * j + 4];
                let low = u32::from(four[0] as u8) | u32::from(four[1] as u8) << 8;
                let x = low | u32::from(four[2] as u8) << 16 | u32::from(four[3] as u8) << 24;
                to[j] = signed(x, 24) & 0xffff | signed(x, 16) << 16;
                to[WIDTH + j] = signed(x, 8) & 0xffff | signed(x, 0) << 16;
            }
        }
    }
}

/// The byte above which `left` bits are, with its sign.
#[inline(always)]
fn signed(x: u32, left: u32) -> u32 {
    // Shifts of signed numbers to the right keep the sign.
    ((x << left) as i32 >> 24) as u32
}

/// Pair by pair.
fn i16_portable(rows: &[i16], terms: usize, panel: &[u32], sums: &mut [i32]) {
    for (row, sums) in rows.chunks_exact(terms).zip(sums.as_chunks_mut::<WIDTH>().0) {
        sums.fill(0);
        for (a, b) in row.as_chunks::<2>().0.iter().zip(panel.as_chunks::<WIDTH>().0) {
            let a = a.map(i32::from);
            for j in 0..WIDTH {
                sums[j] += a[0] * i32::from(b[j] as i16) + a[1] * (b[j] as i32 >> 16);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{DOT4_BYTES, Part, WIDTH};
    use std::arch::x86_64::*;

    /// Four terms of a row.
    ///
    /// # Safety
    /// There are four bytes.
    #[inline(always)]
    unsafe fn four(bytes: *const u8) -> i32 {
        // SAFETY: the caller's promise.
        unsafe { bytes.cast::<i32>().read_unaligned() }
    }

    /// Calls a function for all rows: as few times as it takes with at most `$most` of them, with as many
    /// of them each time as can be.
    macro_rules! in_blocks {
        ($most:literal: $($count:literal)*; $rows:expr, ($row:ident, $n:ident) => $call:expr) => {{
            let (all, mut $row) = ($rows, 0);
            while $row < all {
                let left = all - $row;
                match left.div_ceil(left.div_ceil($most)) {
                    $($count => {
                        const $n: usize = $count;
                        $call;
                        $row += $count;
                    })*
                    _ => unreachable!("there are at most so many rows"),
                }
            }
        }};
    }

    /// # Safety
    /// AVX512-VNNI; the rows are within the bytes, the panel is for them, and there are sums of each.
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(super) unsafe fn dot4_avx512(part: &Part<'_>, panel: &[i8], sums: &mut [i32]) {
        // SAFETY: the caller's promise.
        unsafe {
            in_blocks!(8: 1 2 3 4 5 6 7 8; part.rows, (row, R) => {
                dot4_rows_avx512::<R>(part, row, panel, sums)
            });
        }
    }

    /// # Safety
    /// As [`dot4_avx512`], for `R` rows from one on.
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn dot4_rows_avx512<const R: usize>(
        part: &Part<'_>,
        row: usize,
        panel: &[i8],
        sums: &mut [i32],
    ) {
        let mut own = [[_mm512_setzero_si512(); 2]; R];
        let (mut b, step) = (panel.as_ptr(), part.shape.row);
        let first = part.bytes.as_ptr().wrapping_add(row * step);
        // SAFETY: the caller's promise.
        unsafe {
            part.fours(|at| {
                let columns = [_mm512_loadu_si512(b.cast()), _mm512_loadu_si512(b.add(64).cast())];
                for i in 0..R {
                    let a = _mm512_set1_epi32(four(first.add(at + i * step)));
                    for p in 0..2 {
                        own[i][p] = _mm512_dpbusd_epi32(own[i][p], a, columns[p]);
                    }
                }
                b = b.wrapping_add(DOT4_BYTES);
            });
            for i in 0..R {
                for p in 0..2 {
                    let to = sums[(row + i) * WIDTH + 16 * p..][..16].as_mut_ptr();
                    _mm512_storeu_si512(to.cast(), own[i][p]);
                }
            }
        }
    }

    /// # Safety
    /// AVX-VNNI; otherwise as [`dot4_avx512`].
    #[target_feature(enable = "avx2,avxvnni")]
    pub(super) unsafe fn dot4_avx2(part: &Part<'_>, panel: &[i8], sums: &mut [i32]) {
        // SAFETY: the caller's promise.
        unsafe {
            in_blocks!(3: 1 2 3; part.rows, (row, R) => {
                dot4_rows_avx2::<R>(part, row, panel, sums)
            });
        }
    }

    /// # Safety
    /// As [`dot4_avx2`], for `R` rows from one on.
    #[target_feature(enable = "avx2,avxvnni")]
    unsafe fn dot4_rows_avx2<const R: usize>(
        part: &Part<'_>,
        row: usize,
        panel: &[i8],
        sums: &mut [i32],
    ) {
        let mut own = [[_mm256_setzero_si256(); 4]; R];
        let (mut b, step) = (panel.as_ptr(), part.shape.row);
        let first = part.bytes.as_ptr().wrapping_add(row * step);
        // SAFETY: the caller's promise.
        unsafe {
            part.fours(|at| {
                for i in 0..R {
                    let a = _mm256_set1_epi32(four(first.add(at + i * step)));
                    for p in 0..4 {
                        let columns = _mm256_loadu_si256(b.add(32 * p).cast());
                        own[i][p] = _mm256_dpbusd_avx_epi32(own[i][p], a, columns);
                    }
                }
                b = b.wrapping_add(DOT4_BYTES);
            });
        }
        // SAFETY: there are sums of all columns.
        unsafe { store(&own, &mut sums[row * WIDTH..]) }
    }

    /// Writes rows of sums.
    ///
    /// # Safety
    /// AVX2.
    #[target_feature(enable = "avx2")]
    unsafe fn store<const R: usize>(own: &[[__m256i; 4]; R], sums: &mut [i32]) {
        let sums = &mut sums[..R * WIDTH];
        for i in 0..R {
            for p in 0..4 {
                // SAFETY: within the rows.
                unsafe {
                    let to = sums.as_mut_ptr().add(i * WIDTH + 8 * p);
                    _mm256_storeu_si256(to.cast(), own[i][p]);
                }
            }
        }
    }

    /// Pairs of a panel of which half the columns stay in the first cache while rows pass by.
    const CHUNK: usize = 256;

    /// Columns of half a panel, which leave registers for more rows.
    const HALF: usize = WIDTH / 2;

    /// # Safety
    /// AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn i16_avx2(rows: &[i16], terms: usize, panel: &[u32], sums: &mut [i32]) {
        let count = rows.len() / terms;
        assert!(panel.len() == terms / 2 * WIDTH && sums.len() >= count * WIDTH);
        sums[..count * WIDTH].fill(0);
        for (chunk, panel) in panel.chunks(CHUNK * WIDTH).enumerate() {
            // Behind all of them where there are none.
            let rows = rows.as_ptr().wrapping_add(2 * CHUNK * chunk);
            for half in [0, HALF] {
                // SAFETY: the caller's promise; the lengths have been checked.
                unsafe {
                    in_blocks!(6: 1 2 3 4 5 6; count, (row, R) => {
                        let own = rows.add(row * terms);
                        let sums = sums[row * WIDTH + half..].as_mut_ptr();
                        i16_rows_avx2::<R>((own, terms), &panel[half..], sums);
                    });
                }
            }
        }
    }

    /// Adds the products of `R` rows, `terms` apart, by [`HALF`] columns of a panel, to sums.
    ///
    /// # Safety
    /// As [`i16_avx2`], for rows and sums from one on, and a panel from a column on.
    #[target_feature(enable = "avx2")]
    unsafe fn i16_rows_avx2<const R: usize>(
        (rows, terms): (*const i16, usize),
        panel: &[u32],
        sums: *mut i32,
    ) {
        // SAFETY: the caller's promise: a pair of each row, and of all columns.
        unsafe {
            let sum = |i: usize, p: usize| sums.add(i * WIDTH + 8 * p).cast::<__m256i>();
            let mut own = [[_mm256_setzero_si256(); 2]; R];
            for i in 0..R {
                for p in 0..2 {
                    own[i][p] = _mm256_loadu_si256(sum(i, p));
                }
            }
            for at in 0..panel.len().div_ceil(WIDTH) {
                let b = panel.as_ptr().add(at * WIDTH).cast::<__m256i>();
                let columns = [_mm256_loadu_si256(b), _mm256_loadu_si256(b.add(1))];
                for i in 0..R {
                    let pair = rows.add(i * terms + 2 * at).cast::<i32>().read_unaligned();
                    let a = _mm256_set1_epi32(pair);
                    for p in 0..2 {
                        own[i][p] = _mm256_add_epi32(own[i][p], _mm256_madd_epi16(a, columns[p]));
                    }
                }
            }
            for i in 0..R {
                for p in 0..2 {
                    _mm256_storeu_si256(sum(i, p), own[i][p]);
                }
            }
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// Where the machine has better, `IRRUN_ISA` leaves these out.
    #[test]
    fn pairs_of_avx2_are_those_of_plain_rust() {
        if !Isa::Avx2.is_available() {
            return;
        }
        // More terms than are multiplied at a time.
        let (count, terms) = (13, 1036);
        let rows: Vec<i16> = (0..count * terms).map(|i| (i * 37 % 256) as i16).collect();
        let panel: Vec<i8> = (0..terms * WIDTH).map(|i| (i * 91 % 256) as i8).collect();
        let mut words = vec![0; panel.len() / 2];
        widen_panel(&panel, &mut words);
        let panel = words;
        let (mut plain, mut pairs) = (vec![1; count * WIDTH], vec![2; count * WIDTH]);
        i16_portable(&rows, terms, &panel, &mut plain);
        // SAFETY: the machine has AVX2.
        unsafe {
            x86::i16_avx2(&rows, terms, &panel, &mut pairs);
            x86::i16_avx2(&[], terms, &panel, &mut []);
        }
        assert_eq!(pairs, plain);
    }
}
