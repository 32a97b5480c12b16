//! Evaluation networks of Stockfish 15.1 (`.nnue`) as labellers, without a process that is asked
//! over a pipe for every position.
//!
//! The network (HalfKAv2_hm, two times 1,024 sums, eight stacks of three layers) sees the board
//! twice, as each player does, by pairs of a piece's square and the player's king's square.
//! Stockfish writes the file: `export_net FILE`.
//!
//! Source: the published evaluation of [Stockfish](https://stockfishchess.org), after Nasu,
//! *Efficiently Updatable Neural-Network-based Evaluation Functions for Computer Shogi*, 2018.

mod features;
mod file;
mod stack;
mod view;

#[cfg(test)]
pub(crate) use file::tests::file_of;

use std::{fmt, path::Path};

use board::{Bitboard, Color, Position, Role};

use self::{stack::Stack, view::View};
use crate::LabelError;

/// Sums of one view of the board.
const WIDTH: usize = 1024;
/// Stacks of layers, one for each four men on the board.
const STACKS: usize = 8;
/// Units of the network's output in one of Stockfish's.
const OUTPUT_UNITS: i64 = 16;
/// Stockfish's units in a hundred centipawns.
const UNITS_A_PAWN: i64 = 361;
/// No value is larger, whatever a file holds.
const MOST: i64 = 20_000;

/// A network of Stockfish 15.1.
pub struct StockfishNetwork {
    /// Lower-case SHA-256 of the file.
    checksum: String,
    biases: Vec<i16>,
    /// `[features][WIDTH]`.
    weights: Vec<i16>,
    /// `[features][STACKS]`: what a piece on a square is worth by itself.
    worths: Vec<[i32; STACKS]>,
    stacks: Vec<Stack>,
}

impl fmt::Debug for StockfishNetwork {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("StockfishNetwork")
            .field("checksum", &self.checksum)
            .finish_non_exhaustive()
    }
}

impl StockfishNetwork {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read or is not a network of Stockfish 15.1.
    pub fn open(path: &Path) -> Result<Self, LabelError> {
        file::read(path)
    }

    /// The name by which Stockfish knows the file.
    pub(crate) fn name(&self) -> String {
        format!("nn-{}", &self.checksum[..12])
    }

    /// Lower-case SHA-256 of the file.
    pub(crate) fn checksum(&self) -> &str {
        &self.checksum
    }
}

/// Evaluates positions, one after the other; a position like an earlier one is cheap.
pub(crate) struct StockfishEvaluator<'a> {
    network: &'a StockfishNetwork,
    /// The last board that each player saw with the king on each square.
    views: Vec<View>,
}

impl<'a> StockfishEvaluator<'a> {
    pub fn new(network: &'a StockfishNetwork) -> Self {
        let views = (0..128).map(|_| View::empty(&network.biases)).collect();
        Self { network, views }
    }

    /// The value of a position for the player to move, in centipawns as Stockfish counts them:
    /// material and layers are weighed as Stockfish 15.1 does when it searches, without its own
    /// optimism, and also where a large surplus of material makes it look no further.
    pub fn centipawns(&mut self, position: &Position) -> i32 {
        let pieces = Pieces::of(position);
        let (worth, layers) = self.outputs(position.turn(), &pieces);
        let material = pieces.material();
        let more = 24 - material / 9560;
        let [worth, layers, more] = [worth, layers, more].map(i64::from);
        let both = ((1024 - more) * worth + (1024 + more) * layers) / (1024 * OUTPUT_UNITS);
        let value = both * i64::from(1064 + 106 * material / 5120) / 1024;
        // What Stockfish takes from every position, and from those without progress more.
        let clock = i64::from(position.halfmove_clock().min(100));
        let centipawns = value * (195 - clock) / 211 * 100 / UNITS_A_PAWN;
        centipawns.clamp(-MOST, MOST) as i32
    }

    /// What the pieces are worth by themselves and what the layers add, in the network's units.
    /// Compiled for wider vectors too; the numbers are the same.
    fn outputs(&mut self, turn: Color, pieces: &Pieces) -> (i32, i32) {
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx2")]
            fn wide(
                evaluator: &mut StockfishEvaluator<'_>,
                turn: Color,
                pieces: &Pieces,
            ) -> (i32, i32) {
                evaluator.plain_outputs(turn, pieces)
            }
            if is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has the feature.
                return unsafe { wide(self, turn, pieces) };
            }
        }
        self.plain_outputs(turn, pieces)
    }

    #[inline(always)]
    fn plain_outputs(&mut self, turn: Color, pieces: &Pieces) -> (i32, i32) {
        let stack = ((pieces.count() - 1) / 4).min(STACKS - 1);
        let mut inputs = [0_i16; WIDTH];
        let mut worths = [0; 2];
        let players = [turn, !turn].into_iter().zip(inputs.chunks_exact_mut(WIDTH / 2));
        for ((player, inputs), worth) in players.zip(&mut worths) {
            let king = pieces.king(player);
            let view = &mut self.views[usize::from(player.is_black()) * 64 + king];
            view.update(self.network, pieces, player, king);
            view.inputs(inputs);
            *worth = view.worth(stack);
        }
        (worths[0].wrapping_sub(worths[1]) / 2, self.network.stacks[stack].output(&inputs))
    }
}

/// The squares of White's pieces from pawn to king, then of Black's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pieces([Bitboard; 12]);

impl Pieces {
    fn of(position: &Position) -> Self {
        let board = position.board();
        let mut kinds = [Bitboard::EMPTY; 12];
        for (kind, squares) in kinds.iter_mut().enumerate() {
            let color = Color::from_white(kind < 6);
            *squares = board.by_color(color) & board.by_role(Role::ALL[kind % 6]);
        }
        Self(kinds)
    }

    fn count(&self) -> usize {
        self.0.iter().map(|squares| squares.count()).sum()
    }

    /// The square of a player's king; 0 where there is none.
    fn king(&self, player: Color) -> usize {
        self.0[if player.is_white() { 5 } else { 11 }].first().map_or(0, usize::from)
    }

    /// What pieces other than pawns and kings are worth in the middle game, in Stockfish's units.
    fn material(&self) -> i32 {
        let worths = [0, 781, 825, 1276, 2538, 0];
        let kinds = self.0.iter().zip(worths.iter().cycle());
        kinds.map(|(squares, worth)| squares.count() as i32 * worth).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use board::{CastlingMode, SplitMix64};

    use super::*;

    fn network() -> StockfishNetwork {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("random.nnue");
        fs::write(&path, file_of(7)).unwrap();
        StockfishNetwork::open(&path).unwrap()
    }

    /// Positions of random games, each after the one before.
    fn positions(count: usize) -> Vec<Position> {
        let mut random = SplitMix64::new(3);
        let mut position = Position::default();
        let mut next = || {
            let moves = position.legal_moves();
            if moves.is_empty() || position.halfmove_clock() > 40 {
                position = Position::default();
            } else {
                position.play(moves[random.below(moves.len())]);
            }
            position.clone()
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn earlier_boards_and_wide_vectors_make_no_difference() {
        let network = network();
        let mut evaluator = StockfishEvaluator::new(&network);
        let mut values = Vec::new();
        for position in positions(300) {
            let (turn, pieces) = (position.turn(), Pieces::of(&position));
            let known = evaluator.outputs(turn, &pieces);
            assert_eq!(known, StockfishEvaluator::new(&network).plain_outputs(turn, &pieces));
            values.push(known);
        }
        values.sort_unstable();
        values.dedup();
        assert!(values.len() > 200, "{} values", values.len());
    }

    #[test]
    fn both_players_and_both_wings_are_alike() {
        let network = network();
        let mut evaluator = StockfishEvaluator::new(&network);
        let mut value = |fen: &str| {
            evaluator.centipawns(&Position::from_fen(fen, CastlingMode::Standard).unwrap())
        };
        let white = value("6k1/1r3pp1/4n2p/8/3Q4/2P5/5PPP/6K1 w - - 0 1");
        assert_eq!(white, value("6k1/5ppp/2p5/3q4/8/4N2P/1R3PP1/6K1 b - - 0 1"));
        assert_eq!(white, value("1k6/1pp3r1/p2n4/8/4Q3/5P2/PPP5/1K6 w - - 0 1"));
        assert_ne!(white, value("6k1/1r3pp1/4n2p/8/3Q4/2P5/5PPP/6K1 b - - 0 1"));
    }
}
