//! The forms in which networks of Leela's take their 112 planes.

/// The rule by which a position becomes the 112 planes, in the order in which the formats came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeelaInput {
    /// Planes of ones for the four rights to castle.
    Classical,
    /// Two planes with the rooks that may castle, as Chess960 needs.
    CastlingRooks,
    /// And symmetrical positions are [turned](super::symmetry::Symmetry) to one of them, the
    /// en-passant file is given instead of the mover's colour, and boards stop at the last move that
    /// cannot be taken back.
    Canonical,
    /// And the fifty-move counter is given in hundreds of plies.
    Hectoplies,
    /// As before, with a plane of ones where Black moves, for Armageddon games.
    HectopliesArmageddon,
    /// Of the boards before, only those that had occurred earlier are given.
    Repeats,
    /// As before, with a plane of ones where Black moves, for Armageddon games.
    RepeatsArmageddon,
}

impl LeelaInput {
    /// Every form.
    pub const ALL: [Self; 7] = [
        Self::Classical,
        Self::CastlingRooks,
        Self::Canonical,
        Self::Hectoplies,
        Self::HectopliesArmageddon,
        Self::Repeats,
        Self::RepeatsArmageddon,
    ];

    /// The name in network files of ours.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Classical => "leela-112",
            Self::CastlingRooks => "leela-112-castling",
            Self::Canonical => "leela-112-canonical",
            Self::Hectoplies => "leela-112-hectoplies",
            Self::HectopliesArmageddon => "leela-112-hectoplies-armageddon",
            Self::Repeats => "leela-112-repeats",
            Self::RepeatsArmageddon => "leela-112-repeats-armageddon",
        }
    }

    /// The number in files of Leela's.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            Self::Classical => 1,
            Self::CastlingRooks => 2,
            Self::Canonical => 3,
            Self::Hectoplies => 4,
            Self::HectopliesArmageddon => 132,
            Self::Repeats => 5,
            Self::RepeatsArmageddon => 133,
        }
    }

    /// The form of this number.
    #[must_use]
    pub fn of_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|input| input.number() == number)
    }

    pub(super) fn has_castling_rooks(self) -> bool {
        self > Self::Classical
    }

    pub(super) fn is_canonical(self) -> bool {
        self >= Self::Canonical
    }

    pub(super) fn is_in_hectoplies(self) -> bool {
        self >= Self::Hectoplies
    }

    pub(super) fn has_repeats_only(self) -> bool {
        self >= Self::Repeats
    }

    pub(super) fn is_armageddon(self) -> bool {
        matches!(self, Self::HectopliesArmageddon | Self::RepeatsArmageddon)
    }
}
