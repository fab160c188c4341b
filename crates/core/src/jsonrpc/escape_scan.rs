//! Finds the first byte of a JSON string that ends it or needs an escape, eight bytes at a time.
//!
//! Measured: with the release profile, which is optimized for size, a byte-by-byte loop is not vectorized and made a
//! result with 100 KiB of text 3 times as expensive.

/// The number of bytes at the front that are neither quote, backslash nor control character.
///
/// Most strings are short: the first word is checked inline, the rest of a block by the word. Longer strings go on by
/// the block, also in words: optimized for size, the compiler does not vectorize a loop over bytes; optimized for
/// speed, it vectorizes the words too.
#[inline(always)]
pub(super) fn unescaped_len(bytes: &[u8]) -> usize {
    match bytes.first_chunk() {
        Some(word) => match escape_mask(u64::from_le_bytes(*word)) {
            0 => scan_long(bytes),
            hits => first_match(hits),
        },
        None => scan_short(bytes),
    }
}

/// The length for text that begins with an unescaped word.
fn scan_long(bytes: &[u8]) -> usize {
    let Some((head, rest)) = bytes.split_first_chunk::<BLOCK_BYTES>() else {
        return scan_words(bytes, WORD_BYTES);
    };
    let length = scan_words(head, WORD_BYTES);
    if length < BLOCK_BYTES {
        return length;
    }
    let rest = skip_unescaped_blocks(rest);
    bytes.len() - rest.len() + if rest.len() < WORD_BYTES { scan_short(rest) } else { scan_words(rest, 0) }
}

fn skip_unescaped_blocks(mut rest: &[u8]) -> &[u8] {
    while let Some((block, after)) = rest.split_first_chunk::<BLOCK_BYTES>() {
        let (words, _) = block.as_chunks();
        let [a, b, c, d, e, f, g, h] = words else { break };
        let any = |one, other| escape_bits(u64::from_le_bytes(one)) | escape_bits(u64::from_le_bytes(other));
        if (any(*a, *b) | any(*c, *d) | any(*e, *f) | any(*g, *h)) & HIGH_BITS != 0 {
            break;
        }
        rest = after;
    }
    rest
}

/// The length for at least one word, of which the first `known` bytes are unescaped.
fn scan_words(bytes: &[u8], known: usize) -> usize {
    let mut rest = bytes.get(known..).unwrap_or_default();
    while let Some((word, after)) = rest.split_first_chunk() {
        let hits = escape_mask(u64::from_le_bytes(*word));
        if hits != 0 {
            return bytes.len() - rest.len() + first_match(hits);
        }
        rest = after;
    }
    // The rest is shorter than a word: a word that reaches back over unescaped bytes gives the same result.
    match bytes.last_chunk().map(|word| escape_mask(u64::from_le_bytes(*word))) {
        None | Some(0) => bytes.len(),
        Some(hits) => bytes.len() + first_match(hits) - WORD_BYTES,
    }
}

/// The length for less than a word.
fn scan_short(bytes: &[u8]) -> usize {
    let (Some(front), Some(back)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) else {
        return bytes.iter().take_while(|byte| !needs_escape(**byte)).count();
    };
    // Two overlapping halves make one word.
    let word = u64::from(u32::from_le_bytes(*front)) | u64::from(u32::from_le_bytes(*back)) << 32;
    match escape_mask(word) {
        0 => bytes.len(),
        hits if first_match(hits) < 4 => first_match(hits),
        hits => bytes.len() + first_match(hits) - WORD_BYTES,
    }
}

fn first_match(hits: u64) -> usize {
    hits.trailing_zeros() as usize / 8
}

/// Sets the high bit of each byte that needs an escape: the lowest bit set belongs to the first of them.
fn escape_mask(word: u64) -> u64 {
    escape_bits(word) & HIGH_BITS
}

/// The usual test for bytes below a bound, twice. With one bit flipped, a quote becomes a space and a space becomes
/// greater, so that one bound has the quote and all control characters below it. A borrow can only mark bytes above the
/// first match, and no byte that needs an escape has its own high bit set.
#[inline(always)]
fn escape_bits(word: u64) -> u64 {
    let quote = (word ^ (LOW_BITS * 0x02)).wrapping_sub(LOW_BITS * 0x21);
    let slash = (word ^ (LOW_BITS * b'\\' as u64)).wrapping_sub(LOW_BITS);
    (quote | slash) & !word
}

fn needs_escape(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
const WORD_BYTES: usize = 8;
const BLOCK_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_classified_at_every_offset() {
        for length in 0..3 * BLOCK_BYTES {
            for fill in [b'x', 0x20, 0x21, 0x23, 0x5b, 0x5d, 0x7f, 0x80, 0xa2, 0xdc, 0xff] {
                assert_eq!(unescaped_len(&vec![fill; length]), length);
            }
        }
        for length in (0..20).chain([63, 64, 65, 71, 72, 130, 200]) {
            for at in 0..length {
                let mut bytes = vec![b'x'; length];
                for byte in 0..=u8::MAX {
                    bytes[at] = byte;
                    let expected = if matches!(byte, b'"' | b'\\' | 0..=0x1f) { at } else { length };
                    assert_eq!(unescaped_len(&bytes), expected, "{byte} at {at} of {length}");
                }
            }
        }
    }

    #[test]
    fn first_of_several_matches_is_found() {
        for first in [b'"', b'\\', 0, 0x1f] {
            for (second, at) in
                [b'"', b'\\', 0, 0x1f].into_iter().flat_map(|byte| (0..80).map(move |at| (byte, at)))
            {
                let mut bytes = vec![0xa2; 100];
                bytes[at] = first;
                bytes[at + 1..].fill(second);
                assert_eq!(unescaped_len(&bytes), at);
            }
        }
    }
}
