//! Tables whose keys are numbers we count up ourselves. Nobody can choose them so that they collide, and hashing one is a
//! multiplication.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table by numbers of our own.
pub(crate) type IntMap<T> = HashMap<i64, T, BuildHasherDefault<IntHasher>>;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct IntHasher(u64);

impl Hasher for IntHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_i64(&mut self, number: i64) {
        self.write_u64(number.cast_unsigned());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn finish(&self) -> u64 {
        // A table looks at the lowest bits and at the highest; a multiplication mixes upwards only.
        self.0 ^ (self.0 >> 32)
    }
}
