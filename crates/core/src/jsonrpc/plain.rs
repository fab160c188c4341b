//! How far text goes on without a byte that means something inside a JSON string.

/// How many bytes at the front are neither quote, backslash nor control character, eight at a time.
pub(super) fn plain_len(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let mut passed = 0;
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let Ok(word) = word.try_into().map(u64::from_le_bytes) else { break };
        // The usual zero-byte test, for three needles at once. A borrow can only mark bytes above the first
        // hit, so the lowest mark is exact.
        let quote = word ^ (ONES * b'"' as u64);
        let slash = word ^ (ONES * b'\\' as u64);
        let hits = ((quote.wrapping_sub(ONES) & !quote)
            | (slash.wrapping_sub(ONES) & !slash)
            | (word.wrapping_sub(ONES * 0x20) & !word))
            & HIGHS;
        if hits != 0 {
            return passed + hits.trailing_zeros() as usize / 8;
        }
        passed += 8;
    }
    passed + words.remainder().iter().take_while(|byte| !matches!(byte, b'"' | b'\\' | 0..=0x1f)).count()
}
