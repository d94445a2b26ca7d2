//! Dispatch from an element type to a Rust type.

/// Evaluates an expression with `$t` as the Rust type of an element type; `None` if the class does
/// not include the type. Classes:
/// - `number`: u8 to u64, i8 to i64, f16, bf16, f32, f64;
/// - `float`: f16, bf16, f32, f64;
/// - `integer`: u8 to u64, i8 to i64;
/// - `index`: i32, i64;
/// - `stored`: all types with a numeric value, including booleans and packed types (as unpacked
///   bytes);
/// - `size`: u8, u16, u32 or u64 by the size of an element.
macro_rules! with_type {
    ($element_type:expr, number $t:ident => $body:expr) => {
        $crate::tensor::dispatch::with_type!(@ $element_type, $t => $body;
            U8 u8, U16 u16, U32 u32, U64 u64, I8 i8, I16 i16, I32 i32, I64 i64,
            F16 kernels::num::f16, BF16 kernels::num::bf16, F32 f32, F64 f64)
    };
    ($element_type:expr, float $t:ident => $body:expr) => {
        $crate::tensor::dispatch::with_type!(@ $element_type, $t => $body;
            F16 kernels::num::f16, BF16 kernels::num::bf16, F32 f32, F64 f64)
    };
    ($element_type:expr, integer $t:ident => $body:expr) => {
        $crate::tensor::dispatch::with_type!(@ $element_type, $t => $body;
            U8 u8, U16 u16, U32 u32, U64 u64, I8 i8, I16 i16, I32 i32, I64 i64)
    };
    ($element_type:expr, index $t:ident => $body:expr) => {
        $crate::tensor::dispatch::with_type!(@ $element_type, $t => $body; I32 i32, I64 i64)
    };
    ($element_type:expr, stored $t:ident => $body:expr) => {
        $crate::tensor::dispatch::with_type!(@ $element_type, $t => $body;
            Boolean kernels::num::Bool, U1 u8, U2 u8, U3 u8, U4 u8, U6 u8,
            U8 u8, U16 u16, U32 u32, U64 u64,
            I4 kernels::num::I4, I8 i8, I16 i16, I32 i32, I64 i64,
            F16 kernels::num::f16, BF16 kernels::num::bf16, F32 f32, F64 f64,
            NF4 kernels::num::Nf4, F8E4M3 kernels::num::F8E4M3, F8E5M2 kernels::num::F8E5M2,
            F8E8M0 kernels::num::F8E8M0, F4E2M1 kernels::num::F4E2M1)
    };
    ($element_type:expr, size $t:ident => $body:expr) => {
        match $element_type.byte_size() {
            Some(1) => { type $t = u8; Some($body) }
            Some(2) => { type $t = u16; Some($body) }
            Some(4) => { type $t = u32; Some($body) }
            Some(8) => { type $t = u64; Some($body) }
            _ => None,
        }
    };
    (@ $element_type:expr, $t:ident => $body:expr; $($name:ident $type:ty),*) => {
        match $element_type {
            $(ir::ElementType::$name => { type $t = $type; Some($body) })*
            _ => None,
        }
    };
}

pub(crate) use with_type;
