//! The number formats of weights.

use super::messages::Array;

/// Eight bytes more than any of the four formats needs for a number would be a damaged file.
fn chunks<const N: usize>(bytes: &[u8]) -> Result<impl Iterator<Item = [u8; N]>, String> {
    let (chunks, rest) = bytes.as_chunks::<N>();
    if rest.is_empty() {
        Ok(chunks.iter().copied())
    } else {
        Err(format!("an array of {} bytes holds numbers of {N} bytes", bytes.len()))
    }
}

/// How many numbers an array holds, by its bytes.
pub(super) fn count(array: &Array, default: u32) -> u64 {
    let bytes = array.params.as_ref().map_or(0, |bytes| bytes.len()) as u64;
    bytes / if array.encoding.unwrap_or(0).max(default) == 4 { 4 } else { 2 }
}

/// The numbers of an array, which must be finite; `default` is the format of arrays that name none.
pub(super) fn numbers(array: &Array, default: u32) -> Result<Vec<f32>, String> {
    let bytes = array.params.as_deref().unwrap_or_default();
    let own = array.encoding.unwrap_or(0);
    let numbers: Vec<f32> = match if own == 0 { default } else { own } {
        // A position between the smallest and the largest number, as 16 bits.
        0 | 1 => {
            let (min, max) = (array.min.unwrap_or(0.0), array.max.unwrap_or(0.0));
            let number = |bytes: [u8; 2]| {
                let share = f32::from(u16::from_le_bytes(bytes)) / 65535.0;
                (1.0 - share) * min + share * max
            };
            chunks(bytes)?.map(number).collect()
        }
        2 => chunks(bytes)?.map(|bytes| from_f16(u16::from_le_bytes(bytes))).collect(),
        3 => chunks(bytes)?
            .map(|bytes| f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16))
            .collect(),
        4 => chunks(bytes)?.map(f32::from_le_bytes).collect(),
        other => return Err(format!("its weights have an unknown number format, {other}")),
    };
    if numbers.iter().all(|number| number.is_finite()) {
        Ok(numbers)
    } else {
        Err("it holds a weight that is not finite".to_owned())
    }
}

/// A number of 16 bits: sign, five bits of exponent, ten of fraction (IEEE 754).
fn from_f16(bits: u16) -> f32 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    sign * match exponent {
        0 => fraction * 2.0_f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1.0 + fraction / 1024.0) * 2.0_f32.powi(exponent - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(encoding: Option<u32>, bytes: &[u8]) -> Array {
        let params = Some(bytes.to_vec().into());
        Array { min: Some(-2.0), max: Some(6.0), params, encoding }
    }

    #[test]
    fn all_four_formats_are_read() {
        let linear = [0, 0, 0xff, 0xff, 0xff, 0x3f];
        let found = numbers(&array(None, &linear), 1).unwrap();
        assert_eq!(found[..2], [-2.0, 6.0]);
        assert!((found[2] + 0.000_03).abs() < 1e-4, "a quarter of the way: {}", found[2]);
        let half = [0x00, 0x3c, 0x00, 0xc0, 0x01, 0x00, 0xff, 0x7b, 0x00, 0x80];
        assert_eq!(
            numbers(&array(Some(2), &half), 1).unwrap(),
            [1.0, -2.0, 2.0_f32.powi(-24), 65504.0, 0.0]
        );
        let brain = [0x80, 0x3f, 0x20, 0xc0];
        assert_eq!(numbers(&array(Some(3), &brain), 1).unwrap(), [1.0, -2.5]);
        assert_eq!(numbers(&array(Some(0), &1.25_f32.to_le_bytes()), 4).unwrap(), [1.25]);
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for (encoding, bytes, word) in [
            (1, &[1_u8, 2, 3][..], "3 bytes"),
            (4, &[0, 0, 0xc0, 0x7f], "finite"),
            (2, &[0, 0x7c], "finite"),
            (9, &[0, 0], "format, 9"),
        ] {
            let error = numbers(&array(Some(encoding), bytes), 1).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
