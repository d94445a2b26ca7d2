//! Dispatch over element types, once, when the kernel is chosen.

/// The kernel that an expression makes with `$t` as the Rust type of an input of a [`LowerCx`];
/// [`LowerError::Unsupported`] when the class of types does not have it.
///
/// [`LowerCx`]: crate::kernel::lower::LowerCx
/// [`LowerError::Unsupported`]: crate::kernel::lower::LowerError::Unsupported
macro_rules! kernel_for {
    ($cx:expr, $input:expr, $class:ident $t:ident => $kernel:expr) => {{
        let element_type = $cx.element_type($input);
        let kernel = $crate::tensor::dispatch::with_type!(element_type, $class $t => {
            Box::new($kernel) as Box<dyn $crate::kernel::Kernel>
        });
        kernel.ok_or_else(|| $crate::kernel::lower::LowerError::element_type($input, element_type))
    }};
}

pub(crate) use kernel_for;
