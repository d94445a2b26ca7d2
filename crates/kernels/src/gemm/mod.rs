//! Matrix products in f32, of operands that may be rounded to bf16 first ([`Precision`]).
//!
//! Every element of the result is one chain of fused multiply-adds along k, from 0, whatever the
//! instruction set, the blocking, the number of rows or of threads: nothing is blocked along k,
//! and rows and columns are computed independently.

#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
mod dequant;
mod driver;
mod gemv;
mod grouped;
mod im2col;
mod microkernel;
mod naive;
mod output;
mod pack;
mod post_ops;
mod precision;
mod prefetch;
mod small_m;
mod source;
mod tiling;

#[cfg(target_arch = "x86_64")]
pub(crate) use amx::kernel::has_tiles;
pub use dequant::pack::{Code, Compressed, CompressedPanels, Factors};
pub use grouped::{Member, are_few, run_together};
pub use im2col::{Place, Window, Windows};
pub use naive::plain;
pub use output::Target;
pub(crate) use output::{Out, pairs};
pub use pack::b::{Layout, Packed, pack_into, panels_len};
pub(crate) use pack::bf16::round_all;
pub(crate) use post_ops::{Absorbed, add, add_number, apply_to_rows, finish};
pub use post_ops::{Step, apply_steps, are_absorbed};
pub use precision::Precision;

use crate::base::num::UnalignedF32;
use crate::base::par::{Slice, Threads};
use crate::base::scratch::ScratchPool;
pub(crate) use microkernel::{most_rows, store};
use output::SharedTarget;
use pack::b::pack_panel;
use tiling::{GRAIN, Tile, Tiles};

/// Up to this many rows, a B that is packed for later products is not worth it.
pub const FEW_ROWS: usize = 3;

/// Elements of a panel from which on its own lines are asked for where no more rows follow, or while the
/// first of some are multiplied if it is twice as long: as many of a later one would drive out of the
/// cache what is in use.
const LONG_PANEL: usize = 1 << 16;

/// Elements of C from which on it is not in the cache of a thread when it is written.
const LARGE_OUTPUT: usize = 1 << 17;

/// Up to this many rows, a B that is used once is read where it lies instead of being packed.
pub const THIN_ROWS: usize = 8;

/// The operand B.
#[derive(Clone, Copy, Debug)]
pub enum Right<'a> {
    /// Packed before, for a matrix that is used again and again.
    Packed(&'a Packed),
    /// Packed by [`pack_into`]. What lies behind is asked for before the product ends, since it may be
    /// the B of the next one.
    Panels(&'a [f32]),
    /// As it lies in memory.
    Plain(&'a [UnalignedF32], Layout),
    /// As it is stored, in fewer bits.
    Compressed(Compressed<'a>),
    /// The same in panels.
    CompressedPanels(&'a CompressedPanels),
}

/// The operand A.
#[derive(Clone, Copy, Debug)]
pub enum Left<'a> {
    /// Rows of `k` elements.
    Rows {
        /// The matrix.
        values: &'a [f32],
        /// Distance between its rows.
        stride: usize,
    },
    /// Rows of `k` elements, each multiplied by a factor of its column before it is used.
    Scaled {
        /// The matrix.
        values: &'a [f32],
        /// Distance between its rows.
        stride: usize,
        /// For each group of rows a factor for each column.
        factors: &'a [f32],
        /// Rows of a group.
        rows: usize,
    },
    /// Matrices side by side, of as many columns, without gaps between their rows.
    Beside {
        /// The matrix whose columns come first.
        first: &'a [f32],
        /// Those that follow.
        others: &'a [&'a [f32]],
        /// Columns of each.
        columns: usize,
    },
    /// Rows that consist of runs of `run` elements, which lie anywhere.
    Runs {
        /// Where the runs lie.
        values: &'a [f32],
        /// For each row in turn its runs, as multiples of `run`.
        runs: &'a [u32],
        /// Elements of a run; it divides `k`.
        run: usize,
    },
    /// Row `i` is the window that output `i` of a convolution looks through.
    Windows(&'a Windows<'a>),
    /// Elements that have been rounded to bf16, in pairs: all that is counted in elements is
    /// counted in pairs.
    Rounded(&'a Left<'a>),
}

/// One product: `c = a b`, with `m` rows, `n` columns and `k` terms.
#[derive(Clone, Copy, Debug)]
pub struct Product<'a> {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A and rows of B.
    pub k: usize,
    /// A.
    pub a: Left<'a>,
    /// B.
    pub b: Right<'a>,
    /// Distance between rows of C.
    pub c_stride: usize,
    /// What the operands are rounded to.
    pub precision: Precision,
    /// What is done to each element of C.
    pub steps: &'a [Step<'a>],
}

impl Product<'_> {
    /// Computes the product.
    ///
    /// # Panics
    /// When a slice is too short.
    pub fn run(&self, threads: &Threads, scratch: &ScratchPool, c: &mut [f32]) {
        self.run_to(threads, scratch, Target::Values(c));
    }

    /// Computes the product, and rounds its elements if they are wanted so.
    ///
    /// # Panics
    /// When a slice is too short. Only for products whose [`Precision::keeps_pairs`], and whose steps
    /// [`are_absorbed`], elements can be rounded.
    pub fn run_to(&self, threads: &Threads, scratch: &ScratchPool, mut c: Target<'_>) {
        self.check(c.len());
        let can_round = self.precision.keeps_pairs() && are_absorbed(self.steps);
        assert!(can_round || matches!(c, Target::Values(_)), "elements are not rounded here");
        if self.m == 0 || self.n == 0 {
            return;
        }
        let tiles = Tiles::new(self, threads.count());
        let across = tiles.across();
        let c = c.shared();
        let run = |product: &Product<'_>| product.run_tiles(threads, scratch, tiles, c);
        match self.rounds_first(across) {
            true => self.round_first(threads, scratch, run),
            false => run(self),
        }
    }

    fn run_tiles(&self, threads: &Threads, scratch: &ScratchPool, tiles: Tiles, c: SharedTarget) {
        let room = tiles.room(self);
        let mut packed = scratch.take::<f32>(room * threads.count());
        let shared = Slice::new(&mut packed);
        threads.run(tiles.count(), &|tile, worker| {
            // SAFETY: no two threads are the same worker at a time.
            let own = unsafe { std::slice::from_raw_parts_mut(shared.at(worker * room), room) };
            self.tile((tiles.get(tile), tiles.get(tile + 1)), own, c);
        });
    }

    /// Computes the product on the calling thread.
    ///
    /// # Panics
    /// When a slice is too short; `scratch` holds [`Self::scratch_len`] elements.
    pub fn run_alone(&self, scratch: &mut [f32], c: &mut [f32]) {
        let len = c.len();
        // SAFETY: C is borrowed exclusively.
        unsafe { self.run_at(scratch, Slice::new(c), len) }
    }

    /// As [`Self::run_alone`], for a C that shares its memory with other products.
    ///
    /// # Safety
    /// C has `len` elements, and while this runs nobody else touches its rows.
    pub(crate) unsafe fn run_at(&self, scratch: &mut [f32], c: Slice<f32>, len: usize) {
        self.check(len);
        let tiles = Tiles::new(self, 1);
        for tile in 0..tiles.count() {
            self.tile((tiles.get(tile), tiles.get(tile + 1)), scratch, SharedTarget::Values(c));
        }
    }

    /// Elements of scratch memory that [`Self::run_alone`] needs.
    pub fn scratch_len(&self) -> usize {
        Tiles::new(self, 1).room(self)
    }

    fn check(&self, c: usize) {
        let Product { m, n, k, precision, .. } = *self;
        let (a, a_k) = self.left();
        let reach = |rows: usize, columns: usize, stride: usize| match rows * columns {
            0 => 0,
            _ => (rows - 1) * stride + columns,
        };
        match a {
            Left::Rows { values, stride } => {
                assert!(values.len() >= reach(m, a_k, stride), "A is too short");
            }
            Left::Scaled { values, stride, factors, rows } => {
                assert!(values.len() >= reach(m, k, stride), "A is too short");
                assert!(factors.len() >= m.div_ceil(rows.max(1)) * k, "there are too few factors");
            }
            Left::Beside { first, others, columns } => {
                assert!((others.len() + 1) * columns == a_k, "A has other columns");
                let all = [first].into_iter().chain(others.iter().copied());
                all.for_each(|part| assert!(part.len() >= m * columns, "A is too short"));
            }
            Left::Runs { values, runs, run } => {
                assert!(runs.len() * run == m * a_k && a_k % run == 0, "the runs differ from A");
                let last = runs.iter().max().map_or(0, |r| (*r as usize + 1) * run);
                assert!(last <= values.len(), "A is too short");
            }
            Left::Windows(windows) => windows.check(m, a_k),
            Left::Rounded(_) => panic!("A is rounded twice"),
        }
        assert!(c >= reach(m, n, self.c_stride) && (m < 2 || self.c_stride >= n), "C is too short");
        match self.b {
            Right::Packed(packed) => assert!(packed.is(k, n, precision), "B differs"),
            Right::Panels(panels) => {
                assert!(panels.len() >= panels_len(k, n, precision), "B is too short");
            }
            Right::Plain(b, layout) => assert!(b.len() >= layout.reach(k, n), "B is too short"),
            Right::Compressed(matrix) => {
                assert!(matrix.size == (k, n), "B differs");
                matrix.check();
            }
            Right::CompressedPanels(panels) => assert!(panels.is(k, n), "B differs"),
        }
        if m * n > 0 {
            Absorbed::of(self.steps).0.check(m, n);
        }
    }

    /// Whether rows are so few that B is read where it lies, or decompressed for some of them at a time.
    fn is_thin(&self) -> bool {
        let most = match self.b {
            Right::Compressed(_) | Right::CompressedPanels(_) => dequant::kernel::thin_rows(),
            Right::Plain(_, Layout::Rows { .. } | Layout::Columns { .. }) => THIN_ROWS,
            _ => return false,
        };
        let are_rows = matches!(self.a, Left::Rows { .. });
        self.m <= most && self.precision == Precision::F32 && are_rows
    }

    /// The panels of B from the one of a column on, if it has been packed.
    fn panels_at(&self, column: usize) -> Option<&[f32]> {
        let (_, width) = microkernel::shape();
        self.panels()?.get(column / width * width * self.precision.rows(self.k)..)
    }

    /// Computes one tile of C, and asks for the B of a tile that comes later.
    fn tile(&self, (tile, later): (Tile, Tile), scratch: &mut [f32], c: SharedTarget) {
        let is_other = later.columns.0 != tile.columns.0 || self.precision.has_tiles();
        let later = self.panels_at(later.columns.0).filter(|_| is_other);
        self.compute(tile, later.unwrap_or_default(), scratch, c);
    }

    /// Computes one tile of C, and asks for panels that are read later.
    fn compute(&self, tile: Tile, later: &[f32], scratch: &mut [f32], c: SharedTarget) {
        if let Some(b) = self.compressed() {
            return self.decoded(tile, b, scratch, c);
        }
        if let (true, Left::Rows { values, stride }, Right::Plain(b, layout), Some(c)) =
            (tile.is_thin, self.a, self.b, c.values())
        {
            return small_m::tile(self, tile, (values, stride), (b, layout), c);
        }
        let (_, width) = microkernel::shape();
        let panel_len = width * self.precision.rows(self.k);
        let panels = match (self.panels_at(tile.columns.0), self.b) {
            (Some(panels), _) => panels,
            (None, Right::Plain(b, layout)) => {
                let first = tile.columns.0;
                let panels = (tile.columns.1 - first).div_ceil(width);
                for (i, to) in scratch.chunks_exact_mut(panel_len.max(1)).take(panels).enumerate() {
                    let size = (self.k, self.n);
                    pack_panel(b, layout, size, (first + i * width, width), self.precision, to);
                }
                scratch
            }
            (None, _) => &[],
        };
        #[cfg(target_arch = "x86_64")]
        if self.precision.has_tiles() {
            return self.blocks_of_tiles(tile, amx::kernel::Panels::Packed { panels, later }, c);
        }
        self.blocks(tile, (panels, later), c);
    }

    /// The panels of B, if it has been packed.
    fn panels(&self) -> Option<&[f32]> {
        match self.b {
            Right::Packed(packed) => Some(packed.panels()),
            Right::Panels(panels) => Some(panels),
            Right::Plain(..) | Right::Compressed(_) | Right::CompressedPanels(_) => None,
        }
    }

    /// Lanes of a row of A, and rows of a panel of B.
    fn lanes(&self) -> usize {
        self.precision.lanes(self.k)
    }

    /// A, and elements or pairs in its rows.
    fn left(&self) -> (Left<'_>, usize) {
        match self.a {
            Left::Rounded(a) => (*a, self.lanes()),
            a => (a, self.k),
        }
    }

    /// Elements for each that is counted of A.
    #[cfg(target_arch = "x86_64")]
    fn per_count(&self) -> usize {
        match self.a {
            Left::Rounded(_) => self.precision.per_lane(),
            _ => 1,
        }
    }

    /// Whether each row of A has elements of its own.
    fn reads_once(&self) -> bool {
        !matches!(self.left().0, Left::Windows(_) | Left::Runs { .. })
    }

    /// Runs of consecutive elements that a row of A consists of.
    fn runs(&self) -> usize {
        match self.left() {
            (Left::Rows { .. } | Left::Scaled { .. } | Left::Rounded(_), _) => 1,
            (Left::Beside { others, .. }, _) => others.len() + 1,
            (Left::Runs { run, .. }, k) => k / run.max(1),
            (Left::Windows(windows), _) => windows.runs(),
        }
    }
}

/// Computes many products, each on one thread: product `i` is `product(i)` and goes to the `i`-th
/// run of `len` elements of `c`.
///
/// # Panics
/// As [`Product::run`].
pub fn run_many<'a>(
    threads: &Threads,
    scratch: &ScratchPool,
    count: usize,
    product: impl Fn(usize) -> Product<'a> + Sync,
    c: &mut [f32],
) {
    let Some(len) = c.len().checked_div(count).filter(|len| *len > 0) else { return };
    let (room, work) = (product(0).scratch_len(), product(0).m * product(0).n * product(0).k);
    let mut space = scratch.take::<f32>(room * threads.count());
    let (space, c) = (Slice::new(&mut space), Slice::new(c));
    threads.ranges_with(count, (GRAIN / 4).div_ceil(work + 1), |range, worker| {
        for i in range {
            // SAFETY: no two threads are the same worker at a time, and products are disjoint
            // parts of C.
            unsafe {
                let space = std::slice::from_raw_parts_mut(space.at(worker * room), room);
                let c = std::slice::from_raw_parts_mut(c.at(i * len), len);
                product(i).run_alone(space, c);
            }
        }
    });
}

#[cfg(test)]
mod tests;
