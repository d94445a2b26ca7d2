//! What all plans of a session share.

use crate::limits::RunLimits;
use crate::memory::observe::Observation;
use crate::memory::pool::Pool;
use crate::memory::prepack::Store;
use crate::memory::profile::Profile;
use crate::memory::variables::Variables;
use crate::options::Options;
use infer::Extensions;
use kernels::ScratchPool;
use kernels::par::Threads;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// What all plans of a session share.
pub(crate) struct Resources {
    pub(crate) options: Options,
    /// The extensions of the program.
    pub(crate) extensions: Extensions,
    pub(crate) limits: RunLimits,
    pub(crate) threads: Arc<Threads>,
    pub(crate) store: Arc<Store>,
    pub(crate) pool: Pool,
    pub(crate) scratch: ScratchPool,
    pub(crate) variables: RefCell<Variables>,
    pub(crate) profile: RefCell<Option<Profile>>,
    /// The observer of layer values.
    pub(crate) observation: Observation,
    /// Floating-point operations of all kernels so far.
    pub(crate) flops: Cell<u64>,
}

impl Resources {
    pub(crate) fn new(options: Options, threads: Arc<Threads>, store: Arc<Store>) -> Resources {
        Resources {
            limits: RunLimits::new(options.limits.clone()),
            options,
            extensions: Extensions::default(),
            threads,
            store,
            pool: Pool::default(),
            scratch: ScratchPool::default(),
            variables: RefCell::default(),
            profile: RefCell::default(),
            observation: Observation::default(),
            flops: Cell::default(),
        }
    }
}
