//! Strings to buckets.

/// The bucket of a string, one of `buckets`: FarmHash's fingerprint, as TensorFlow divides them.
pub fn bucket(string: &[u8], buckets: u64) -> u64 {
    farmhash::fingerprint64(string) % buckets.max(1)
}
