//! What a kernel runs on, and what weights are packed by.

use super::aligned_buf::WeightArena;
use super::par::Threads;
use super::scratch::ScratchPool;

/// The threads of a run, and its scratch memory.
#[derive(Clone, Copy)]
pub struct Workers<'a> {
    /// The threads.
    pub threads: &'a Threads,
    /// The scratch memory.
    pub scratch: &'a ScratchPool,
}

/// The threads that pack weights, and the arena that the weights go to.
#[derive(Clone, Copy)]
pub struct Packer<'a> {
    /// The threads.
    pub threads: &'a Threads,
    /// The arena.
    pub arena: &'a WeightArena,
}

impl<'a> Packer<'a> {
    /// Each buffer has an allocation of its own, for weights that are used once.
    pub fn unpooled(threads: &'a Threads) -> Packer<'a> {
        Packer { threads, arena: WeightArena::unpooled() }
    }
}
