//! Panels are packed for the instruction set in use. Another one, with other panel widths, must
//! refuse them. A file of its own, since the instruction set is that of the process.

use irrun_kernels::gemm::{
    Compressed, CompressedPanels, DynamicPanels, Gemm, GroupParams, Layout, Lhs, Packed, Precision,
    Rhs, RhsSize, WeightFormat,
};
use irrun_kernels::isa::{Isa, force};
use irrun_kernels::num::UnalignedF32;
use irrun_kernels::par::Threads;
use irrun_kernels::{Packer, ScratchPool};
use std::panic::catch_unwind;

const K: usize = 64;
const N: usize = 40;

/// Whether a GEMM with these panels is refused.
fn is_refused(b: &(impl Fn() -> Rhs<'static> + std::panic::RefUnwindSafe)) -> bool {
    catch_unwind(|| {
        let (values, mut c) = ([0.5; K], [0.0; N]);
        let a = Lhs::Rows { values: &values, stride: K };
        let (precision, post_ops) = (Precision::F32, &[][..]);
        let product = Gemm { m: 1, n: N, k: K, a, b: b(), c_stride: N, precision, post_ops };
        product.run(Threads::single(), &ScratchPool::default(), &mut c);
    })
    .is_err()
}

#[test]
fn panels_of_another_instruction_set_are_refused() {
    let there: Vec<Isa> = Isa::ALL.into_iter().filter(|isa| isa.is_available()).collect();
    let to = Packer::unpooled(Threads::single());
    for own in there.iter().filter(|isa| **isa != Isa::Amx) {
        force(*own);
        let weights: &'static [f32] = Vec::leak(vec![0.25; K * N]);
        let scales = GroupParams { values: &[0.5; N], column: 1, group: 0 };
        let (format, size, group) = (WeightFormat::U8, RhsSize { k: K, n: N }, K);
        let bytes = &[3; K * N];
        let matrix = Compressed { bytes, format, by_rows: false, size, group, scales, zeros: None };
        let rows = Layout::Rows { stride: N };
        let packed = Packed::new(to, UnalignedF32::of(weights), rows, size, Precision::F32);
        let packed: &'static Packed = Box::leak(Box::new(packed));
        let compressed: &'static _ = Box::leak(Box::new(CompressedPanels::new(to, &matrix)));
        let dynamic: &'static _ = Box::leak(Box::new(DynamicPanels::new(to, &matrix)));
        for other in there.iter().filter(|isa| **isa != Isa::Amx) {
            force(*other);
            let differ = own != other;
            assert_eq!(is_refused(&|| Rhs::Packed(packed)), differ, "{own:?} {other:?}");
            let panels = || Rhs::CompressedPanels(compressed);
            assert_eq!(is_refused(&panels), differ, "{own:?} {other:?}");
            assert_eq!(is_refused(&|| Rhs::Dynamic(dynamic)), differ, "{own:?} {other:?}");
        }
    }
}
