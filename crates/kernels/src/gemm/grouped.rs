//! Grouped GEMM: the same few rows times several matrices, as one job. For the queries, keys and
//! values of one token, waking the threads takes nearly as long as the GEMMs.

use super::microkernel::args::nr;
use super::output::SharedTarget;
use super::post_ops::multiply;
use super::precision::Precision;
use super::problem::{Gemm, Lhs};
use super::tiling::{Span, Tile, tiles_per_thread};
use super::tuning::{GRAIN, MEMORY_BOUND_ROWS};
use crate::base::par::Slice;
use crate::base::workers::Workers;

/// Whether GEMMs of this many rows can be grouped.
pub fn can_group(rows: usize, precision: Precision) -> bool {
    rows <= MEMORY_BOUND_ROWS && precision == Precision::F32
}

/// One GEMM of a group.
pub struct GroupedGemm<'a> {
    /// The GEMM.
    pub gemm: Gemm<'a>,
    /// An earlier GEMM of the group, with a result of the same size. This result is multiplied by
    /// that one, after the post-ops.
    pub factor: Option<usize>,
}

/// Computes each GEMM into the output of the same index.
///
/// # Panics
/// When a slice is too short; unless [`can_group`] holds for each GEMM, its A is [`Lhs::Rows`], and
/// its B is packed or multiplied as it is; when a `factor` is not an earlier GEMM or its result has
/// another size.
pub fn run_grouped(
    Workers { threads, scratch }: Workers<'_>,
    members: &[GroupedGemm<'_>],
    outputs: &mut [&mut [f32]],
) {
    assert_eq!(members.len(), outputs.len());
    for (i, (GroupedGemm { gemm, factor }, c)) in members.iter().zip(&*outputs).enumerate() {
        gemm.check(c.len());
        let size = |p: &Gemm<'_>| (p.m, p.n, p.c_stride);
        let fits = |of: usize| of < i && size(&members[of].gemm) == size(gemm);
        assert!(factor.is_none_or(fits), "a factor is an earlier result of the same size");
        let has_rows = matches!(gemm.a, Lhs::Rows { .. });
        assert!(can_group(gemm.m, gemm.precision) && has_rows, "a GEMM cannot be grouped");
        assert!(gemm.panels().is_some() || gemm.is_small_m(), "B would be packed for each part");
    }
    let outputs: Vec<Slice<f32>> = outputs.iter_mut().map(|c| Slice::new(c)).collect();
    let work: usize = members.iter().map(|member| member.gemm.work()).sum();
    let rows = members.iter().map(|m| m.gemm.m).max().unwrap_or_default();
    let parts = if work <= GRAIN { 1 } else { threads.count() * tiles_per_thread(rows) };
    let lens = members
        .iter()
        .filter_map(|m| Some(m.gemm.compressed()?.scratch_len(0, true, Precision::F32)));
    let scratch_len = lens.max().unwrap_or_default();
    let mut space = scratch.take::<f32>(scratch_len * threads.count());
    let shared = Slice::new(&mut space);
    threads.run(parts, &|part, worker| {
        // SAFETY: no two threads are the same worker at a time.
        let space = unsafe { shared.part(worker * scratch_len, scratch_len) };
        for (i, (GroupedGemm { gemm, factor }, c)) in members.iter().zip(&outputs).enumerate() {
            let own = columns(gemm, part, parts);
            if gemm.m == 0 || own.len() == 0 {
                continue;
            }
            let next = members.get(i + 1).map(|next| &next.gemm);
            let later = next.and_then(|next| next.panels_at(columns(next, part, parts).start));
            let rows = Span { start: 0, end: gemm.m };
            let tile = Tile { rows, columns: own, is_small_m: gemm.is_small_m() };
            let to = SharedTarget::F32(*c);
            gemm.compute_tile(tile, later.unwrap_or_default(), space, to);
            if let Some(of) = factor {
                for row in 0..gemm.m {
                    let at = row * gemm.c_stride + own.start;
                    // SAFETY: both results have these elements, and these columns of both are this
                    // part's.
                    let (c, factors) =
                        unsafe { (c.part(at, own.len()), outputs[*of].part(at, own.len())) };
                    multiply(c, factors);
                }
            }
        }
    });
}

/// The columns of a part, in whole panels.
fn columns(gemm: &Gemm<'_>, part: usize, parts: usize) -> Span {
    let width = nr();
    let panels = gemm.n.div_ceil(width);
    let at = |part: usize| (panels * part / parts * width).min(gemm.n);
    Span { start: at(part), end: at(part + 1) }
}
