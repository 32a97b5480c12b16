//! The principal variation, read out of the search cache.

use board::{Move, Position};

use super::{KBest, keys::cache_key, opponent::ReplyPenalty};
use crate::{
    cache::Bounds,
    limits::LARGEST_DEPTH,
    quiet::forcing_among,
    rules::ended,
    score::{Value, child_bound_with_penalty},
    selectivity::PLY,
};

/// What a line claims of one of its positions: that its value reaches a bound, or misses it.
#[derive(Clone, Copy)]
struct Claim {
    depth: i16,
    bound: Value,
    /// Is the value at least the bound, or less?
    reaches: bool,
}

impl Claim {
    /// The claim of the position after a move that counts `penalty` less than it is worth.
    fn of_child(self, penalty: Value) -> Self {
        let depth = (self.depth - PLY).max(0);
        Self { depth, bound: child_bound_with_penalty(self.bound, penalty), reaches: !self.reaches }
    }

    fn is_shown_by(self, lower: Value, upper: Value) -> bool {
        if self.reaches { lower >= self.bound } else { upper < self.bound }
    }
}

/// A position of the line, and what the cache knows of it.
struct Step {
    mv: Move,
    position: Position,
    claim: Claim,
    bounds: Option<Bounds>,
}

impl KBest {
    /// Follows the moves that show, by the bounds in the cache, that the root is worth at least
    /// `lower`. The best move in the cache may be that of another pass, which asked another
    /// question. Where the root may be a draw (`lower` to `upper`), a reply that draws at once
    /// comes before others: each reply misses its bound there.
    pub(super) fn principal_variation(
        &self,
        root: &Position,
        first: Move,
        depth: i16,
        (lower, upper): (Value, Value),
    ) -> Vec<Move> {
        let is_drawn = lower <= 0 && upper >= 0;
        let mut line = vec![first];
        let mut position = root.after(first);
        let mut seen = vec![root.key(), position.key()];
        // The first move reaches the bound if the reply misses that of the child, and so on.
        let mut claim = Claim { depth, bound: lower, reaches: true }.of_child(0);
        let mut known = self.bounds_of(&position, claim);
        while let Some(bounds) = known
            && line.len() < LARGEST_DEPTH as usize
        {
            let declines_captures = claim.depth == 0
                && !position.is_check()
                && self.cache.value(position.key()) >= Some(bounds.lower);
            if declines_captures {
                break;
            }
            if is_drawn
                && !claim.reaches
                && let Some(reply) = self.drawing_reply(&position, &seen)
            {
                line.push(reply);
                break;
            }
            let Some(step) = self.next_step(&position, claim, bounds.best, line.len(), &seen)
            else {
                break;
            };
            line.push(step.mv);
            seen.push(step.position.key());
            (position, claim, known) = (step.position, step.claim, step.bounds);
        }
        line
    }

    /// A move that repeats a position of the line, or draws by the rules or the tables.
    fn drawing_reply(&self, position: &Position, seen: &[u64]) -> Option<Move> {
        position.legal_moves().into_iter().find(|&mv| {
            let after = position.after(mv);
            seen.contains(&after.key()) || ended(&after, self.settings.tables.as_deref()) == Some(0)
        })
    }

    /// The first move that shows a claim, the best move of the cache before the others; where every
    /// move misses the bound, any move. `ply`: distance from the root; `seen`: keys of the line.
    fn next_step(
        &self,
        position: &Position,
        claim: Claim,
        best: u8,
        ply: usize,
        seen: &[u64],
    ) -> Option<Step> {
        let leaf = claim.depth == 0;
        let moves = position.legal_moves();
        let (mut indices, mut scores) = (Vec::new(), Vec::new());
        if leaf {
            forcing_among(position, position.is_check(), &moves, &mut indices);
        } else {
            indices.extend((0_u8..).zip(&moves).map(|(index, _)| index));
            self.cache.read_scores(position.key(), moves.len(), &mut scores);
        }
        let errors = self.searcher.rules.opponent_errors;
        let penalties = ReplyPenalty::at(ply, leaf, errors, &scores);
        let penalty =
            |index: usize| scores.get(index).map_or(0, |&score| penalties.of(score).into());
        let named = Some(best).filter(|best| indices.contains(best));
        let mut candidates = named.into_iter().chain(indices).map(|index| {
            let index = usize::from(index);
            let claim = claim.of_child(penalty(index));
            Step { mv: moves[index], position: position.after(moves[index]), claim, bounds: None }
        });
        let shown = candidates.clone().find_map(|step| self.shown(step, seen));
        shown.or_else(|| candidates.next().filter(|step| step.claim.reaches))
    }

    /// The step if its claim is shown: by a repetition, by the rules, or by bounds in the cache.
    fn shown(&self, step: Step, seen: &[u64]) -> Option<Step> {
        if seen.contains(&step.position.key()) {
            return step.claim.is_shown_by(0, 0).then_some(step);
        }
        if let Some(value) = ended(&step.position, self.settings.tables.as_deref()) {
            return step.claim.is_shown_by(value, value).then_some(step);
        }
        let bounds = self.bounds_of(&step.position, step.claim)?;
        Some(Step { bounds: Some(bounds), ..step })
    }

    /// Bounds in the cache that show a claim.
    fn bounds_of(&self, position: &Position, claim: Claim) -> Option<Bounds> {
        let shows = |bounds: &Bounds| claim.is_shown_by(bounds.lower, bounds.upper);
        let deeper = self.searcher.rules.deeper_answers.then_some(claim.depth);
        self.cache.answer(cache_key(position), claim.depth, deeper, shows)
    }
}
