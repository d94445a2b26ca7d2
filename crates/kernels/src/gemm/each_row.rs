//! An unrolled loop over the rows of a block.

/// Repeats a statement for each row below `$rows`. Unrolled here, since the sums would be kept in
/// memory if the compiler did not unroll the loop.
macro_rules! each_row {
    ($rows:ident, $i:ident => $body:expr) => {
        each_row!($rows, $i, $body; 0 1 2 3 4 5 6 7 8 9 10 11 12 13)
    };
    ($rows:ident, $i:ident, $body:expr; $($row:literal)*) => {
        $(if $row < $rows {
            let $i = $row;
            $body;
        })*
    };
}

pub(crate) use each_row;
