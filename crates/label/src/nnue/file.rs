//! Reads a `.nnue` file of Stockfish 15.1: numbers of fixed width, the lowest byte first.

use std::{fs::File, io::Read, path::Path};

use board::sha256;

use super::{
    STACKS, StockfishNetwork, WIDTH,
    features::FEATURES,
    stack::{FIRST, SECOND, SECOND_INPUTS, Stack},
};
use crate::LabelError;

/// The number with which every file begins.
const VERSION: u32 = 0x7AF3_2F20;
/// Names the inputs and the layers of Stockfish 15.1.
const ARCHITECTURE: u32 = 0x1C10_2EF2;
/// More bytes than any network of this kind has; what follows is not read.
const LARGEST: u64 = 1 << 26;
/// Longest text of a file about itself.
const LONGEST_TEXT: usize = 1 << 16;

pub(super) fn read(path: &Path) -> Result<StockfishNetwork, LabelError> {
    let fail = |reason: String| LabelError::Network { path: path.to_path_buf(), reason };
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LARGEST).read_to_end(&mut bytes));
    read.map_err(|error| fail(error.to_string()))?;
    let mut reader = Reader { left: &bytes };
    let network = network(&mut reader).map_err(fail)?;
    if !reader.left.is_empty() {
        return Err(fail(format!("{} bytes follow the network", reader.left.len())));
    }
    Ok(StockfishNetwork { checksum: sha256(&bytes), ..network })
}

fn network(reader: &mut Reader<'_>) -> Result<StockfishNetwork, String> {
    if reader.u32()? != VERSION {
        return Err("it is no network of Stockfish: the first four bytes are others".to_owned());
    }
    let architecture = reader.u32()?;
    if architecture != ARCHITECTURE {
        return Err(format!(
            "its inputs and layers ({architecture:08X}) are not those of Stockfish 15.1 \
             ({ARCHITECTURE:08X})"
        ));
    }
    let length = reader.u32()? as usize;
    if length > LONGEST_TEXT {
        return Err(format!("its description has {length} bytes"));
    }
    reader.take(length)?;
    reader.u32()?; // Names the inputs once more.
    let biases = reader.numbers(WIDTH, i16::from_le_bytes)?;
    let weights = reader.numbers(FEATURES * WIDTH, i16::from_le_bytes)?;
    let worths = reader.numbers(FEATURES * STACKS, i32::from_le_bytes)?;
    let worths = worths.chunks_exact(STACKS).map(|row| std::array::from_fn(|at| row[at])).collect();
    let stacks = (0..STACKS).map(|_| stack(reader)).collect::<Result<_, _>>()?;
    Ok(StockfishNetwork { checksum: String::new(), biases, weights, worths, stacks })
}

fn stack(reader: &mut Reader<'_>) -> Result<Stack, String> {
    reader.u32()?; // Names the layers once more.
    let wide = |bytes| i16::from(i8::from_le_bytes(bytes));
    let first_bias = reader.array(i32::from_le_bytes)?;
    let first = reader.numbers(FIRST * WIDTH, wide)?;
    let second_bias = reader.array(i32::from_le_bytes)?;
    let second = reader.numbers(SECOND * SECOND_INPUTS, wide)?;
    let [last_bias] = reader.array(i32::from_le_bytes)?;
    let last = reader.array(wide)?;
    Ok(Stack { first_bias, first, second_bias, second, last_bias, last })
}

/// The rest of a file.
struct Reader<'a> {
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, left) = self.left.split_at_checked(length).ok_or("it ends too early")?;
        self.left = left;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32, String> {
        let [number] = self.array(u32::from_le_bytes)?;
        Ok(number)
    }

    /// As many numbers as `count`, each of `BYTES` bytes.
    fn numbers<const BYTES: usize, T>(
        &mut self,
        count: usize,
        number: impl Fn([u8; BYTES]) -> T,
    ) -> Result<Vec<T>, String> {
        let (bytes, _) = self.take(count * BYTES)?.as_chunks();
        Ok(bytes.iter().map(|&bytes| number(bytes)).collect())
    }

    fn array<const BYTES: usize, T: Copy + Default, const COUNT: usize>(
        &mut self,
        number: impl Fn([u8; BYTES]) -> T,
    ) -> Result<[T; COUNT], String> {
        let numbers = self.numbers(COUNT, number)?;
        Ok(std::array::from_fn(|at| numbers[at]))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use board::SplitMix64;

    use super::*;

    /// The bytes of a file with random weights.
    pub(crate) fn file_of(seed: u64) -> Vec<u8> {
        let mut random = SplitMix64::new(seed);
        let mut bytes = Vec::new();
        let mut below = |most: u64| (random.next_u64() % (2 * most + 1)) as i64 - most as i64;
        for number in [VERSION, ARCHITECTURE, 4] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(*b"testnets");
        (0..WIDTH).for_each(|_| bytes.extend((below(40) as i16 + 30).to_le_bytes()));
        (0..FEATURES * WIDTH).for_each(|_| bytes.extend((below(20) as i16).to_le_bytes()));
        (0..FEATURES * STACKS).for_each(|_| bytes.extend((below(3000) as i32).to_le_bytes()));
        for _ in 0..STACKS {
            bytes.extend([0; 4]);
            for (outputs, inputs) in [(FIRST, WIDTH), (SECOND, SECOND_INPUTS), (1, SECOND)] {
                (0..outputs).for_each(|_| bytes.extend((below(2000) as i32).to_le_bytes()));
                (0..outputs * inputs).for_each(|_| bytes.push(below(60) as i8 as u8));
            }
        }
        bytes
    }

    fn reason(bytes: &[u8]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bad.nnue");
        std::fs::write(&path, bytes).unwrap();
        let text = read(&path).unwrap_err().to_string();
        let start = format!("{}: ", path.display());
        assert!(text.ends_with("`export_net FILE`"), "{text}");
        text.strip_prefix(&start).unwrap().split(';').next().unwrap().to_owned()
    }

    #[test]
    fn bad_files_are_refused_in_a_sentence() {
        let good = file_of(1);
        assert_eq!(reason(&good[..7]), "it ends too early");
        assert_eq!(reason(&good[..good.len() - 1]), "it ends too early");
        assert_eq!(
            reason(b"PK\x03\x04"),
            "it is no network of Stockfish: the first four bytes are others"
        );
        let more = [&good[..], &[0, 0]].concat();
        assert_eq!(reason(&more), "2 bytes follow the network");
        let (mut other, mut long) = (good.clone(), good);
        other[4] ^= 1;
        let expected =
            "its inputs and layers (1C102EF3) are not those of Stockfish 15.1 (1C102EF2)";
        assert_eq!(reason(&other), expected);
        long[11] = 9;
        assert_eq!(reason(&long), "its description has 150994948 bytes");
    }
}
