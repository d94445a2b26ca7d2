//! Running a GEMM: which path it takes, and what each thread does.

#[cfg(target_arch = "x86_64")]
use super::amx;
use super::microkernel::args::nr;
use super::output::{SharedTarget, Target};
use super::pack::b::{PanelColumns, RhsSize, pack_panel};
use super::post_ops::are_absorbed;
use super::problem::{Gemm, Lhs, Rhs};
use super::small_m;
use super::tiling::{Tile, Tiles};
use super::tuning::GRAIN;
use crate::base::par::{Slice, Threads};
use crate::base::scratch::ScratchPool;

impl Gemm<'_> {
    /// Computes C.
    ///
    /// # Panics
    /// When a slice is too short.
    pub fn run(&self, threads: &Threads, scratch: &ScratchPool, c: &mut [f32]) {
        self.run_to(threads, scratch, Target::F32(c));
    }

    /// Computes C in f32 or bf16, as the target says.
    ///
    /// # Panics
    /// When a slice is too short; when the target is bf16, unless `Precision::keeps_pairs` holds
    /// and the post-ops [`are_absorbed`].
    pub fn run_to(&self, threads: &Threads, scratch: &ScratchPool, mut c: Target<'_>) {
        self.check(c.len());
        let can_be_bf16 = self.precision.keeps_pairs() && are_absorbed(self.post_ops);
        assert!(can_be_bf16 || matches!(c, Target::F32(_)), "the result cannot be bf16 here");
        if self.m == 0 || self.n == 0 {
            return;
        }
        if let Rhs::Dynamic(panels) = self.b {
            let Target::F32(c) = c else { panic!("the result cannot be bf16 here") };
            return self.run_quantized(threads, scratch, panels, Slice::new(c));
        }
        let tiles = Tiles::new(self, threads.count());
        let across = tiles.across();
        let c = c.shared();
        let run = |gemm: &Gemm<'_>| gemm.run_tiles(threads, scratch, tiles, c);
        if self.converts_a_first(across) {
            self.convert_a_first(threads, scratch, run);
        } else {
            run(self);
        }
    }

    fn run_tiles(&self, threads: &Threads, scratch: &ScratchPool, tiles: Tiles, c: SharedTarget) {
        let scratch_len = tiles.scratch_len(self);
        let mut packed = scratch.take::<f32>(scratch_len * threads.count());
        let shared = Slice::new(&mut packed);
        threads.run(tiles.count(), &|tile, worker| {
            // SAFETY: no two threads are the same worker at a time.
            let own = unsafe { shared.part(worker * scratch_len, scratch_len) };
            self.run_tile((tiles.get(tile), tiles.get(tile + 1)), own, c);
        });
    }

    /// Computes C on the calling thread.
    ///
    /// # Panics
    /// When a slice is too short; `scratch` needs [`Self::scratch_len`] elements.
    pub fn run_alone(&self, scratch: &mut [f32], c: &mut [f32]) {
        let len = c.len();
        // SAFETY: C is borrowed exclusively.
        unsafe { self.run_at(scratch, Slice::new(c), len) }
    }

    /// As [`Self::run_alone`], for a C that shares its memory with other GEMMs.
    ///
    /// # Safety
    /// C has `len` elements, and while this runs nobody else touches its rows.
    pub(crate) unsafe fn run_at(&self, scratch: &mut [f32], c: Slice<f32>, len: usize) {
        debug_assert!(len <= c.count());
        self.check(len);
        let tiles = Tiles::new(self, 1);
        for tile in 0..tiles.count() {
            self.run_tile((tiles.get(tile), tiles.get(tile + 1)), scratch, SharedTarget::F32(c));
        }
    }

    /// Elements of scratch memory that [`Self::run_alone`] needs.
    pub fn scratch_len(&self) -> usize {
        Tiles::new(self, 1).scratch_len(self)
    }

    /// Bytes of scratch memory that [`Self::run`] takes on this many threads. What an A takes that
    /// is first converted to bf16, or quantized for a [`Rhs::Dynamic`], is not counted.
    pub fn scratch_bytes(&self, threads: usize) -> usize {
        let scratch_len = Tiles::new(self, threads).scratch_len(self);
        scratch_len * threads * size_of::<f32>()
    }

    /// Computes one tile of C, and prefetches the B of a later tile.
    fn run_tile(&self, (tile, later): (Tile, Tile), scratch: &mut [f32], c: SharedTarget) {
        let is_other = later.columns.start != tile.columns.start || self.precision.has_tiles();
        let later = self.panels_at(later.columns.start).filter(|_| is_other);
        self.compute_tile(tile, later.unwrap_or_default(), scratch, c);
    }

    /// Computes one tile of C, and prefetches panels that are read later.
    pub(super) fn compute_tile(
        &self,
        tile: Tile,
        later: &[f32],
        scratch: &mut [f32],
        c: SharedTarget,
    ) {
        if let Some(b) = self.compressed() {
            return self.run_dequantized(tile, b, scratch, c);
        }
        if let (true, Lhs::Rows { values, stride }, Rhs::Unpacked(b, layout), Some(c)) =
            (tile.is_small_m, self.a, self.b, c.values())
        {
            return small_m::run_tile(self, tile, (values, stride), (b, layout), c);
        }
        let width = nr();
        let panel_len = width * self.precision.rows(self.k);
        let panels = match (self.panels_at(tile.columns.start), self.b) {
            (Some(panels), _) => panels,
            (None, Rhs::Unpacked(b, layout)) => {
                let first = tile.columns.start;
                let panels = (tile.columns.end - first).div_ceil(width);
                for (i, to) in scratch.chunks_exact_mut(panel_len.max(1)).take(panels).enumerate() {
                    let size = RhsSize { k: self.k, n: self.n };
                    let columns = PanelColumns { first: first + i * width, width };
                    pack_panel(b, layout, size, columns, self.precision, to);
                }
                scratch
            }
            (None, _) => &[],
        };
        #[cfg(target_arch = "x86_64")]
        if self.precision.has_tiles() {
            return self.run_amx_blocks(tile, amx::driver::Panels::Packed { panels, later }, c);
        }
        self.run_blocks(tile, (panels, later), c);
    }
}

/// Computes many GEMMs, each on one thread. GEMM `i` is `gemm(i)`; its C is the `i`-th run of `len`
/// elements of `c`.
///
/// # Panics
/// As [`Gemm::run`].
pub fn run_many<'a>(
    threads: &Threads,
    scratch: &ScratchPool,
    count: usize,
    gemm: impl Fn(usize) -> Gemm<'a> + Sync,
    c: &mut [f32],
) {
    let Some(len) = c.len().checked_div(count).filter(|len| *len > 0) else { return };
    let (scratch_len, work) = (gemm(0).scratch_len(), gemm(0).m * gemm(0).n * gemm(0).k);
    let mut space = scratch.take::<f32>(scratch_len * threads.count());
    let (space, c) = (Slice::new(&mut space), Slice::new(c));
    threads.par_ranges_with(count, (GRAIN / 4).div_ceil(work + 1), |range, worker| {
        for i in range {
            // SAFETY: no two threads are the same worker at a time, and the GEMMs write disjoint
            // parts of C.
            unsafe {
                gemm(i)
                    .run_alone(space.part(worker * scratch_len, scratch_len), c.part(i * len, len));
            }
        }
    });
}
