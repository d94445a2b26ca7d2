//! The Rust types of tensor elements.
#![forbid(unsafe_code)]

use ir::ElementType;
use kernels::num::{Pod, bf16, f16};

/// Rust types that correspond to an element type.
pub trait Element: Pod {
    /// The element type.
    const TYPE: ElementType;
}

macro_rules! elements {
    ($($t:ty => $name:ident),*) => {
        $(impl Element for $t { const TYPE: ElementType = ElementType::$name; })*
    };
}

elements!(u8 => U8, u16 => U16, u32 => U32, u64 => U64, i8 => I8, i16 => I16, i32 => I32,
          i64 => I64, f16 => F16, bf16 => BF16, f32 => F32, f64 => F64);
