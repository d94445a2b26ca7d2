//! Memory that outlives a step: buffers, packed weights, variables, and what the plans of a
//! session share.

pub(crate) mod kv_cache;
pub(crate) mod observe;
pub(crate) mod pool;
pub(crate) mod prepack;
pub(crate) mod profile;
pub(crate) mod resources;
pub(crate) mod variables;
