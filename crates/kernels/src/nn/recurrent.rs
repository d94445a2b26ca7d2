//! Recurrent networks. The GEMMs of the data run for all steps at once, then those of the hidden
//! state step by step. Directions and, if there are several, sequences are independent and run on
//! different threads.

use crate::base::num::Pod;
use crate::base::par::{Slice, Threads};
use crate::base::scratch::{InOut, ScratchPool};
use crate::base::workers::Workers;
use crate::gemm::{Gemm, GemmSize, Lhs, Precision, Rhs, plain};
use crate::math::real::Real;
use crate::math::unary::{Unary, unary_f32, unary_f64};
use crate::multiversion;
use std::ops::Range;

/// Multiply-adds that are worth a second thread.
const GRAIN: usize = 1 << 16;

/// What a step computes. The gates are concatenated in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// `h = f(…)`.
    Rnn,
    /// Update `z`, reset `r`, hidden `n`: `h = (1 - z) n + z h`, where `n` is computed from `r h`.
    Gru,
    /// The same, where `n` is computed from `r (h Rᵀ + b)`, with a fourth bias.
    LinearGru,
    /// Forget `f`, input `i`, cell `n`, output `o`: `c = f c + i n`, `h = o act(c)`.
    Lstm,
}

impl Cell {
    /// Number of gates.
    pub fn gates(self) -> usize {
        match self {
            Cell::Rnn => 1,
            Cell::Gru | Cell::LinearGru => 3,
            Cell::Lstm => 4,
        }
    }

    /// Biases per element of the hidden state.
    pub fn biases(self) -> usize {
        self.gates() + usize::from(self == Cell::LinearGru)
    }

    /// The GEMMs with the hidden state in a step, by the number of gates that each computes.
    pub fn gemms(self) -> &'static [usize] {
        match self {
            Cell::Rnn => &[1],
            Cell::Gru => &[2, 1],
            Cell::LinearGru => &[3],
            Cell::Lstm => &[4],
        }
    }
}

/// f32, with weights as [`Rhs`], or f64, with row-major weights, one row per k.
pub trait Number: Real + Pod {
    /// Transposed weights.
    type Matrix<'a>: Copy + Send + Sync;

    /// `c = a b`.
    fn gemm(workers: Workers<'_>, a: &[Self], size: GemmSize, b: Self::Matrix<'_>, c: &mut [Self]);

    /// Applies a function to every value on the calling thread.
    fn apply(function: Unary, values: &mut [Self]);
}

impl Number for f32 {
    type Matrix<'a> = Rhs<'a>;

    fn gemm(
        Workers { threads, scratch }: Workers<'_>,
        values: &[f32],
        GemmSize { m, n, k }: GemmSize,
        b: Rhs<'_>,
        c: &mut [f32],
    ) {
        let a = Lhs::Rows { values, stride: k };
        let precision = Precision::F32;
        Gemm { m, n, k, a, b, c_stride: n, precision, post_ops: &[] }.run(threads, scratch, c);
    }

    fn apply(function: Unary, values: &mut [f32]) {
        unary_f32(Threads::single(), function, &mut InOut::in_place(values));
    }
}

impl Number for f64 {
    type Matrix<'a> = &'a [f64];

    fn gemm(
        Workers { threads, .. }: Workers<'_>,
        a: &[f64],
        size: GemmSize,
        b: &[f64],
        c: &mut [f64],
    ) {
        plain(threads, size, a, b, c);
    }

    fn apply(function: Unary, values: &mut [f64]) {
        unary_f64(Threads::single(), function, &mut InOut::in_place(values));
    }
}

/// A cell, and the sizes of its operands.
#[derive(Clone, Debug, PartialEq)]
pub struct Recurrence {
    /// What a step computes.
    pub cell: Cell,
    /// The functions f, g and h of the specification. Cells with fewer ignore the last.
    pub functions: [Unary; 3],
    /// The bound of the arguments of f and g, if they are clipped.
    pub clip: Option<f64>,
    /// Number of sequences.
    pub batch: usize,
    /// Steps of the longest sequence.
    pub steps: usize,
    /// Elements of the data per step.
    pub width: usize,
    /// Elements of the hidden state.
    pub hidden: usize,
    /// For each direction, whether it is backwards.
    pub directions: &'static [bool],
}

/// The operands of a [`Recurrence`].
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a, 'm, R: Number> {
    /// `[batch, steps, width]`.
    pub x: &'a [R],
    /// The initial hidden state, `[batch, directions, hidden]`.
    pub hidden: &'a [R],
    /// The initial cell state, of the same shape; empty unless the cell has one.
    pub cell: &'a [R],
    /// Steps of each sequence, at most [`Recurrence::steps`].
    pub lengths: &'a [usize],
    /// For each direction a matrix with `width` rows and a column for each element of each gate.
    pub weights: &'a [R::Matrix<'m>],
    /// For each direction and each of [`Cell::gemms`], a matrix with `hidden` rows and a column for
    /// each element of its gates.
    pub recurrent: &'a [R::Matrix<'m>],
    /// `[directions, biases, hidden]`.
    pub biases: &'a [R],
    /// `[batch, steps]`, attention scores that lower the update gate; or empty.
    pub scores: &'a [R],
}

/// The outputs of a [`Recurrence`].
#[derive(Debug)]
pub struct Outputs<'a, R> {
    /// The hidden state after each step, `[batch, directions, steps, hidden]`; or empty.
    pub every: &'a mut [R],
    /// The final hidden state, `[batch, directions, hidden]`.
    pub hidden: &'a mut [R],
    /// The final cell state; empty unless the cell has one.
    pub cell: &'a mut [R],
}

impl Recurrence {
    /// Floating-point operations of the GEMMs, as if every sequence were of full length.
    pub fn flops(&self) -> u64 {
        let rows = self.hidden * self.cell.gates();
        let factors = [2, self.directions.len(), self.batch, self.steps, rows];
        factors.iter().map(|n| *n as u64).product::<u64>() * (self.width + self.hidden) as u64
    }

    /// Runs all steps. A sequence of length 0 ends with a state of 0.
    ///
    /// # Panics
    /// When a slice is too short, or a length exceeds the number of steps.
    pub fn run<R: Number>(
        &self,
        threads: &Threads,
        scratch: &ScratchPool,
        operands: &Operands<'_, '_, R>,
        outputs: Outputs<'_, R>,
    ) {
        self.check(operands, &outputs);
        let (rows, columns) = (self.batch * self.steps, self.cell.gates() * self.hidden);
        let mut projected = scratch.take::<R>(self.directions.len() * rows * columns);
        let parts = projected.chunks_mut((rows * columns).max(1));
        for (weights, part) in operands.weights.iter().zip(parts) {
            let size = GemmSize { m: rows, n: columns, k: self.width };
            R::gemm(Workers { threads, scratch }, operands.x, size, *weights, part);
        }
        let work = self.directions.len() * rows * columns * self.hidden;
        let threads = if work < GRAIN { Threads::single() } else { threads };
        let run = Run {
            of: self,
            operands,
            projected: &projected,
            every: (!outputs.every.is_empty()).then(|| Slice::new(outputs.every)),
            hidden: Slice::new(outputs.hidden),
            cell: Slice::new(outputs.cell),
        };
        self.divide(threads, scratch, &run);
    }

    /// Bytes of scratch memory that a run of `R` takes on this many threads.
    pub fn scratch_bytes<R>(&self, threads: usize) -> usize {
        let rows = self.directions.len() * self.batch * self.steps;
        let projected = rows * self.cell.gates() * self.hidden;
        let running = self.batch.div_ceil(threads) * threads * self.scratch_len();
        (projected + running) * size_of::<R>()
    }

    fn check<R: Number>(&self, o: &Operands<'_, '_, R>, outputs: &Outputs<'_, R>) {
        let Recurrence { batch, steps, hidden, .. } = *self;
        let states = batch * self.directions.len() * hidden;
        let cells = if self.cell == Cell::Lstm { states } else { 0 };
        assert!(o.x.len() == batch * steps * self.width && o.hidden.len() == states);
        assert!(o.cell.len() == cells && outputs.cell.len() == cells);
        assert!(outputs.hidden.len() == states);
        assert!(outputs.every.is_empty() || outputs.every.len() == states * steps);
        assert!(o.lengths.len() == batch && o.lengths.iter().all(|len| *len <= steps));
        assert!(o.scores.is_empty() || o.scores.len() == batch * steps);
        assert_eq!(o.weights.len(), self.directions.len());
        assert_eq!(o.recurrent.len(), self.directions.len() * self.cell.gemms().len());
        assert_eq!(o.biases.len(), self.directions.len() * self.cell.biases() * hidden);
    }

    /// Elements of scratch memory per sequence: states, gates, and the operand and result of the
    /// second GEMM of a GRU.
    fn scratch_len(&self) -> usize {
        (4 + self.cell.gates()) * self.hidden
    }

    /// Divides directions and sequences among the threads. A single sequence in one direction
    /// divides its GEMMs instead.
    fn divide<R: Number>(&self, threads: &Threads, scratch: &ScratchPool, run: &Run<'_, '_, R>) {
        let directions = self.directions.len();
        let parts = threads.count().div_ceil(directions).min(self.batch).max(1);
        let size = self.batch.div_ceil(parts);
        let scratch_len = size * self.scratch_len();
        if directions * parts == 1 {
            let mut space = scratch.take::<R>(scratch_len);
            return run.sequences(Workers { threads, scratch }, 0, 0..self.batch, &mut space);
        }
        let mut space = scratch.take::<R>(scratch_len * threads.count());
        let space = Slice::new(&mut space);
        threads.run(directions * parts, &|task, worker| {
            // SAFETY: no two threads are the same worker at a time.
            let space = unsafe { space.part(worker * scratch_len, scratch_len) };
            let first = task / directions * size;
            let rows = first.min(self.batch)..(first + size).min(self.batch);
            let workers = Workers { threads: Threads::single(), scratch: &ScratchPool::default() };
            run.sequences(workers, task % directions, rows, space);
        });
    }
}

/// A [`Recurrence`] that is running; each thread takes a part.
struct Run<'w, 'm, R: Number> {
    of: &'w Recurrence,
    operands: &'w Operands<'w, 'm, R>,
    /// The data times the weights: `[directions, batch, steps, gates, hidden]`.
    projected: &'w [R],
    every: Option<Slice<R>>,
    hidden: Slice<R>,
    cell: Slice<R>,
}

/// The buffers of some sequences: `hidden` elements for each sequence, and for each gate.
struct State<'a, R> {
    h: &'a mut [R],
    c: &'a mut [R],
    /// The hidden state times the reset gate.
    reset: &'a mut [R],
    /// The gates of the first GEMM, and of the second.
    gates: [&'a mut [R]; 2],
}

/// A sequence of those that a thread runs together.
#[derive(Clone, Copy)]
struct Sequence {
    /// Its index in the batch.
    row: usize,
    /// Its index in the [`State`].
    at: usize,
}

/// The operands of a sequence in a step.
struct StepBuffers<'a, R> {
    x: &'a [R],
    biases: &'a [R],
    score: R,
}

impl<R: Number> Run<'_, '_, R> {
    /// Runs all steps of some sequences in one direction.
    fn sequences(
        &self,
        workers: Workers<'_>,
        direction: usize,
        rows: Range<usize>,
        space: &mut [R],
    ) {
        let (hidden, count) = (self.of.hidden, rows.len());
        let gemms = self.of.cell.gemms();
        let (h, rest) = space.split_at_mut(count * hidden);
        let (c, rest) = rest.split_at_mut(count * hidden);
        let (reset, rest) = rest.split_at_mut(count * hidden);
        let (first, rest) = rest.split_at_mut(count * gemms[0] * hidden);
        let second = &mut rest[..gemms.get(1).map_or(0, |gates| count * gates * hidden)];
        let mut state = State { h, c, reset, gates: [first, second] };
        self.begin(direction, rows.clone(), &mut state);
        let lengths = &self.operands.lengths[rows.clone()];
        for step in 0..lengths.iter().copied().max().unwrap_or(0) {
            for (i, gates) in gemms.iter().enumerate() {
                let size = GemmSize { m: count, n: gates * hidden, k: hidden };
                let from = if i == 0 { &*state.h } else { &*state.reset };
                let matrix = self.operands.recurrent[direction * gemms.len() + i];
                R::gemm(workers, from, size, matrix, state.gates[i]);
                let last = i + 1 == gemms.len();
                for at in (0..count).filter(|at| step < lengths[*at]) {
                    let sequence = Sequence { row: rows.start + at, at };
                    self.step(direction, sequence, step, last, &mut state);
                }
            }
        }
        self.end(direction, rows, &state);
    }

    fn begin(&self, direction: usize, rows: Range<usize>, state: &mut State<'_, R>) {
        let hidden = self.of.hidden;
        for (at, row) in rows.enumerate() {
            let (from, to) = (self.state(row, direction), at * hidden..(at + 1) * hidden);
            if self.operands.lengths[row] == 0 {
                state.h[to.clone()].fill(R::default());
                state.c[to].fill(R::default());
                continue;
            }
            state.h[to.clone()].copy_from_slice(&self.operands.hidden[from..from + hidden]);
            if self.of.cell == Cell::Lstm {
                state.c[to].copy_from_slice(&self.operands.cell[from..from + hidden]);
            }
        }
    }

    /// The offset of a sequence's state in the inputs and outputs.
    fn state(&self, row: usize, direction: usize) -> usize {
        (row * self.of.directions.len() + direction) * self.of.hidden
    }

    /// Completes a step of one sequence after a GEMM.
    fn step(
        &self,
        direction: usize,
        Sequence { row, at }: Sequence,
        step: usize,
        last: bool,
        state: &mut State<'_, R>,
    ) {
        let Recurrence { hidden, steps, batch, cell, .. } = *self.of;
        let (columns, biases) = (cell.gates() * hidden, cell.biases() * hidden);
        let backwards = self.of.directions[direction];
        let time = if backwards { self.operands.lengths[row] - 1 - step } else { step };
        let place = StepBuffers {
            x: &self.projected[((direction * batch + row) * steps + time) * columns..][..columns],
            biases: &self.operands.biases[direction * biases..][..biases],
            score: self.operands.scores.get(row * steps + time).copied().unwrap_or_default(),
        };
        let run = at * hidden..(at + 1) * hidden;
        let [first, second] = &mut state.gates;
        let own = cell.gemms()[0] * hidden;
        let first = &mut first[at * own..][..own];
        let h = &mut state.h[run.clone()];
        match cell {
            Cell::Rnn => self.rnn(&place, first, h),
            Cell::Lstm => self.lstm(&place, first, &mut state.c[run], h),
            Cell::LinearGru => self.linear_gru(&place, first, h),
            Cell::Gru if last => self.gru(&place, first, &mut second[run], h),
            Cell::Gru => self.reset(&place, first, &mut state.reset[run], h),
        }
        if let (Some(every), true) = (self.every, last) {
            let to = self.state(row, direction) * steps + time * hidden;
            // SAFETY: as in `end`.
            unsafe { every.part(to, hidden) }.copy_from_slice(h);
        }
    }

    /// Replaces the values of some gates by `f(clip(x + (g + b)))`.
    fn activate(
        &self,
        function: Unary,
        place: &StepBuffers<'_, R>,
        gates: Range<usize>,
        values: &mut [R],
    ) {
        let run = gates.start * self.of.hidden..gates.end * self.of.hidden;
        add(&place.x[run.clone()], &place.biases[run], values);
        if let Some(bound) = self.of.clip {
            R::apply(Unary::Clamp { low: -bound, high: bound }, values);
        }
        R::apply(function, values);
    }

    fn rnn(&self, place: &StepBuffers<'_, R>, gates: &mut [R], h: &mut [R]) {
        self.activate(self.of.functions[0], place, 0..1, gates);
        h.copy_from_slice(gates);
    }

    fn lstm(&self, place: &StepBuffers<'_, R>, gates: &mut [R], c: &mut [R], h: &mut [R]) {
        let [f, g, act] = self.of.functions;
        let (forget_input, rest) = gates.split_at_mut(2 * h.len());
        let (new, output) = rest.split_at_mut(h.len());
        self.activate(f, place, 0..2, forget_input);
        self.activate(g, place, 2..3, new);
        self.activate(f, place, 3..4, output);
        let (forget, input) = forget_input.split_at(h.len());
        remember(forget, input, new, c);
        h.copy_from_slice(c);
        R::apply(act, h);
        multiply(output, h);
    }

    /// The part of a GRU step between its two GEMMs.
    fn reset(&self, place: &StepBuffers<'_, R>, gates: &mut [R], reset: &mut [R], h: &[R]) {
        self.activate(self.of.functions[0], place, 0..2, gates);
        reset.copy_from_slice(h);
        multiply(&gates[h.len()..], reset);
    }

    fn gru(&self, place: &StepBuffers<'_, R>, gates: &[R], new: &mut [R], h: &mut [R]) {
        self.activate(self.of.functions[1], place, 2..3, new);
        blend(place.score, &gates[..h.len()], new, h);
    }

    fn linear_gru(&self, place: &StepBuffers<'_, R>, gates: &mut [R], h: &mut [R]) {
        let [f, g, _] = self.of.functions;
        let (gates, new) = gates.split_at_mut(2 * h.len());
        self.activate(f, place, 0..2, gates);
        let (update, reset) = gates.split_at(h.len());
        shift_and_scale(&place.biases[3 * h.len()..], reset, new);
        self.activate(g, place, 2..3, new);
        blend(place.score, update, new, h);
    }

    /// Writes the final states, and zeros for the steps past the length of a sequence.
    fn end(&self, direction: usize, rows: Range<usize>, state: &State<'_, R>) {
        let Recurrence { hidden, steps, .. } = *self.of;
        for (at, row) in rows.enumerate() {
            let (to, run) = (self.state(row, direction), at * hidden..(at + 1) * hidden);
            // SAFETY: these elements, of one sequence and direction, belong to this task alone, and
            // `check` has shown that the outputs hold all of them.
            unsafe {
                self.hidden.part(to, hidden).copy_from_slice(&state.h[run.clone()]);
                if self.of.cell == Cell::Lstm {
                    self.cell.part(to, hidden).copy_from_slice(&state.c[run]);
                }
                if let Some(every) = self.every {
                    let length = self.operands.lengths[row];
                    let rest = (steps - length) * hidden;
                    every.part(to * steps + length * hidden, rest).fill(R::default());
                }
            }
        }
    }
}

multiversion! {
    vectors if size_of::<R>() <= size_of::<f32>();
    /// `y = (y + b) + x`.
    fn add<R: Real>(x: &[R], b: &[R], y: &mut [R]) {
        for ((y, x), b) in y.iter_mut().zip(x).zip(b) {
            *y = (*y + *b) + *x;
        }
    }
}

multiversion! {
    vectors if size_of::<R>() <= size_of::<f32>();
    /// `y = y x`.
    fn multiply<R: Real>(x: &[R], y: &mut [R]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = *y * *x;
        }
    }
}

multiversion! {
    vectors if size_of::<R>() <= size_of::<f32>();
    /// `y = (y + b) x`.
    fn shift_and_scale<R: Real>(b: &[R], x: &[R], y: &mut [R]) {
        for ((y, b), x) in y.iter_mut().zip(b).zip(x) {
            *y = (*y + *b) * *x;
        }
    }
}

multiversion! {
    vectors if size_of::<R>() <= size_of::<f32>();
    /// `c = f c + i n`.
    fn remember<R: Real>(f: &[R], i: &[R], n: &[R], c: &mut [R]) {
        for (((c, f), i), n) in c.iter_mut().zip(f).zip(i).zip(n) {
            *c = f.fma(*c, *i * *n);
        }
    }
}

multiversion! {
    vectors if size_of::<R>() <= size_of::<f32>();
    /// `h = (1 - z') n + z' h` with `z' = (1 - score) z`.
    fn blend<R: Real>(score: R, z: &[R], n: &[R], h: &mut [R]) {
        let share = R::of(1.0) - score;
        for ((h, z), n) in h.iter_mut().zip(z).zip(n) {
            let z = share * *z;
            *h = (R::of(1.0) - z).fma(*n, z * *h);
        }
    }
}
