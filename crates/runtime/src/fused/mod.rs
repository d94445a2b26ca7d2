//! What passes put in the place of several operations, or of one whose operands lie differently.

pub(crate) mod attention;
pub(crate) mod cached;
pub(crate) mod convolution;
pub(crate) mod integers;
pub(crate) mod moved;
pub(crate) mod normalize;
pub(crate) mod once;
pub(crate) mod pool;
pub(crate) mod product;
pub(crate) mod rotary;
pub(crate) mod then;
pub(crate) mod together;
pub(crate) mod turn;
pub(crate) mod weights;
