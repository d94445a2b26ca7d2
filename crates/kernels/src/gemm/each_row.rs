//! A loop over the rows of a block, written out.

/// Repeats a statement for each row below `$rows`. Written out, since a loop that the compiler
/// leaves as one would keep the sums in memory.
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
