//! SegmentMax: segments are runs of slices, since their ids are sorted.

use crate::kernel::dispatch::kernel_for;
use crate::prelude::*;
use infer::ops::segment_max::SegmentMax;
use kernels::num::Stored;
use kernels::reduce::Scale;
use kernels::reduce::segment::segment_max;

impl Lower for SegmentMax {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let element_type = cx.element_type(0);
        let counted = cx.input_count() == 3;
        kernel_for!(cx, 0, number T => {
            let fill = if self.lowest() { lowest::<T>(element_type) } else { T::default() };
            SegmentMaxKernel::<T> { counted, fill }
        })
    }
}

/// The lowest finite value of a type. For f16 and bf16 it is that of f32, which converts to minus
/// infinity, as in OpenVINO.
fn lowest<T: Stored>(element_type: ElementType) -> T {
    match element_type.integer_range() {
        Some((low, _)) => T::from_i64(low as i64),
        None if element_type == ElementType::F64 => T::from_f64(f64::MIN),
        None => T::from_f32(f32::MIN),
    }
}

struct SegmentMaxKernel<T> {
    /// Whether the number of segments is an input.
    counted: bool,
    fill: T,
}

impl<T: Stored> Kernel for SegmentMaxKernel<T>
where
    T::Wide: Scale,
{
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let ids = cx.ints(1);
        let count = match (self.counted, ids.last()) {
            (true, _) => cx.ints(2).first().copied().unwrap_or(0),
            (false, last) => last.map_or(0, |last| last.saturating_add(1)),
        };
        let mut sizes: Sizes = cx.sizes(0).into();
        sizes[0] = usize::try_from(count)
            .map_err(|_| KernelError::new(format!("{count} is not a number of segments")))?;
        cx.allocate(0, &sizes)?;
        if sizes.contains(&0) {
            return Ok(());
        }
        let starts = starts(1, &ids, sizes[0])?;
        let inner = sizes[1..].iter().product();
        segment_max(cx.threads(), (inner, cx.input::<T>(0)), &starts, self.fill, cx.output(0));
        Ok(())
    }

    fn has_data_dependent_shapes(&self) -> bool {
        true
    }

    fn name(&self) -> &'static str {
        "segment max"
    }
}

/// The start of each of `count` segments in their sorted ids, and the end of the last. Ids from
/// `count` on belong to no segment.
///
/// # Errors
/// For ids that are negative or not sorted.
pub(super) fn starts(input: usize, ids: &[i64], count: usize) -> Result<Vec<usize>, KernelError> {
    if !ids.is_sorted() {
        return Err(KernelError::at(input, "must be sorted"));
    }
    if let Some(first) = ids.first().filter(|id| **id < 0) {
        return Err(KernelError::at(input, format!("{first} is not a segment")));
    }
    Ok((0..=count as i64).map(|segment| ids.partition_point(|id| *id < segment)).collect())
}
