//! Generates the demo image and tone: uncompressed PNG and WAV.

/// Draws a joint of two timbers as PNG, 8 to 256 pixels wide and high.
pub(super) fn picture(size: u32) -> Vec<u8> {
    let size = size.clamp(8, 256);
    let mut rows = Vec::new();
    for y in 0..size {
        // Filter type 0: none.
        rows.push(0);
        for x in 0..size {
            rows.extend(pixel_color(x * 8 / size, y * 8 / size));
        }
    }
    let mut head = Vec::new();
    head.extend(size.to_be_bytes());
    head.extend(size.to_be_bytes());
    // 8 bits per channel, RGB.
    head.extend([8, 2, 0, 0, 0]);
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    write_chunk(&mut png, b"IHDR", &head);
    write_chunk(&mut png, b"IDAT", &zlib_stored(&rows));
    write_chunk(&mut png, b"IEND", &[]);
    png
}

/// Generates a tone of half a second as WAV, 50 to 3,000 Hz.
pub(super) fn sound(hz: u32) -> Vec<u8> {
    let hz = hz.clamp(50, 3_000);
    let samples: Vec<i16> = (0..SAMPLE_RATE / 2)
        .map(|at| {
            let angle = f64::from(at) * f64::from(hz) / f64::from(SAMPLE_RATE) * std::f64::consts::TAU;
            #[allow(clippy::cast_possible_truncation, reason = "the amplitude is 12,000")]
            let sample = (angle.sin() * 12_000.0) as i16;
            sample
        })
        .collect();
    let bytes = SAMPLE_RATE / 2 * 2;
    let mut wav = b"RIFF".to_vec();
    wav.extend((36 + bytes).to_le_bytes());
    wav.extend(b"WAVEfmt ");
    wav.extend(16_u32.to_le_bytes());
    // PCM, one channel.
    wav.extend([1, 0, 1, 0]);
    wav.extend(SAMPLE_RATE.to_le_bytes());
    wav.extend((SAMPLE_RATE * 2).to_le_bytes());
    // Two bytes per frame, 16 bits per sample.
    wav.extend([2, 0, 16, 0]);
    wav.extend(b"data");
    wav.extend(bytes.to_le_bytes());
    wav.extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
    wav
}

/// Returns the colour of a pixel: two timbers that meet in a step.
fn pixel_color(x: u32, y: u32) -> [u8; 3] {
    let edge = if (3..5).contains(&y) { 5 } else { 3 };
    match (x < edge, y) {
        (_, 0 | 7) => [250, 246, 238],
        (true, _) => [193, 137, 82],
        (false, _) => [122, 78, 45],
    }
}

fn write_chunk(png: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    png.extend(u32::try_from(data.len()).unwrap_or_default().to_be_bytes());
    png.extend(kind);
    png.extend(data);
    let sum = crc32(kind.iter().chain(data));
    png.extend(sum.to_be_bytes());
}

/// Wraps data in a zlib stream without compression.
fn zlib_stored(data: &[u8]) -> Vec<u8> {
    let mut out = vec![0x78, 0x01];
    let mut blocks = data.chunks(0xffff).peekable();
    while let Some(block) = blocks.next() {
        let length = u16::try_from(block.len()).unwrap_or_default();
        out.push(u8::from(blocks.peek().is_none()));
        out.extend(length.to_le_bytes());
        out.extend((!length).to_le_bytes());
        out.extend(block);
    }
    let (mut low, mut high) = (1_u32, 0_u32);
    for byte in data {
        low = (low + u32::from(*byte)) % 65_521;
        high = (high + low) % 65_521;
    }
    out.extend((high << 16 | low).to_be_bytes());
    out
}

/// Computes the CRC-32 that PNG uses.
fn crc32<'a>(bytes: impl Iterator<Item = &'a u8>) -> u32 {
    let mut sum = u32::MAX;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
        }
    }
    !sum
}

/// Samples per second.
const SAMPLE_RATE: u32 = 8_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_match_their_standards() {
        assert_eq!(crc32(b"123456789".iter()), 0xcbf4_3926);
        assert!(zlib_stored(b"Wikipedia").ends_with(&[0x11, 0xe6, 0x03, 0x98]));
    }

    #[test]
    fn sizes_are_clamped() {
        for size in [0, 8, 64, 256, u32::MAX] {
            assert!(picture(size).starts_with(b"\x89PNG"));
        }
        assert_eq!(sound(440).len(), 44 + 8_000);
    }
}
