//! The published systems. Each network belongs to one, which decides how moves are chosen with it.

use std::str::FromStr;

use crate::{Description, Encoding, HeadKind};

/// A published system that plays chess with networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum System {
    /// Batch First (2018): searches that take many positions at a time.
    BatchFirst,
    /// Cockfish (2026): alpha-beta over a small value network.
    Cockfish,
    /// ConvChess (2015): move probabilities, without a search.
    ConvChess,
}

impl System {
    /// All systems, the default first.
    pub const ALL: [Self; 3] = [Self::BatchFirst, Self::Cockfish, Self::ConvChess];

    /// Name in options and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::BatchFirst => "batch-first",
            Self::Cockfish => "cockfish",
            Self::ConvChess => "convchess",
        }
    }

    /// The system that a network is made for. A network without a value head belongs to ConvChess;
    /// otherwise the input encoding decides.
    #[must_use]
    pub fn of(description: &Description) -> Self {
        let has_no_value = description.heads.iter().all(|head| head.kind != HeadKind::Value);
        match description.encoding {
            _ if has_no_value => Self::ConvChess,
            Encoding::BatchFirst15
            | Encoding::Attacks21
            | Encoding::KingRight21
            | Encoding::Leela(_) => Self::BatchFirst,
            Encoding::Cockfish13 => Self::Cockfish,
            Encoding::ConvChess6 => Self::ConvChess,
        }
    }
}

impl std::fmt::Display for System {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for System {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|system| system.name() == text).ok_or_else(|| {
            format!("`{text}` is not a system; there are {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cockfish, ConvChess};

    #[test]
    fn every_published_description_has_its_system() {
        let batch_first =
            [Description::batch_first(&[HeadKind::Value]), Description::batch_first_shared()];
        assert!(
            batch_first.iter().all(|description| System::of(description) == System::BatchFirst)
        );
        assert_eq!(System::of(&Description::cockfish(&Cockfish::default())), System::Cockfish);
        for head in [HeadKind::From, HeadKind::QueenTo] {
            let description = Description::convchess(&ConvChess::default(), &[head]);
            assert_eq!(System::of(&description), System::ConvChess);
        }
        for system in System::ALL {
            assert_eq!(system.name().parse(), Ok(system));
        }
        assert!("sunfish".parse::<System>().is_err());
    }
}
