//! Products with a compressed matrix: panels become f32 while they are multiplied by few rows, or
//! once for many.

use super::compressed::{Code, Form, Stored};
use super::{Left, Product, Right, Tile, finish, micro};
use crate::isa::{Isa, isa};
use crate::par::Slice;
#[cfg(target_arch = "aarch64")]
use crate::simd::Neon;
#[cfg(not(target_arch = "aarch64"))]
use crate::simd::Portable;
#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512};
use crate::simd::{Integral, prefetch};

/// Rows that are multiplied by an element that has just become f32, at most.
const TOGETHER: usize = 8;

/// The same where there are few registers, or few rows.
const FEW: usize = 4;

/// The same for the instruction set in use.
fn together() -> usize {
    if isa() >= Isa::Avx512 { TOGETHER } else { FEW }
}

/// Rows up to which it takes less to compute elements again for some rows at a time than to write them.
pub(super) fn thin_rows() -> usize {
    3 * together()
}

/// Most columns of a panel.
const WIDTH: usize = 32;

/// The columns of a block, side by side.
#[derive(Clone, Copy)]
pub(super) struct Panel<'a> {
    form: Form,
    bytes: &'a [u8],
}

impl<'a> Panel<'a> {
    /// # Panics
    /// When it is too short.
    pub(super) fn new(form: Form, bytes: &'a [u8]) -> Panel<'a> {
        assert!(bytes.len() >= form.len() && form.width <= WIDTH, "the panel is too short");
        Panel { form, bytes }
    }

    /// Writes the elements as rows of f32.
    pub(super) fn widen(self, to: &mut [f32]) {
        assert!(to.len() >= self.form.terms * self.form.width);
        let to = to.as_mut_ptr();
        // SAFETY: there is room for all rows.
        unsafe { self.read(Task::Widen(to)) }
    }

    /// Sums of rows of A times the panel; `to` has as many rows.
    ///
    /// # Panics
    /// When rows are too short, or more than [`together`] says.
    fn multiply(self, a: &[f32], stride: usize, to: &mut [[f32; WIDTH]]) {
        let rows = to.len();
        assert!(rows > 0 && rows <= together());
        assert!(a.len() >= (rows - 1) * stride + self.form.terms);
        let mut sums = [[0f32; WIDTH]; TOGETHER];
        // Rows that are not there are the last one again.
        let row = |i: usize| a[i.min(rows - 1) * stride..].as_ptr();
        let a = std::array::from_fn(row);
        let task = match rows {
            1 => Task::One(a[0], &mut sums),
            ..=FEW => Task::Few(a, &mut sums),
            _ => Task::Many(a, &mut sums),
        };
        // SAFETY: the rows have an element for each term.
        unsafe { self.read(task) };
        to.copy_from_slice(&sums[..rows]);
    }

    /// # Safety
    /// The pointers of the task are valid for all terms.
    unsafe fn read(self, task: Task<'_>) {
        // SAFETY: the caller's promise; `isa` is what the machine has.
        unsafe {
            match isa() {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 | Isa::Amx => avx512(self, task),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => avx2(self, task),
                _ => portable(self, task),
            }
        }
    }
}

/// What is done with the elements of a panel.
enum Task<'a> {
    /// They are written as f32.
    Widen(*mut f32),
    /// They are multiplied by a row.
    One(*const f32, &'a mut [[f32; WIDTH]; TOGETHER]),
    /// They are multiplied by the first rows.
    Few([*const f32; TOGETHER], &'a mut [[f32; WIDTH]; TOGETHER]),
    /// They are multiplied by all rows.
    Many([*const f32; TOGETHER], &'a mut [[f32; WIDTH]; TOGETHER]),
}

/// # Safety
/// As [`Panel::read`], with AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
unsafe fn avx512(panel: Panel<'_>, task: Task<'_>) {
    // SAFETY: the caller's promise.
    unsafe { perform::<Avx512, 2>(panel, task) }
}

/// # Safety
/// As [`Panel::read`], with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn avx2(panel: Panel<'_>, task: Task<'_>) {
    // SAFETY: the caller's promise.
    unsafe { perform::<Avx2, 2>(panel, task) }
}

/// # Safety
/// As [`Panel::read`].
unsafe fn portable(panel: Panel<'_>, task: Task<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        #[cfg(target_arch = "aarch64")]
        perform::<Neon, 4>(panel, task);
        #[cfg(not(target_arch = "aarch64"))]
        perform::<Portable, 2>(panel, task);
    }
}

/// # Safety
/// As [`Panel::read`], where the instruction set of `V` is available and panels have `P` vectors.
#[inline(always)]
unsafe fn perform<V: Integral, const P: usize>(panel: Panel<'_>, task: Task<'_>) {
    // SAFETY: the caller's promise.
    unsafe {
        match task {
            Task::Widen(to) => decode::<V, P>(panel, &mut Rows { to }),
            Task::One(a, to) => {
                let mut sums = Sums::<V, 1, P> { a: [a], sums: [[V::zero(); P]] };
                decode(panel, &mut sums);
                sums.store(to);
            }
            Task::Few([a, b, c, d, ..], to) => {
                let (a, sums) = ([a, b, c, d], [[V::zero(); P]; FEW]);
                let mut sums = Sums::<V, FEW, P> { a, sums };
                decode(panel, &mut sums);
                sums.store(to);
            }
            Task::Many(a, to) => {
                // Others have no registers for so many.
                assert!(V::LANES == 16);
                let mut sums = Sums::<V, TOGETHER, P> { a, sums: [[V::zero(); P]; TOGETHER] };
                decode(panel, &mut sums);
                sums.store(to);
            }
        }
    }
}

/// What takes the rows of a panel in turn.
trait Sink<V, const P: usize> {
    /// # Safety
    /// There is room, or an element, for the term; the instruction set of `V` is available.
    unsafe fn take(&mut self, term: usize, row: [V; P]);
}

/// Memory for all rows.
struct Rows {
    to: *mut f32,
}

impl<V: Integral, const P: usize> Sink<V, P> for Rows {
    #[inline(always)]
    unsafe fn take(&mut self, term: usize, row: [V; P]) {
        for p in 0..P {
            // SAFETY: the caller's promise.
            unsafe { row[p].store(self.to.add((term * P + p) * V::LANES)) };
        }
    }
}

/// Sums of products with rows of A.
struct Sums<V, const R: usize, const P: usize> {
    a: [*const f32; R],
    sums: [[V; P]; R],
}

impl<V: Integral, const R: usize, const P: usize> Sums<V, R, P> {
    /// # Safety
    /// The instruction set of `V` is available.
    #[inline(always)]
    unsafe fn store(self, to: &mut [[f32; WIDTH]; TOGETHER]) {
        const { assert!(R <= TOGETHER && P * V::LANES <= WIDTH) };
        for i in 0..R {
            for p in 0..P {
                // SAFETY: within a row.
                unsafe { self.sums[i][p].store(to[i].as_mut_ptr().add(p * V::LANES)) };
            }
        }
    }
}

impl<V: Integral, const R: usize, const P: usize> Sink<V, P> for Sums<V, R, P> {
    #[inline(always)]
    unsafe fn take(&mut self, term: usize, row: [V; P]) {
        for i in 0..R {
            // SAFETY: the caller's promise.
            unsafe {
                let x = V::splat(*self.a[i].add(term));
                for p in 0..P {
                    self.sums[i][p] = x.fma(row[p], self.sums[i][p]);
                }
            }
        }
    }
}

/// Gives all rows of a panel to a sink, in order.
///
/// # Safety
/// The sink takes as many terms; the instruction set of `V` is available.
#[inline(always)]
unsafe fn decode<V: Integral, const P: usize>(panel: Panel<'_>, sink: &mut impl Sink<V, P>) {
    // SAFETY: the caller's promise.
    unsafe {
        match panel.form.is_exact {
            true => decode_as::<V, P, true>(panel, sink),
            false => decode_as::<V, P, false>(panel, sink),
        }
    }
}

/// # Safety
/// As [`decode`].
#[inline(always)]
unsafe fn decode_as<V: Integral, const P: usize, const EXACT: bool>(
    panel: Panel<'_>,
    sink: &mut impl Sink<V, P>,
) {
    let Form { code, terms, group, .. } = panel.form;
    // SAFETY: the panel has elements for all terms and scales for all groups, and the caller's
    // promise.
    unsafe {
        let mut from = panel.bytes.as_ptr().add(panel.form.elements());
        if code == Code::F16 {
            for term in 0..terms {
                let mut row = [V::zero(); P];
                for p in 0..P {
                    row[p] = V::load_halves(from.add(2 * p * V::LANES));
                }
                sink.take(term, row);
                from = next(from, 2 * P * V::LANES);
            }
            return;
        }
        let mut scales = panel.bytes.as_ptr().cast::<f32>();
        let mut zeros = panel.bytes.as_ptr().add(panel.form.zeros());
        for first in (0..panel.form.groups()).map(|i| i * group) {
            let scale = Scales::<V, P, EXACT>::load(scales, zeros);
            scales = scales.add(P * V::LANES);
            zeros = zeros.add(P * V::LANES);
            if matches!(code, Code::U8 | Code::I8) {
                for term in first..first + group {
                    let mut row = [V::zero(); P];
                    for p in 0..P {
                        row[p] = scale.apply(V::load_bytes(from.add(p * V::LANES)), p);
                    }
                    sink.take(term, row);
                    from = next(from, P * V::LANES);
                }
                continue;
            }
            for term in (first..first + group).step_by(2) {
                let (mut low, mut high) = ([V::zero(); P], [V::zero(); P]);
                for p in 0..P {
                    let [even, odd] = V::load_nibbles(from.add(p * V::LANES));
                    (low[p], high[p]) = (scale.apply(even, p), scale.apply(odd, p));
                }
                sink.take(term, low);
                // The last of an odd number has none beside it.
                if term + 1 < terms {
                    sink.take(term + 1, high);
                }
                from = next(from, P * V::LANES);
            }
        }
    }
}

/// The scales of a group, and what is added to elements: before they are scaled, or after if that is
/// exact.
#[derive(Clone, Copy)]
struct Scales<V, const P: usize, const EXACT: bool> {
    scale: [V; P],
    add: [V; P],
}

impl<V: Integral, const P: usize, const EXACT: bool> Scales<V, P, EXACT> {
    /// # Safety
    /// There are scales and zero points for all lanes; the instruction set of `V` is available.
    #[inline(always)]
    unsafe fn load(scales: *const f32, zeros: *const u8) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            let (mut scale, mut add) = ([V::zero(); P], [V::zero(); P]);
            for p in 0..P {
                scale[p] = V::load(scales.add(p * V::LANES));
                add[p] = V::load_bytes(zeros.add(p * V::LANES)).mul(V::splat(-1.0));
                if EXACT {
                    add[p] = add[p].mul(scale[p]);
                }
            }
            Scales { scale, add }
        }
    }

    /// What elements of vector `p` stand for.
    ///
    /// # Safety
    /// The instruction set of `V` is available.
    #[inline(always)]
    unsafe fn apply(&self, elements: V, p: usize) -> V {
        // SAFETY: the caller's promise.
        unsafe {
            match EXACT {
                true => elements.fma(self.scale[p], self.add[p]),
                false => elements.add(self.add[p]).mul(self.scale[p]),
            }
        }
    }
}

/// Bytes ahead of those that are read that are asked for: nobody else does so as soon as it pays.
const AHEAD: usize = 4096;

/// What is so many bytes further on, within a panel or at its end.
///
/// # Safety
/// It is.
#[inline(always)]
unsafe fn next(from: *const u8, bytes: usize) -> *const u8 {
    prefetch(from.wrapping_add(AHEAD).cast());
    // SAFETY: the caller's promise.
    unsafe { from.add(bytes) }
}

impl Product<'_> {
    /// B, if it is compressed.
    pub(super) fn compressed(&self) -> Option<Stored<'_>> {
        match &self.b {
            Right::Compressed(matrix) => Some(Stored::Plain(matrix)),
            Right::CompressedPanels(panels) => Some(Stored::Panels(panels)),
            _ => None,
        }
    }

    /// Computes one tile of C with a compressed B.
    pub(super) fn decoded(&self, tile: Tile, b: Stored<'_>, scratch: &mut [f32], c: Slice<f32>) {
        let (_, width) = micro::shape();
        let (room, widened) = scratch.split_at_mut(b.panel_room());
        let firsts = (tile.columns.0..tile.columns.1).step_by(width);
        if let (true, Left::Rows { values, stride }) = (tile.is_thin, self.a) {
            for first in firsts {
                let panel = b.panel(first, room);
                // SAFETY: the columns are this tile's own.
                unsafe { self.few_rows(tile, (first, panel), values, stride, c) };
            }
            // SAFETY: within C and within this tile.
            return unsafe {
                finish(
                    self.steps,
                    tile.rows.0..tile.rows.1,
                    tile.columns.0..tile.columns.1,
                    self.c_stride,
                    c,
                )
            };
        }
        for (first, to) in firsts.zip(widened.chunks_exact_mut((width * self.k).max(1))) {
            b.panel(first, room).widen(to);
        }
        self.blocks(tile, (widened, &[]), c);
    }

    /// The sums of all rows of a tile for the columns of a panel.
    ///
    /// # Safety
    /// While this runs nobody else touches these elements of C.
    unsafe fn few_rows(
        &self,
        tile: Tile,
        (first, panel): (usize, Panel<'_>),
        a: &[f32],
        stride: usize,
        c: Slice<f32>,
    ) {
        let columns = (tile.columns.1 - first).min(panel.form.width);
        let mut sums = [[0f32; WIDTH]; TOGETHER];
        for row in (tile.rows.0..tile.rows.1).step_by(together()) {
            let rows = (tile.rows.1 - row).min(together());
            panel.multiply(&a[row * stride..], stride, &mut sums[..rows]);
            for (i, sums) in sums[..rows].iter().enumerate() {
                // SAFETY: `check` has shown that it is within C, and the caller's promise.
                let to = unsafe {
                    std::slice::from_raw_parts_mut(c.at((row + i) * self.c_stride + first), columns)
                };
                to.copy_from_slice(&sums[..columns]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Compressed, CompressedPanels, Factors, Packed, Precision, Step};
    use super::*;
    use crate::lines::Shelf;
    use crate::memory::ScratchPool;
    use crate::num::f16;
    use crate::par::Threads;

    fn numbers(len: usize, modulus: usize) -> Vec<f32> {
        (0..len).map(|i| ((i * 7919 + 13) % modulus) as f32 / 16.0 - 2.0).collect()
    }

    /// A matrix as it is stored, and what its elements are.
    struct Matrix {
        bytes: Vec<u8>,
        scales: Vec<f32>,
        zeros: Vec<f32>,
        values: Vec<f32>,
    }

    const CODES: [Code; 5] = [Code::F16, Code::U8, Code::I8, Code::U4, Code::I4];

    fn matrix(code: Code, by_rows: bool, (k, n): (usize, usize), group: usize) -> Matrix {
        let groups = k / group;
        // Products with those in f32 are rounded, with those in f16 not.
        let scale = |i: usize| 0.013 + (i % 11) as f32 * 0.003;
        let rounded = |x: f32| if by_rows { f16::from_f32(x).to_f32() } else { x };
        let scales: Vec<f32> = (0..n * groups).map(|i| rounded(scale(i))).collect();
        let integer = |i: usize| ((i * 2_654_435_761) >> 7) as u8;
        let value = |byte: u8| match code {
            Code::U8 => f32::from(byte),
            Code::I8 => f32::from(byte as i8),
            Code::U4 => f32::from(byte & 15),
            _ => f32::from((byte << 4) as i8 >> 4),
        };
        let zeros: Vec<f32> = (0..n * groups).map(|i| value(integer(i + 77))).collect();
        let at = |p: usize, j: usize| if by_rows { p * n + j } else { j * k + p };
        let half = |i: usize| f16::from_f32((i % 37) as f32 * 0.37 - 5.0);
        let mut values = vec![0.0; k * n];
        for (p, j) in (0..k).flat_map(|p| (0..n).map(move |j| (p, j))) {
            let factor = j * groups + p / group;
            values[p * n + j] = match code {
                Code::F16 => half(at(p, j)).to_f32(),
                _ => (value(integer(at(p, j))) - zeros[factor]) * scales[factor],
            };
        }
        let bytes = match code {
            Code::F16 => (0..k * n).flat_map(|i| half(i).to_bits().to_le_bytes()).collect(),
            Code::U8 | Code::I8 => (0..k * n).map(integer).collect(),
            _ => (0..k * n / 2).map(|i| integer(2 * i) & 15 | integer(2 * i + 1) << 4).collect(),
        };
        Matrix { bytes, scales, zeros, values }
    }

    impl Matrix {
        fn stored(
            &self,
            code: Code,
            by_rows: bool,
            size: (usize, usize),
            group: usize,
        ) -> Compressed<'_> {
            let groups = size.0 / group;
            let factors = |values| Factors { values, column: groups, group: 1 };
            let (scales, zeros) = (factors(&self.scales), Some(factors(&self.zeros)));
            Compressed { bytes: &self.bytes, code, by_rows, size, group, scales, zeros }
        }
    }

    /// Bit for bit the products with what the elements stand for, for few rows and many, laid out
    /// before or not.
    #[test]
    fn compressed_products_are_chains() {
        let threads = Threads::new(2);
        let cases = [
            (1, 70, 128, 32),
            (3, 32, 64, 64),
            (4, 16, 66, 66),
            (7, 98, 192, 64),
            (40, 70, 128, 32),
            (2, 8, 0, 2),
            (1, 600, 320, 64),
        ];
        for ((m, n, k, group), code) in cases.into_iter().flat_map(|case| CODES.map(|c| (case, c)))
        {
            for by_rows in [false, true] {
                let of = matrix(code, by_rows, (k, n), group);
                let stored = of.stored(code, by_rows, (k, n), group);
                let panels = CompressedPanels::new((&threads, Shelf::apart()), &stored);
                let packed = Packed::decompressed((&threads, Shelf::apart()), &stored);
                let (a, bias) = (numbers(m * k, 101), numbers(n, 53));
                let steps = [Step::AddColumns(&bias)];
                let rights = [
                    Right::Compressed(stored),
                    Right::CompressedPanels(&panels),
                    Right::Packed(&packed),
                ];
                for b in rights {
                    let a_rows = Left::Rows { values: &a, stride: k };
                    let precision = Precision::F32;
                    let product =
                        Product { m, n, k, a: a_rows, b, c_stride: n, precision, steps: &steps };
                    let mut c = vec![f32::NAN; m * n];
                    product.run(&threads, &ScratchPool::default(), &mut c);
                    for (at, found) in c.iter().enumerate() {
                        let (i, j) = (at / n, at % n);
                        let chain =
                            |s: f32, p: usize| a[i * k + p].mul_add(of.values[p * n + j], s);
                        let expected = (0..k).fold(0.0, chain) + bias[j];
                        assert_eq!(*found, expected, "{code:?} {by_rows} {m} {n} {k} at {i} {j}");
                    }
                }
            }
        }
    }

    /// An odd number of terms, of which the last has none beside it.
    #[test]
    fn rows_of_nibbles_can_be_odd() {
        let (n, k) = (34, 7);
        let of = matrix(Code::U4, true, (k, n), k);
        let stored = of.stored(Code::U4, true, (k, n), k);
        let a = numbers(k, 41);
        let a_rows = Left::Rows { values: &a, stride: k };
        let b = Right::Compressed(stored);
        let (m, precision) = (1, Precision::F32);
        let product = Product { m, n, k, a: a_rows, b, c_stride: n, precision, steps: &[] };
        let mut c = vec![f32::NAN; n];
        product.run(&Threads::new(1), &ScratchPool::default(), &mut c);
        for (j, found) in c.iter().enumerate() {
            let expected = (0..k).fold(0f32, |s, p| a[p].mul_add(of.values[p * n + j], s));
            assert_eq!(*found, expected, "column {j}");
        }
    }
}
