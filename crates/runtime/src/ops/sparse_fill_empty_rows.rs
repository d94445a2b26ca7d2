//! SparseFillEmptyRows: elements and fill values are sorted together.

use crate::prelude::*;
use crate::tensor::dispatch::with_type;
use infer::ops::sparse_fill_empty_rows::SparseFillEmptyRows;
use kernels::num::{Pod, Stored};
use std::marker::PhantomData;

impl Lower for SparseFillEmptyRows {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let element_type = cx.element_type(0);
        with_type!(element_type, size T => with_type!(cx.element_type(2), index I => {
            Box::new(FillKernel::<T, I> { of: PhantomData }) as Box<dyn Kernel>
        }))
        .flatten()
        .ok_or_else(|| LowerError::element_type(0, element_type))
    }
}

struct FillKernel<T, I> {
    of: PhantomData<(T, I)>,
}

impl<T: Pod, I: Stored> Kernel for FillKernel<T, I> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let dense = cx.ints(1);
        let rows = dense.first().and_then(|rows| usize::try_from(*rows).ok());
        let rows = rows.ok_or_else(|| KernelError::at(1, format!("{dense:?} is no shape")))?;
        cx.allocate(2, &[rows])?;
        let entries = entries(&dense, &cx.ints(2), cx.output(2))?;
        cx.allocate(0, &[entries.len(), 2])?;
        cx.allocate(1, &[entries.len()])?;
        let (values, default) = (cx.input::<T>(0), cx.input::<T>(3));
        let (indices, filled) = (cx.output::<I>(0), cx.output::<T>(1));
        for ((entry, index), slot) in entries.iter().zip(indices.chunks_exact_mut(2)).zip(filled) {
            (index[0], index[1]) = (I::from_i64(entry.row), I::from_i64(entry.column));
            *slot = entry.value.map_or(default[0], |i| values[i]);
        }
        Ok(())
    }

    fn has_data_dependent_shapes(&self) -> bool {
        true
    }

    fn name(&self) -> &'static str {
        "fill empty rows"
    }
}

/// An element of the result; `value` is its index in the input, `None` for a fill value.
struct Entry {
    row: i64,
    column: i64,
    value: Option<usize>,
}

/// The elements of the result in row-major order; `empty` receives whether each row was empty.
fn entries(dense: &[i64], indices: &[i64], empty: &mut [u8]) -> Result<Vec<Entry>, KernelError> {
    let inside = |axis: usize, i: i64| dense.get(axis).is_some_and(|size| (0..*size).contains(&i));
    empty.fill(1);
    let mut entries = Vec::with_capacity(indices.len() / 2);
    for (i, index) in indices.chunks_exact(2).enumerate() {
        let (row, column) = (index[0], index[1]);
        if !inside(0, row) || !inside(1, column) {
            let message = format!("{row}, {column} lies outside of the shape {dense:?}");
            return Err(KernelError::at(2, message));
        }
        empty[row as usize] = 0;
        entries.push(Entry { row, column, value: Some(i) });
    }
    let fill = |(row, _)| Entry { row: row as i64, column: 0, value: None };
    entries.extend(empty.iter().enumerate().filter(|(_, e)| **e != 0).map(fill));
    entries.sort_unstable_by_key(|entry| (entry.row, entry.column, entry.value));
    Ok(entries)
}
