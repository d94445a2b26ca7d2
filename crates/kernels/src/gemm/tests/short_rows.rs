//! Many rows of few elements, of which several blocks are multiplied at a time.

use super::*;
use crate::base::workers::Packer;

/// Whole panels and parts of one, rows that do not end with a block, and every kind of post-op:
/// added in registers, and in a pass of its own.
#[test]
fn many_short_rows_are_chains() {
    let threads = Threads::new(2);
    for (m, n, k) in [(500, 8, 1), (333, 16, 8), (701, 24, 9), (260, 40, 33), (1100, 5, 128)] {
        let (a, b) = (numbers(m * (k + 3), 31), numbers(k * n, 32));
        let (bias, matrix) = (numbers(n, 33), numbers(m * n, 34));
        let to = Packer::unpooled(&threads);
        let (layout, size) = (Layout::Rows { stride: n }, RhsSize { k, n });
        let packed = Packed::new(to, UnalignedF32::of(&b), layout, size, Precision::F32);
        let rows: Vec<f32> = a.chunks(k + 3).flat_map(|row| &row[..k]).copied().collect();
        let plain = reference(m, n, k, &rows, |p, j| b[p * n + j]);
        let add = PostOp::Add(Operand::Columns(&bias));
        let residual = PostOp::Add(Operand::Matrix(Strided { values: &matrix, stride: n }));
        let relu = PostOp::Apply(Unary::Relu {});
        for (post_ops, is_last) in [([add, residual, relu], false), ([add, relu, residual], true)] {
            let (a, b) = (Lhs::Rows { values: &a, stride: k + 3 }, Rhs::Packed(&packed));
            // Two columns more than are written.
            let c_stride = n + 2;
            let (precision, mut c) = (Precision::F32, vec![7.0; m * c_stride]);
            let gemm = Gemm { m, n, k, a, b, c_stride, precision, post_ops: &post_ops };
            gemm.run(&threads, &ScratchPool::default(), &mut c);
            for (i, sum) in plain.iter().enumerate() {
                let (sum, matrix) = (sum + bias[i % n], matrix[i]);
                let expected =
                    if is_last { sum.max(0.0) + matrix } else { (sum + matrix).max(0.0) };
                assert_eq!(c[i / n * c_stride + i % n], expected, "{m} {n} {k} {i}");
            }
            assert!(c.chunks(c_stride).all(|row| row[n..] == [7.0, 7.0]), "{m} {n} {k}");
        }
    }
}
