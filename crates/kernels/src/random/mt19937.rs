//! MT19937, the Mersenne Twister of 32-bit words.
//!
//! <https://dl.acm.org/doi/pdf/10.1145/272991.272995>, seeded from several numbers as C++ does:
//! <https://eel.is/c++draft/rand.util.seedseq>

/// Words of the state.
const STATE: usize = 624;

/// The generator.
pub struct Mt19937 {
    state: [u32; STATE],
    next: usize,
}

impl Mt19937 {
    /// The sequence of one seed, as in PyTorch and `std::mt19937`.
    pub fn new(seed: u32) -> Mt19937 {
        let mut state = [seed; STATE];
        for i in 1..STATE {
            let last = state[i - 1];
            state[i] = (last ^ last >> 30).wrapping_mul(1_812_433_253).wrapping_add(i as u32);
        }
        Mt19937 { state, next: STATE }
    }

    /// The sequence of several seeds, as in `std::mt19937` with a `std::seed_seq` of them.
    pub fn of_seeds(seeds: &[u32]) -> Mt19937 {
        let mut state = [0x8b8b_8b8b_u32; STATE];
        let mixed = |x: u32| x ^ x >> 27;
        let places = |k: usize| [k, k + 306, k + 317, k + STATE - 1].map(|i| i % STATE);
        let rounds = STATE.max(seeds.len() + 1);
        for k in 0..rounds {
            let [at, near, far, last] = places(k);
            let word = mixed(state[at] ^ state[near] ^ state[last]).wrapping_mul(1_664_525);
            let seed = match k {
                0 => seeds.len() as u32,
                _ => (at as u32).wrapping_add(seeds.get(k - 1).copied().unwrap_or(0)),
            };
            state[near] = state[near].wrapping_add(word);
            state[at] = word.wrapping_add(seed);
            state[far] = state[far].wrapping_add(state[at]);
        }
        for k in rounds..rounds + STATE {
            let [at, near, far, last] = places(k);
            let sum = state[at].wrapping_add(state[near]).wrapping_add(state[last]);
            let word = mixed(sum).wrapping_mul(1_566_083_941);
            state[near] ^= word;
            state[at] = word.wrapping_sub(at as u32);
            state[far] ^= state[at];
        }
        Mt19937 { state, next: STATE }
    }

    /// The next word.
    pub fn word(&mut self) -> u32 {
        if self.next == STATE {
            for i in 0..STATE {
                let after = self.state[(i + 1) % STATE];
                let mixed = self.state[i] & 0x8000_0000 | after & 0x7fff_ffff;
                let twist = if after & 1 == 1 { 0x9908_b0df } else { 0 };
                self.state[i] = self.state[(i + 397) % STATE] ^ mixed >> 1 ^ twist;
            }
            self.next = 0;
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= y << 7 & 0x9d2c_5680;
        y ^= y << 15 & 0xefc6_0000;
        y ^ y >> 18
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ten-thousandth number of the default seed, from the C++ standard.
    #[test]
    fn one_seed() {
        let mut mt19937 = Mt19937::new(5489);
        let last = (0..10_000).map(|_| mt19937.word()).last();
        assert_eq!(last, Some(4_123_659_995));
    }

    /// The numbers of `std::mt19937` with a `std::seed_seq`, from GNU's library.
    #[test]
    fn several_seeds() {
        let words = |seeds: &[u32]| {
            let mut mt19937 = Mt19937::of_seeds(seeds);
            [(); 3].map(|()| mt19937.word())
        };
        assert_eq!(words(&[]), [2_872_601_305, 4_078_552_948, 3_385_508_327]);
        assert_eq!(words(&[3, 4]), [2_422_018_886, 165_651_559, 3_751_712_331]);
        let many: Vec<u32> = (0..700).collect();
        assert_eq!(words(&many), [3_438_523_892, 2_754_894_140, 315_453_388]);
    }
}
