//! Hashing of strings to buckets.

/// The bucket of a string, below `buckets`: FarmHash's fingerprint modulo `buckets`, as in
/// TensorFlow.
pub fn bucket(string: &[u8], buckets: u64) -> u64 {
    farmhash::fingerprint64(string) % buckets.max(1)
}
