//! The metrics of a validation, as stored in the journal, reports and exported networks.

use nets::HeadKind;
use serde::{Deserialize, Serialize};

use crate::metrics::{spearman, tau_b, weighted_tau};

/// Phase of a game by the number of men on the board, kings included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GamePhase {
    /// 26 men and more.
    Opening,
    /// 13 to 25 men.
    Middlegame,
    /// 12 men and fewer.
    Endgame,
}

impl GamePhase {
    /// All, in the order of a game.
    pub const ALL: [Self; 3] = [Self::Opening, Self::Middlegame, Self::Endgame];

    /// The phase of a position with this many men.
    #[must_use]
    pub fn of(men: u8) -> Self {
        match men {
            26.. => Self::Opening,
            13..=25 => Self::Middlegame,
            _ => Self::Endgame,
        }
    }

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Middlegame => "middlegame",
            Self::Endgame => "endgame",
        }
    }
}

/// Rank correlations of one set of positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankCorrelations {
    pub positions: usize,
    #[serde(deserialize_with = "number_or_nan")]
    pub tau_b: f64,
    #[serde(deserialize_with = "number_or_nan")]
    pub weighted_tau: f64,
    #[serde(deserialize_with = "number_or_nan")]
    pub spearman: f64,
}

/// JSON has no NaN, so an undefined metric is written as null.
pub(crate) fn number_or_nan<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

impl RankCorrelations {
    /// Correlates labels with logits; both have one entry for each position.
    pub(crate) fn of(labels: &[f64], logits: &[f64]) -> Self {
        Self {
            positions: labels.len(),
            tau_b: tau_b(labels, logits),
            weighted_tau: weighted_tau(labels, logits),
            spearman: spearman(labels, logits),
        }
    }
}

/// Agreement of a move head with the played moves, or of a selector with its target squares.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    pub positions: usize,
    /// Share of positions whose played move (or target square) has the highest score.
    pub top_1: f64,
    /// Share of positions whose played move (or target square) is among the three highest scores.
    pub top_3: f64,
    /// Mean negative logarithm of the probability of the played move (without mistakes) or of the
    /// target square.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cross_entropy: Option<f64>,
    /// For a selector: share of positions whose target square is first among the squares of legal
    /// moves of its piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub legal: Option<f64>,
    /// For a selector: number of positions that are not in the training data, and the share of them
    /// whose target square is first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen: Option<(usize, f64)>,
    /// For a policy, for comparison with the seven selectors of ConvChess: the selector, the number
    /// of its positions, and the share of them whose target square has the highest summed
    /// probability of legal moves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<(HeadKind, usize, f64)>,
}

/// The validation metrics of one source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ValidationMetrics {
    pub source: String,
    /// The validated head; `None` in journals of early versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<HeadKind>,
    /// Mean pairwise loss in batches of 1024; for a policy or a selector the cross entropy.
    #[serde(deserialize_with = "number_or_nan")]
    pub loss: f64,
    /// Rank correlations without positions labelled as mates; the headline metric. A policy is not
    /// comparable between positions, so it has no ranking.
    pub ranking: RankCorrelations,
    pub with_mates: RankCorrelations,
    /// Without mates, in the order of [`GamePhase::ALL`].
    pub phases: Vec<RankCorrelations>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agreement: Option<Agreement>,
}

/// The metrics of one source in one line.
#[must_use]
pub fn summary(measures: &ValidationMetrics) -> String {
    let ranking = &measures.ranking;
    let mut line = if ranking.positions == 0 {
        format!("cross entropy {:.4}", measures.loss)
    } else {
        format!(
            "tau-b {:.4}, weighted tau {:.4}, rho {:.4} ({} positions without mates); with mates tau-b {:.4}; \
             loss {:.4}",
            ranking.tau_b,
            ranking.weighted_tau,
            ranking.spearman,
            ranking.positions,
            measures.with_mates.tau_b,
            measures.loss
        )
    };
    if let Some(agreement) = &measures.agreement {
        line += &format!(
            "; played move first {:.1} %, in the first three {:.1} % of {} positions",
            100.0 * agreement.top_1,
            100.0 * agreement.top_3,
            agreement.positions
        );
        if let Some(legal) = agreement.legal {
            line += &format!("; {:.1} % among squares of legal moves", 100.0 * legal);
        }
        if let Some((positions, share)) = agreement.unseen {
            line += &format!(
                "; {:.1} % in the {positions} positions that no training game holds",
                100.0 * share
            );
        }
        for (head, positions, share) in &agreement.choices {
            line += &format!("; {} {:.1} % of {positions}", head.name(), 100.0 * share);
        }
    }
    line
}
