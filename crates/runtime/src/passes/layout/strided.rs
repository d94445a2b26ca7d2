//! A strided view: the axes of a value as strides through another one, if it is made by
//! transposing, reshaping and cutting that.

use crate::graph::net::ValueId;
use crate::kernel::{Copy, Kernel, Movement, Reuse};
use kernels::copy::CopyPlan;
use smallvec::{SmallVec, smallvec};

/// Sizes and strides, outermost first.
type Axes = SmallVec<[(usize, usize); 6]>;

/// A value whose elements are those of another value, or of a part of it, in another order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Strided {
    /// The value whose elements are moved.
    pub(crate) source: ValueId,
    /// The index in the source of the first element.
    offset: usize,
    /// The sizes of the axes, outermost first, and their strides in the source; neighbours that are
    /// one axis of the source are merged.
    axes: Axes,
    /// How many copies of memory the view replaces.
    pub(crate) copies: usize,
}

impl Strided {
    /// The view of a whole value of `count` elements, above 0.
    pub(crate) fn whole(source: ValueId, count: usize) -> Strided {
        Strided { source, offset: 0, axes: smallvec![(count, 1)], copies: 0 }
    }

    /// Output `output`, of `count` elements, of a kernel that moves this value.
    pub(crate) fn moved_by(
        &self,
        kernel: &dyn Kernel,
        output: usize,
        count: usize,
    ) -> Option<Strided> {
        if let Reuse::Views(views) = kernel.reuse() {
            let view = views.get(output).filter(|view| view.input == 0)?;
            return self.part(view.offset / size_of::<f32>(), count);
        }
        let Movement::Copies(copies) = kernel.movement()? else { return None };
        let [Copy { input: 0, output: 0, plan }] = copies else { return None };
        let (sizes, order) = plan.as_transposition()?;
        let split = self.split(&sizes)?;
        let mut moved = Strided { axes: Axes::new(), copies: self.copies + 1, ..*self };
        order.iter().flat_map(|&axis| &split[axis]).for_each(|&axis| moved.push(axis));
        Some(moved)
    }

    /// Adds an innermost axis.
    fn push(&mut self, (size, stride): (usize, usize)) {
        match self.axes.last_mut() {
            _ if size == 1 => {}
            Some((outer, step)) if *step == size * stride => {
                (*outer, *step) = (*outer * size, stride);
            }
            _ => self.axes.push((size, stride)),
        }
    }

    /// For each axis of the same elements as a tensor of other sizes, the axes of this that it
    /// consists of, or parts of them.
    fn split(&self, sizes: &[usize]) -> Option<Vec<Axes>> {
        let mut axes = self.axes.iter();
        let (mut left, mut stride) = (1, 1);
        let mut next = |size: &usize| {
            let (mut size, mut parts) = (*size, Axes::new());
            while size > 1 {
                if left == 1 {
                    (left, stride) = *axes.next()?;
                }
                let part = size.min(left);
                if !size.is_multiple_of(part) || !left.is_multiple_of(part) {
                    return None;
                }
                (size, left) = (size / part, left / part);
                parts.push((part, left * stride));
            }
            Some(parts)
        };
        sizes.iter().map(&mut next).collect()
    }

    /// Some elements that follow each other, if they are a part along one axis.
    fn part(&self, mut start: usize, count: usize) -> Option<Strided> {
        let (mut offset, mut axes) = (self.offset, self.axes.iter());
        let part = loop {
            let &(_, stride) = axes.next()?;
            let inner: usize = axes.clone().map(|(size, _)| size).product();
            offset += start / inner * stride;
            if start.is_multiple_of(inner) && count.is_multiple_of(inner) {
                break (count / inner, stride);
            }
            start %= inner;
            if start + count > inner {
                return None;
            }
        };
        let mut cut = Strided { offset, axes: Axes::new(), ..*self };
        [part].iter().chain(axes).for_each(|&axis| cut.push(axis));
        Some(cut)
    }

    /// The copy that makes the value at once, if neighbours in the source stay on one of the last
    /// two axes: only then is it as fast as the copies one by one.
    pub(crate) fn plan(&self) -> Option<CopyPlan> {
        let near = self.axes.iter().rev().take(2).any(|(_, stride)| *stride == 1);
        let (sizes, strides): (Vec<usize>, Vec<isize>) =
            self.axes.iter().map(|&(size, stride)| (size, stride as isize)).unzip();
        near.then(|| CopyPlan::gather(&sizes, &strides, self.offset as isize))
    }
}
