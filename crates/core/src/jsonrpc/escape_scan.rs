//! How far text goes on without a byte that means something inside a JSON string.

/// How many bytes at the front are neither quote, backslash nor control character.
///
/// Most strings are short: the first word is looked at without a call, the rest of a block by the word. What is longer
/// goes on by the block: by the word there too, since a compiler that is asked for a small executable makes no vector
/// instructions of a loop over bytes. One that is asked for a fast one still makes them of the words.
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

/// For what begins with a plain word.
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

/// For at least a word, of which the first bytes are known to be plain.
fn scan_words(bytes: &[u8], known: usize) -> usize {
    let mut rest = bytes.get(known..).unwrap_or_default();
    while let Some((word, after)) = rest.split_first_chunk() {
        let hits = escape_mask(u64::from_le_bytes(*word));
        if hits != 0 {
            return bytes.len() - rest.len() + first_match(hits);
        }
        rest = after;
    }
    // What is left is shorter than a word. One that reaches back over plain bytes finds the same.
    match bytes.last_chunk().map(|word| escape_mask(u64::from_le_bytes(*word))) {
        None | Some(0) => bytes.len(),
        Some(hits) => bytes.len() + first_match(hits) - WORD_BYTES,
    }
}

/// For less than a word.
fn scan_short(bytes: &[u8]) -> usize {
    let (Some(front), Some(back)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) else {
        return bytes.iter().take_while(|byte| !needs_escape(**byte)).count();
    };
    // The two halves of a word that is as long, with some bytes twice.
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

/// Marks special bytes with their high bits: the lowest that is set belongs to the first of them.
fn escape_mask(word: u64) -> u64 {
    escape_bits(word) & HIGH_BITS
}

/// The usual test for bytes below a bound, twice. With one bit turned over a quote is a blank and a blank is more, so that
/// one bound has the quote and all control characters below it. A borrow can only mark bytes above the first hit, and no
/// special byte has a high bit of its own.
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
    fn every_byte_is_told_apart_at_every_place() {
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
    fn the_first_of_several_is_found() {
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
