//! Element-wise functions: f32 and f64 natively, f16 and bf16 in f32. Integers in their own width
//! if that is exact, else rounded from f64.

use super::SameBytes;
use crate::prelude::*;
use crate::tensor::dispatch::with_type;
use infer::InputSet;
use infer::ops::unary::{Form, Kind, Unary};
use kernels::classify::{Class, Patterns};
use kernels::convert::{Decoder, Encoder, decode, encode};
use kernels::num::{Bits, Stored, Wide, bf16, f16};
use kernels::unary as k;
use std::marker::PhantomData;

impl Lower for Unary {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let element_type = cx.element_type(0);
        let refused = || LowerError::element_type(0, element_type);
        match self.kind() {
            Kind::Identity => return Ok(Box::new(SameBytes)),
            Kind::LogicalNot if element_type != ElementType::Boolean => {
                let kernel = with_type!(element_type, number T => {
                    Box::new(NotNumber::<T>(PhantomData)) as Box<dyn Kernel>
                });
                return kernel.ok_or_else(refused);
            }
            Kind::LogicalNot => return Ok(Box::new(Not)),
            Kind::BitwiseNot if element_type == ElementType::Boolean => return Ok(Box::new(Not)),
            Kind::BitwiseNot => return integer(element_type, k::IntUnary::Not).ok_or_else(refused),
            Kind::IsFinite | Kind::IsInf | Kind::IsNaN => {
                let class = class(self.kind(), self.form());
                return classify(class, element_type).ok_or_else(refused);
            }
            _ => {}
        }
        let function = function(self, cx)?;
        let real = real_function(element_type, function);
        real.or_else(|| integer_function(element_type, function)).ok_or_else(refused)
    }
}

/// The kernel of a function of reals.
pub(super) fn real_function(
    element_type: ElementType,
    function: k::Unary,
) -> Option<Box<dyn Kernel>> {
    Some(match element_type {
        ElementType::F32 => Box::new(ElementWise { function }),
        ElementType::F64 => Box::new(Float64 { function }),
        ElementType::F16 => {
            Box::new(Half { function, decode: decode::<f16, f32>, encode: encode::<f32, f16> })
        }
        ElementType::BF16 => {
            Box::new(Half { function, decode: decode::<bf16, f32>, encode: encode::<f32, bf16> })
        }
        _ => return None,
    })
}

/// The function of an operation, with its parameters.
pub(crate) fn function(op: &Unary, cx: &LowerCx<'_>) -> Result<k::Unary, LowerError> {
    let parameter = |input: usize| -> Result<f64, LowerError> {
        let values = cx.floats(input)?;
        values.first().copied().ok_or_else(|| RuleError::at(input, "holds no value").into())
    };
    use k::Unary as U;
    Ok(match (op.kind(), op.form()) {
        (Kind::Abs, _) => U::Abs {},
        (Kind::Acos, _) => U::Acos {},
        (Kind::Acosh, _) => U::Acosh {},
        (Kind::Asin, _) => U::Asin {},
        (Kind::Asinh, _) => U::Asinh {},
        (Kind::Atan, _) => U::Atan {},
        (Kind::Atanh, _) => U::Atanh {},
        (Kind::Ceiling, _) => U::Ceil {},
        (_, Form::Clamp { min, max }) => U::Clamp { low: min, high: max },
        (Kind::Cos, _) => U::Cos {},
        (Kind::Cosh, _) => U::Cosh {},
        (_, Form::Elu { alpha }) => U::Elu { alpha },
        (Kind::Erf, _) => U::Erf {},
        (Kind::ErfInv, _) => U::ErfInv {},
        (Kind::Exp, _) => U::Exp {},
        (Kind::Floor, _) => U::Floor {},
        (Kind::Gelu, Form::GeluTanh) => U::GeluTanh {},
        (Kind::Gelu | Kind::Gelu0, _) => U::GeluErf {},
        (Kind::HardSigmoid, _) => U::HardSigmoid { alpha: parameter(1)?, beta: parameter(2)? },
        (Kind::HSigmoid, _) => U::HSigmoid {},
        (Kind::HSwish, _) => U::HSwish { factor: k::SIXTH },
        (Kind::Log, _) => U::Log {},
        (Kind::Mish, _) => U::Mish {},
        (Kind::Negative, _) => U::Negative {},
        (Kind::Relu, _) => U::Relu {},
        (Kind::Round, Form::RoundAway) => U::RoundAway {},
        (Kind::Round, _) => U::RoundEven {},
        (Kind::Selu, _) => U::Selu { alpha: parameter(1)?, lambda: parameter(2)? },
        (Kind::Sigmoid, _) => U::Sigmoid {},
        (Kind::Sign, _) => U::Sign {},
        (Kind::Sin, _) => U::Sin {},
        (Kind::Sinh, _) => U::Sinh {},
        (Kind::SoftPlus, _) => U::SoftPlus {},
        (Kind::SoftSign, _) => U::SoftSign {},
        (Kind::Sqrt, _) => U::Sqrt {},
        (Kind::Swish, _) if cx.input_count() > 1 => match parameter(1)? {
            1.0 => U::Silu {},
            beta => U::Swish { beta },
        },
        (Kind::Swish, _) => U::Silu {},
        (Kind::Tan, _) => U::Tan {},
        (Kind::Tanh, _) => U::Tanh {},
        (kind, _) => return Err(LowerError::Unsupported(format!("{kind:?} is no formula"))),
    })
}

/// The class of numbers that a test looks for.
fn class(kind: Kind, form: Form) -> Class {
    match (kind, form) {
        (Kind::IsNaN, _) => Class::Nan,
        (_, Form::IsInf { negative, positive }) => Class::Infinite { negative, positive },
        _ => Class::Finite,
    }
}

/// The kernel that tells which numbers are of a class.
fn classify(class: Class, element_type: ElementType) -> Option<Box<dyn Kernel>> {
    use ElementType::*;
    Some(match element_type {
        F16 => Box::new(Classify::<u16>(Patterns::of(class, f16::INFINITY.to_bits().into()))),
        BF16 => Box::new(Classify::<u16>(Patterns::of(class, bf16::INFINITY.to_bits().into()))),
        F32 => Box::new(Classify::<u32>(Patterns::of(class, f32::INFINITY.to_bits().into()))),
        F64 => {
            Box::new(Classify::<u64>(Patterns::of(class, f64::INFINITY.to_bits().cast_signed())))
        }
        I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64 => Box::new(All(class == Class::Finite)),
        _ => return None,
    })
}

/// An integer function in the width of its type.
fn integer(element_type: ElementType, function: k::IntUnary) -> Option<Box<dyn Kernel>> {
    use ElementType::*;
    Some(match element_type {
        I8 => Box::new(Integer::<i8>::new(function)),
        I16 => Box::new(Integer::<i16>::new(function)),
        I32 => Box::new(Integer::<i32>::new(function)),
        I64 => Box::new(Integer::<i64>::new(function)),
        // Unsigned types share the kernels of signed ones: the bits are the same in two's
        // complement, and functions of the sign do nothing.
        U8 | U16 | U32 | U64 if matches!(function, k::IntUnary::Abs | k::IntUnary::Relu) => {
            Box::new(SameBytes)
        }
        U8 if function != k::IntUnary::Sign => Box::new(Integer::<i8>::new(function)),
        U16 if function != k::IntUnary::Sign => Box::new(Integer::<i16>::new(function)),
        U32 if function != k::IntUnary::Sign => Box::new(Integer::<i32>::new(function)),
        U64 if function != k::IntUnary::Sign => Box::new(Integer::<i64>::new(function)),
        U8 | U16 | U32 | U64 => return rounded(element_type, k::Unary::Sign {}),
        _ => return None,
    })
}

/// A function of real numbers, applied to integers.
fn integer_function(element_type: ElementType, function: k::Unary) -> Option<Box<dyn Kernel>> {
    use k::Unary as U;
    let exact = match function {
        U::Abs {} => Some(k::IntUnary::Abs),
        U::Negative {} => Some(k::IntUnary::Negative),
        U::Relu {} => Some(k::IntUnary::Relu),
        U::Sign {} => Some(k::IntUnary::Sign),
        _ => None,
    };
    match (exact, function) {
        (Some(exact), _) => integer(element_type, exact),
        (None, U::Ceil {} | U::Floor {} | U::RoundEven {} | U::RoundAway {}) => {
            element_type.is_integral().then(|| Box::new(SameBytes) as Box<dyn Kernel>)
        }
        (None, U::Clamp { low, high }) => with_type!(element_type, integer T => {
            // Casts saturate: a bound beyond the range of the type becomes the end of the range.
            let bounds = (low.ceil() as T, high.floor() as T);
            Box::new(ClampInt::<T> { bounds }) as Box<dyn Kernel>
        }),
        (None, function) => rounded(element_type, function),
    }
}

/// The kernel of a function of real numbers whose results are rounded to integers.
fn rounded(element_type: ElementType, function: k::Unary) -> Option<Box<dyn Kernel>> {
    with_type!(element_type, integer T => {
        Box::new(Rounded::<T> { function, limits: (T::MIN, T::MAX) }) as Box<dyn Kernel>
    })
}

/// A function of every element of an f32 tensor.
pub(crate) struct ElementWise {
    pub(crate) function: k::Unary,
}

impl Kernel for ElementWise {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        k::unary_f32(cx.threads(), self.function, &mut cx.in_out(0, 0));
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        Reuse::InPlace(InputSet::one(0))
    }

    fn name(&self) -> &'static str {
        "unary"
    }
}

struct Float64 {
    function: k::Unary,
}

impl Kernel for Float64 {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        k::unary_f64(cx.threads(), self.function, &mut cx.in_out(0, 0));
        Ok(())
    }

    fn reuse(&self) -> Reuse {
        Reuse::InPlace(InputSet::one(0))
    }

    fn name(&self) -> &'static str {
        "unary"
    }
}

/// f16 or bf16, computed in f32.
struct Half {
    function: k::Unary,
    decode: Decoder<f32>,
    encode: Encoder<f32>,
}

impl Kernel for Half {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let (from, to) = (cx.input_bytes(0), cx.output_bytes(0));
        let (from, to) = ((from, 2, self.decode), (to, 2, self.encode));
        k::unary_via_f32(cx.threads(), self.function, from, to);
        Ok(())
    }

    fn name(&self) -> &'static str {
        "unary"
    }
}

struct Integer<T> {
    function: k::IntUnary,
    of: PhantomData<T>,
}

impl<T> Integer<T> {
    fn new(function: k::IntUnary) -> Integer<T> {
        Integer { function, of: PhantomData }
    }
}

impl<T: Stored<Wide = i64>> Kernel for Integer<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        k::unary_int::<T>(cx.threads(), self.function, cx.input(0), cx.output(0));
        Ok(())
    }

    fn name(&self) -> &'static str {
        "unary"
    }
}

struct Rounded<T> {
    function: k::Unary,
    limits: (T, T),
}

impl<T: Stored> Kernel for Rounded<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let (from, to) = (cx.input(0), cx.output(0));
        k::unary_via_f64::<T>(cx.threads(), self.function, self.limits, from, to);
        Ok(())
    }

    fn name(&self) -> &'static str {
        "unary"
    }
}

struct ClampInt<T> {
    bounds: (T, T),
}

impl<T: Stored + PartialOrd> Kernel for ClampInt<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        k::clamp_int(cx.threads(), self.bounds, cx.input(0), cx.output(0));
        Ok(())
    }

    fn name(&self) -> &'static str {
        "clamp"
    }
}

struct Classify<B>(Patterns<B>);

impl<B: Bits> Kernel for Classify<B> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        kernels::classify::classify(cx.threads(), self.0, cx.input(0), cx.output(0));
        Ok(())
    }

    fn name(&self) -> &'static str {
        "classify"
    }
}

/// One answer for all elements: integers are finite.
struct All(bool);

impl Kernel for All {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        cx.output::<u8>(0).fill(self.0.into());
        Ok(())
    }

    fn name(&self) -> &'static str {
        "fill"
    }
}

/// Logical negation of numbers, in their own type.
struct NotNumber<T>(PhantomData<T>);

impl<T: Stored> Kernel for NotNumber<T> {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let (from, to) = (cx.input::<T>(0), cx.output::<T>(0));
        for (to, from) in to.iter_mut().zip(from) {
            let number: f64 = from.widen().narrow();
            *to = T::from_i64(i64::from(number == 0.0));
        }
        Ok(())
    }

    fn name(&self) -> &'static str {
        "not"
    }
}

/// Logical negation.
struct Not;

impl Kernel for Not {
    fn run(&self, cx: &mut RunCx<'_>) -> Result<(), KernelError> {
        let (from, to) = (cx.input::<u8>(0), cx.output::<u8>(0));
        for (to, from) in to.iter_mut().zip(from) {
            *to = u8::from(*from == 0);
        }
        Ok(())
    }

    fn name(&self) -> &'static str {
        "not"
    }
}
