//! The score of a position as protocols, files of games and searches share it.

/// A score, from the side of the player to move unless its owner states another side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Score {
    /// Centipawns.
    Centipawns(i32),
    /// Mate in this many full moves; negative: the side to move is mated; 0: it is mated already.
    Mate(i32),
}

impl Score {
    /// A number for comparisons: the larger it is, the better for the side to move.
    #[must_use]
    pub fn order(self) -> i32 {
        match self {
            Self::Centipawns(value) => value,
            Self::Mate(moves) if moves > 0 => 1_000_000 - moves,
            Self::Mate(moves) => -1_000_000 - moves,
        }
    }

    /// The same score from the other side. A mate on the board is 0 for both.
    #[must_use]
    pub fn turned(self) -> Self {
        match self {
            Self::Centipawns(value) => Self::Centipawns(-value),
            Self::Mate(moves) => Self::Mate(-moves),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorter_mates_are_better_and_longer_defences_too() {
        let rising = [
            Score::Mate(0),
            Score::Mate(-1),
            Score::Mate(-9),
            Score::Centipawns(-30_000),
            Score::Centipawns(0),
            Score::Centipawns(30_000),
            Score::Mate(9),
            Score::Mate(1),
        ];
        // Being mated already and mate in one against the side to move are the worst two.
        assert!(rising[1..].is_sorted_by(|a, b| a.order() < b.order()));
        assert!(rising[0].order() <= rising[1].order());
    }
}
