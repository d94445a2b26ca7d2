//! What requantization does to the lanes of some rows, one operation after the other.

use crate::base::simd::{Integral, Vector};
use crate::gemm::{Activation, Operand, PostOp};
use crate::math::exponential::{Exponential, Function as _};
use crate::math::quantize::{ColumnQuantizers, Quantizer, Quantizers, clamp_quantized, whole};
use crate::math::unary::Unary;

/// Replaces each vector of rows by an expression. A function would take a closure, which the
/// compiler may not inline, and which then lacks the instruction set.
macro_rules! each {
    ($x:ident, $i:ident, $p:ident => $value:expr) => {
        for $i in 0..$x.len() {
            for $p in 0..$x[$i].len() {
                $x[$i][$p] = $value;
            }
        }
    };
}

pub(super) use each;

/// The number of columns of a panel; all of them if `WHOLE`.
#[derive(Clone, Copy)]
pub(super) struct Reach<const WHOLE: bool> {
    pub(super) columns: usize,
}

impl<const WHOLE: bool> Reach<WHOLE> {
    /// Lanes of vector `p` that are columns.
    #[inline(always)]
    fn lanes<V: Vector>(self, p: usize) -> usize {
        self.columns.saturating_sub(p * V::LANES).min(V::LANES)
    }

    /// Whether all lanes of vector `p` are columns, if all have to be.
    #[inline(always)]
    fn is_whole<V: Vector>(self, p: usize) -> bool {
        !WHOLE || self.lanes::<V>(p) == V::LANES
    }

    /// Vector `p` of a row; lanes past the columns are 0.
    ///
    /// # Safety
    /// The instruction set of `V` is available, and the row is valid memory.
    #[inline(always)]
    pub(super) unsafe fn load<V: Vector>(self, row: *const f32, p: usize) -> V {
        debug_assert!(self.is_whole::<V>(p));
        let from = row.wrapping_add(p * V::LANES);
        // SAFETY: the caller's promise.
        unsafe { if WHOLE { V::load(from) } else { V::load_masked(from, self.lanes::<V>(p)) } }
    }

    /// # Safety
    /// As [`Self::load`].
    #[inline(always)]
    pub(super) unsafe fn store<V: Vector>(self, x: V, row: *mut f32, p: usize) {
        debug_assert!(self.is_whole::<V>(p));
        let to = row.wrapping_add(p * V::LANES);
        // SAFETY: the caller's promise.
        unsafe { if WHOLE { x.store(to) } else { x.store_masked(to, self.lanes::<V>(p)) } }
    }

    /// As [`Self::load`], for bytes.
    ///
    /// # Safety
    /// As [`Self::load`].
    #[inline(always)]
    pub(super) unsafe fn load_bytes<V: Integral>(self, row: *const u8, p: usize) -> V {
        debug_assert!(self.is_whole::<V>(p));
        let from = row.wrapping_add(p * V::LANES);
        // SAFETY: the caller's promise.
        unsafe {
            if WHOLE { V::load_bytes(from) } else { V::load_masked_bytes(from, self.lanes::<V>(p)) }
        }
    }

    /// Stores all vectors of a row as bytes.
    ///
    /// # Safety
    /// As [`Self::load`].
    #[inline(always)]
    pub(super) unsafe fn store_bytes<V: Integral, const P: usize>(self, x: [V; P], row: *mut u8) {
        debug_assert!(self.is_whole::<V>(P - 1));
        // SAFETY: the caller's promise.
        unsafe {
            if WHOLE {
                return V::store_all_bytes(x, row);
            }
            for p in 0..P {
                x[p].store_masked_bytes(row.wrapping_add(p * V::LANES), self.lanes::<V>(p));
            }
        }
    }
}

/// An operation on the lanes of a row.
#[derive(Clone, Copy)]
pub(super) enum LaneOp<'a> {
    /// An addition or a multiplication. Its operands begin at the first column of the panel.
    PostOp(PostOp<'a>),
    Activation(Activation),
    Exponential(Exponential),
    /// A function that is called on whole rows, between the operations in registers.
    Call(Unary),
    /// Scales to quantized values, without rounding.
    Scale(Quantizer),
    /// Scales each column by its own quantizer, without rounding.
    ScaleColumns(ColumnQuantizers<'a>),
    /// Rounds to quantized values.
    Round,
    /// `q · scale + low`, rounded once.
    Dequantize {
        scale: f32,
        low: f32,
    },
    /// The same with parameters for each column of the panel.
    DequantizeColumns {
        scale: &'a [f32],
        low: &'a [f32],
    },
}

/// Whether requantization applies a function in registers; others are called on whole rows.
pub fn stays_in_registers(function: Unary) -> bool {
    Activation::of(function).is_some() || Exponential::of(function).is_some()
}

impl<'a> LaneOp<'a> {
    /// Appends a post-op for `rows` rows of `columns` columns, from column `first` on. `None` if an
    /// operand is too small, or for a division, which only the scalar path does.
    pub(super) fn append(
        all: &mut Vec<LaneOp<'a>>,
        op: PostOp<'a>,
        (first, columns): (usize, usize),
        rows: usize,
    ) -> Option<()> {
        if !op.reaches(rows, first + columns) {
            return None;
        }
        let last = match op {
            PostOp::Quantize { to, scale, low } => {
                LaneOp::quantize(all, Quantizers::Uniform(to), (first, columns))?;
                all.push(LaneOp::Round);
                LaneOp::Dequantize { scale, low }
            }
            PostOp::QuantizeColumns(quantizers) => {
                let [_, _, scale, low] = quantizers.some(first, columns)?.parts;
                LaneOp::quantize(all, Quantizers::Columns(quantizers), (first, columns))?;
                all.push(LaneOp::Round);
                LaneOp::DequantizeColumns { scale, low }
            }
            PostOp::Apply(function) => {
                match (Activation::of(function), Exponential::of(function)) {
                    (Some(activation), _) => LaneOp::Activation(activation),
                    (None, Some(function)) => LaneOp::Exponential(function),
                    (None, None) => LaneOp::Call(function),
                }
            }
            PostOp::Divide(_) => return None,
            PostOp::Add(_) | PostOp::Multiply(_) | PostOp::AddQuantized { .. } => {
                LaneOp::PostOp(op.from_column(first))
            }
        };
        all.push(last);
        Some(())
    }

    /// Appends the scaling to quantized values. It replaces an activation that only clamps what the
    /// scaling clamps anyway.
    pub(super) fn quantize(
        all: &mut Vec<LaneOp<'a>>,
        quantizers: Quantizers<'a>,
        (first, columns): (usize, usize),
    ) -> Option<()> {
        let scale = match quantizers {
            Quantizers::Uniform(to) => LaneOp::Scale(to),
            Quantizers::Columns(all) => LaneOp::ScaleColumns(all.some(first, columns)?),
        };
        let clamped = match all.last() {
            Some(LaneOp::Activation(Activation::Relu)) => Some((0.0, f32::INFINITY)),
            Some(LaneOp::Activation(Activation::Clamp(low, high))) => Some((*low, *high)),
            _ => None,
        };
        let clamps = clamped.is_some_and(|(low, high)| match scale {
            LaneOp::Scale(to) => to.clamps(low, high),
            LaneOp::ScaleColumns(columns) => columns.clamps(low, high),
            _ => false,
        });
        if clamps {
            all.pop();
        }
        all.push(scale);
        Some(())
    }

    /// Whether the operands have these rows and columns.
    fn reaches(&self, rows: usize, columns: usize) -> bool {
        match self {
            LaneOp::PostOp(op) => op.reaches(rows, columns),
            LaneOp::ScaleColumns(of) => of.columns() >= columns,
            LaneOp::DequantizeColumns { scale, low } => scale.len().min(low.len()) >= columns,
            _ => true,
        }
    }

    /// Applies the operation to `R` rows.
    ///
    /// # Safety
    /// The instruction set of `V` is available; matrix operands have been checked to have the rows.
    #[inline(always)]
    pub(super) unsafe fn apply<V: Integral, const R: usize, const P: usize, const WHOLE: bool>(
        self,
        row: usize,
        reach: Reach<WHOLE>,
        x: &mut [[V; P]; R],
    ) {
        debug_assert!(self.reaches(row + R, reach.columns));
        // SAFETY: the caller's promise; operands, by column or matrix, cover the panel.
        unsafe {
            // Adding -0.0 to a product leaves its bits unchanged.
            let nothing = V::splat(-0.0);
            let lane = |v: *const f32, p: usize| reach.load::<V>(v, p);
            match self {
                LaneOp::PostOp(PostOp::Add(Operand::Columns(v))) => {
                    each!(x, i, p => x[i][p].add(lane(v.as_ptr(), p)));
                }
                LaneOp::PostOp(PostOp::Multiply(Operand::Columns(v))) => {
                    each!(x, i, p => x[i][p].fma(lane(v.as_ptr(), p), nothing));
                }
                LaneOp::PostOp(PostOp::Add(Operand::Number(v))) => {
                    each!(x, i, p => x[i][p].add(V::splat(v)));
                }
                LaneOp::PostOp(PostOp::Multiply(Operand::Number(v))) => {
                    each!(x, i, p => x[i][p].fma(V::splat(v), nothing));
                }
                LaneOp::PostOp(PostOp::Add(Operand::Matrix(v))) => {
                    let at = |i: usize| v.values.as_ptr().add((row + i) * v.stride);
                    each!(x, i, p => x[i][p].add(lane(at(i), p)));
                }
                LaneOp::PostOp(PostOp::Multiply(Operand::Matrix(v))) => {
                    let at = |i: usize| v.values.as_ptr().add((row + i) * v.stride);
                    each!(x, i, p => x[i][p].fma(lane(at(i), p), nothing));
                }
                LaneOp::PostOp(PostOp::AddQuantized { values: v, scale, low }) => {
                    let (scale, low) = (V::splat(scale), V::splat(low));
                    let q = |i: usize, p: usize| {
                        reach.load_bytes::<V>(v.values.as_ptr().add((row + i) * v.stride), p)
                    };
                    each!(x, i, p => x[i][p].add(q(i, p).fma(scale, low)));
                }
                // A panic here, in each instance of the loops, would cost kilobytes of code.
                LaneOp::PostOp(_) | LaneOp::Call(_) if !cfg!(debug_assertions) => {}
                LaneOp::PostOp(_) | LaneOp::Call(_) => {
                    unreachable!("`append` makes no such post-op, and calls are made on whole rows")
                }
                LaneOp::Activation(activation) => activation.apply(x),
                LaneOp::Exponential(Exponential::Swish(swish)) => {
                    each!(x, i, p => swish.apply(x[i][p]))
                }
                LaneOp::Exponential(Exponential::Elu(elu)) => each!(x, i, p => elu.apply(x[i][p])),
                LaneOp::Scale(to) if to.is_of_whole_numbers() => {
                    each!(x, i, p => clamp_quantized(x[i][p], to.most));
                }
                LaneOp::Scale(to) => each!(x, i, p => to.scaled(x[i][p])),
                LaneOp::ScaleColumns(ColumnQuantizers { parts: [add, factor, ..], most }) => {
                    for p in 0..P {
                        let (add, factor) = (lane(add.as_ptr(), p), lane(factor.as_ptr(), p));
                        for i in 0..R {
                            x[i][p] = clamp_quantized(x[i][p].add(add).fma(factor, nothing), most);
                        }
                    }
                }
                LaneOp::Round => each!(x, i, p => whole(x[i][p])),
                LaneOp::Dequantize { scale, low } => {
                    let (scale, low) = (V::splat(scale), V::splat(low));
                    each!(x, i, p => x[i][p].fma(scale, low));
                }
                LaneOp::DequantizeColumns { scale, low } => {
                    each!(x, i, p => x[i][p].fma(lane(scale.as_ptr(), p), lane(low.as_ptr(), p)));
                }
            }
        }
    }
}
