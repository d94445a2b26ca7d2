//! Recurrent networks against the formulas of the specification. In a process of its own, since the
//! unit tests change the instruction set that weights are packed for.

use irrun_kernels::gemm::{Layout, Packed, Precision, Rhs, RhsSize};
use irrun_kernels::num::UnalignedF32;
use irrun_kernels::par::Threads;
use irrun_kernels::recurrent::{Cell, Number, Operands, Outputs, Recurrence};
use irrun_kernels::unary::Unary;
use irrun_kernels::{Packer, ScratchPool};

fn numbers(len: usize, seed: usize) -> Vec<f64> {
    (0..len).map(|i| ((i * 37 + seed * 11) % 101) as f64 / 64.0 - 0.75).collect()
}

/// All operands, with weights as in the specification: a row for each gate.
struct Network {
    of: Recurrence,
    x: Vec<f64>,
    hidden: Vec<f64>,
    cell: Vec<f64>,
    lengths: Vec<usize>,
    weights: Vec<f64>,
    recurrent: Vec<f64>,
    biases: Vec<f64>,
    scores: Vec<f64>,
}

fn network(cell: Cell, batch: usize, directions: &'static [bool]) -> Network {
    let (steps, width, hidden, d) = (5, 3, 6, directions.len());
    let functions = [Unary::Sigmoid {}, Unary::Tanh {}, Unary::Relu {}];
    let states = batch * d * hidden;
    Network {
        of: Recurrence {
            cell,
            functions,
            clip: Some(0.9),
            batch,
            steps,
            width,
            hidden,
            directions,
        },
        x: numbers(batch * steps * width, 1),
        hidden: numbers(states, 2),
        cell: numbers(if cell == Cell::Lstm { states } else { 0 }, 3),
        lengths: (0..batch).map(|i| (steps + 2 - 3 * i % 8).min(steps)).collect(),
        weights: numbers(d * cell.gates() * hidden * width, 4),
        recurrent: numbers(d * cell.gates() * hidden * hidden, 5),
        biases: numbers(d * cell.biases() * hidden, 6),
        scores: if cell == Cell::Gru { numbers(batch * steps, 7) } else { Vec::new() },
    }
}

type Results = [Vec<f64>; 3];

impl Network {
    /// The formulas of the specification, one number at a time.
    fn reference(&self) -> Results {
        let Recurrence { batch, steps, hidden, .. } = self.of;
        let states = batch * self.of.directions.len() * hidden;
        let cells = self.cell.len();
        let mut results = [vec![0.0; states * steps], vec![0.0; states], vec![0.0; cells]];
        for b in 0..batch {
            for (d, back) in self.of.directions.iter().enumerate() {
                let at = (b * self.of.directions.len() + d) * hidden;
                let mut h = self.hidden[at..at + hidden].to_vec();
                let mut c = self.cell.get(at..at + hidden).unwrap_or_default().to_vec();
                let len = self.lengths[b];
                for step in 0..len {
                    let t = if *back { len - 1 - step } else { step };
                    self.one(d, b * steps + t, &mut h, &mut c);
                    results[0][at * steps + t * hidden..][..hidden].copy_from_slice(&h);
                }
                if len > 0 {
                    results[1][at..at + hidden].copy_from_slice(&h);
                    if let Some(to) = results[2].get_mut(at..at + hidden) {
                        to.copy_from_slice(&c);
                    }
                }
            }
        }
        results
    }

    fn one(&self, d: usize, xt: usize, h: &mut [f64], c: &mut [f64]) {
        let Recurrence { hidden, width, cell, clip, .. } = self.of;
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let row = |g: usize, j: usize| (d * cell.gates() + g) * hidden + j;
        let wx = |g, j| dot(&self.x[xt * width..][..width], &self.weights[row(g, j) * width..]);
        let rh = |g, j, h: &[f64]| dot(h, &self.recurrent[row(g, j) * hidden..]);
        let b = |g: usize, j: usize| self.biases[(d * cell.biases() + g) * hidden + j];
        let clip = |v: f64| v.clamp(-clip.unwrap(), clip.unwrap());
        let sigmoid = |v: f64| 1.0 / (1.0 + (-clip(v)).exp());
        let tanh = |v: f64| clip(v).tanh();
        let each = |f: &dyn Fn(usize) -> f64| (0..hidden).map(f).collect::<Vec<f64>>();
        let old = h.to_vec();
        let f = |g: usize| each(&|j| sigmoid(wx(g, j) + rh(g, j, &old) + b(g, j)));
        match cell {
            Cell::Rnn => h.copy_from_slice(&f(0)),
            Cell::Lstm => {
                let new = each(&|j| tanh(wx(2, j) + rh(2, j, &old) + b(2, j)));
                for j in 0..hidden {
                    c[j] = f(0)[j] * c[j] + f(1)[j] * new[j];
                    h[j] = f(3)[j] * c[j].max(0.0);
                }
            }
            Cell::Gru | Cell::LinearGru => {
                let (z, r) = (f(0), f(1));
                let reset = each(&|j| r[j] * old[j]);
                let new = each(&|j| match cell {
                    Cell::Gru => tanh(wx(2, j) + rh(2, j, &reset) + b(2, j)),
                    _ => tanh(wx(2, j) + r[j] * (rh(2, j, &old) + b(3, j)) + b(2, j)),
                });
                let share = 1.0 - self.scores.get(xt).copied().unwrap_or(0.0);
                for j in 0..hidden {
                    h[j] = (1.0 - share * z[j]) * new[j] + share * z[j] * old[j];
                }
            }
        }
    }

    fn outputs<R: Number>(&self) -> [Vec<R>; 3] {
        let states = self.hidden.len();
        [states * self.of.steps, states, self.cell.len()].map(|len| vec![R::of(f64::NAN); len])
    }

    /// First row and number of rows of each matrix of [`Network::recurrent`].
    fn gemms(&self) -> Vec<(usize, usize)> {
        let Recurrence { cell, hidden, directions, .. } = self.of;
        let all = directions.iter().flat_map(|_| cell.gemms());
        let parts = all.scan(0, |first, gates| {
            *first += gates * hidden;
            Some((*first - gates * hidden, gates * hidden))
        });
        parts.collect()
    }

    fn in_f64(&self, threads: usize) -> Results {
        let Recurrence { width, hidden, cell, .. } = self.of;
        let transposed = |from: &[f64], first: usize, rows: usize, k: usize| -> Vec<f64> {
            (0..k * rows).map(|i| from[(first + i % rows) * k + i / rows]).collect()
        };
        let columns = cell.gates() * hidden;
        let weights: Vec<_> = (0..self.of.directions.len())
            .map(|d| transposed(&self.weights, d * columns, columns, width))
            .collect();
        let recurrent: Vec<_> = self
            .gemms()
            .into_iter()
            .map(|(first, rows)| transposed(&self.recurrent, first, rows, hidden))
            .collect();
        let operands = Operands {
            x: &self.x,
            hidden: &self.hidden,
            cell: &self.cell,
            lengths: &self.lengths,
            weights: &weights.iter().map(Vec::as_slice).collect::<Vec<_>>(),
            recurrent: &recurrent.iter().map(Vec::as_slice).collect::<Vec<_>>(),
            biases: &self.biases,
            scores: &self.scores,
        };
        let mut out = self.outputs::<f64>();
        let [every, hidden, cell] = &mut out;
        let outputs = Outputs { every, hidden, cell };
        self.of.run(&Threads::new(threads), &ScratchPool::default(), &operands, outputs);
        out
    }

    fn in_f32(&self, threads: usize) -> [Vec<f32>; 3] {
        let narrow = |v: &[f64]| v.iter().map(|v| *v as f32).collect::<Vec<f32>>();
        let Recurrence { width, hidden, cell, batch, .. } = self.of;
        let (weights, recurrent) = (narrow(&self.weights), narrow(&self.recurrent));
        let pack = |from: &[f32], first: usize, rows: usize, k: usize| {
            let layout = Layout::Columns { stride: k };
            Packed::new(
                Packer::unpooled(Threads::single()),
                UnalignedF32::of(&from[first * k..]),
                layout,
                RhsSize { k, n: rows },
                Precision::F32,
            )
        };
        let columns = cell.gates() * hidden;
        let packed_weights: Vec<_> = (0..self.of.directions.len())
            .map(|d| pack(&weights, d * columns, columns, width))
            .collect();
        let packed: Vec<_> = self
            .gemms()
            .into_iter()
            .map(|(first, rows)| pack(&recurrent, first, rows, hidden))
            .collect();
        let plain = self.gemms().into_iter().map(|(first, _)| {
            Rhs::Unpacked(
                UnalignedF32::of(&recurrent[first * hidden..]),
                Layout::Columns { stride: hidden },
            )
        });
        let operands = Operands {
            x: &narrow(&self.x),
            hidden: &narrow(&self.hidden),
            cell: &narrow(&self.cell),
            lengths: &self.lengths,
            weights: &packed_weights.iter().map(Rhs::Packed).collect::<Vec<_>>(),
            recurrent: &match batch {
                1 => plain.collect::<Vec<_>>(),
                _ => packed.iter().map(Rhs::Packed).collect(),
            },
            biases: &narrow(&self.biases),
            scores: &narrow(&self.scores),
        };
        let mut out = self.outputs::<f32>();
        let [every, hidden, cell] = &mut out;
        let outputs = Outputs { every, hidden, cell };
        self.of.run(&Threads::new(threads), &ScratchPool::default(), &operands, outputs);
        out
    }
}

#[test]
fn agrees_with_the_specification() {
    for cell in [Cell::Rnn, Cell::Gru, Cell::LinearGru, Cell::Lstm] {
        for directions in [&[false][..], &[true], &[false, true]] {
            for batch in [1, 2, 7] {
                let network = network(cell, batch, directions);
                let (exact, double) = (network.reference(), network.in_f64(2));
                let single = network.in_f32(1);
                assert_eq!(single, network.in_f32(2), "{cell:?}");
                for ((exact, double), single) in exact.iter().zip(&double).zip(&single) {
                    for ((e, d), s) in exact.iter().zip(double).zip(single) {
                        assert!((d - e).abs() < 1e-13, "{cell:?} {directions:?} {d} {e}");
                        assert!((f64::from(*s) - e).abs() < 2e-6, "{cell:?} {s} {e}");
                    }
                }
            }
        }
    }
}
