//! Sums over several blocks along k.

use super::*;
use crate::base::workers::Packer;

/// Many rows and a long k, with every post-op after the last block.
#[test]
fn long_sums_are_chains_of_blocks() {
    let threads = Threads::new(2);
    for (m, n, k) in [(31, 40, 1153), (14, 17, 1920), (23, 8, 2304), (9, 33, 2001)] {
        let (a, b) = (numbers(m * k, 21), numbers(k * n, 22));
        let (bias, matrix) = (numbers(n, 23), numbers(m * n, 24));
        let layout = Layout::Rows { stride: n };
        let to = Packer::unpooled(&threads);
        let packed =
            Packed::new(to, UnalignedF32::of(&b), layout, RhsSize { k, n }, Precision::F32);
        let plain = reference(m, n, k, &a, |p, j| b[p * n + j]);
        let expected: Vec<f32> = plain
            .iter()
            .enumerate()
            .map(|(i, sum)| (sum + bias[i % n] + matrix[i]).max(0.0))
            .collect();
        let post_ops = [
            PostOp::Add(Operand::Columns(&bias)),
            PostOp::Add(Operand::Matrix(Strided { values: &matrix, stride: n })),
            PostOp::Apply(Unary::Relu {}),
        ];
        for b in [Rhs::Packed(&packed), Rhs::Unpacked(UnalignedF32::of(&b), layout)] {
            let mut c = vec![f32::NAN; m * n];
            let a = Lhs::Rows { values: &a, stride: k };
            let precision = Precision::F32;
            Gemm { m, n, k, a, b, c_stride: n, precision, post_ops: &post_ops }.run(
                &threads,
                &ScratchPool::default(),
                &mut c,
            );
            assert_eq!(c, expected, "{m} {n} {k}");
        }
    }
}

/// Concatenated matrices give the same result as one matrix with the columns of all.
#[test]
fn columns_of_a_may_lie_in_several_matrices() {
    let threads = Threads::new(2);
    let (m, n) = (61, 50);
    // Of 700 elements each, blocks along k begin within a matrix; of 768, with one.
    for (columns, precision) in [33, 40, 700, 768]
        .iter()
        .flat_map(|c| [Precision::F32, Precision::Bf16].map(|precision| (*c, precision)))
    {
        let k = 3 * columns;
        let (parts, b) = ([5, 6, 7].map(|seed| numbers(m * columns, seed)), numbers(k * n, 8));
        let row = |i: usize| parts.iter().flat_map(move |part| &part[i * columns..][..columns]);
        let whole: Vec<f32> = (0..m).flat_map(row).copied().collect();
        let others = [&parts[1][..], &parts[2]];
        let layout = Layout::Rows { stride: n };
        let arena = Packer::unpooled(&threads);
        let packed = Packed::new(arena, UnalignedF32::of(&b), layout, RhsSize { k, n }, precision);
        let gemm = |a, b| {
            let mut c = vec![0.0; m * n];
            let gemm = Gemm { m, n, k, a, b, c_stride: n, precision, post_ops: &[] };
            gemm.run(&threads, &ScratchPool::default(), &mut c);
            c
        };
        for right in [Rhs::Packed(&packed), Rhs::Unpacked(UnalignedF32::of(&b), layout)] {
            let concat = Lhs::Concat { first: &parts[0], others: &others, columns };
            let rows = Lhs::Rows { values: &whole, stride: k };
            assert_eq!(gemm(concat, right), gemm(rows, right), "{columns} {precision:?}");
        }
    }
}

/// The leading rows of B give the bits of all rows if the other columns of A are zeros.
#[test]
fn leading_rows_leave_no_trace() {
    let (threads, n, rows) = (Threads::new(2), 70, 2000);
    let b = numbers(rows * n, 31);
    let layout = Layout::Rows { stride: n };
    let mut panels = vec![0.0; panels_len(rows, n, Precision::F32)];
    let size = RhsSize { k: rows, n };
    pack_into(&threads, UnalignedF32::of(&b), layout, size, Precision::F32, &mut panels);
    for m in [1, 5, 40] {
        for k in [1, 90, 768, 769, 1200, 1999, 2000] {
            let a = numbers(m * k, 32);
            let leading = Rhs::LeadingRows { panels: &panels, rows };
            let found = multiply(m, n, k, &a, leading, &threads);
            let padded: Vec<f32> = (0..m * rows)
                .map(|i| if i % rows < k { a[i / rows * k + i % rows] } else { 0.0 })
                .collect();
            assert_eq!(found, reference(m, n, rows, &padded, |p, j| b[p * n + j]), "{m} {k}");
        }
    }
}
